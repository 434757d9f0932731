"""Facts about JWT authorizers of API Gateway's HTTP APIs. "$echo" is a function that returns the claims it gets."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Request, ServiceProbe

_PASSWORD = "Probe-only-1-password"
_USER = {"UserPoolId": "$pool", "Username": "probe"}


_cognito = partial(Request.of, "cognito-idp")
_NEW_POOL = _cognito("create_user_pool", PoolName="$prefix", saves={"pool": "UserPool.Id"})
_gateway = partial(Request.of, "apigatewayv2", ApiId="$api")


def _signed_in_user(*groups: str) -> tuple[Request, ...]:
    """Return the requests that create a user in these groups and sign the user in."""
    flows = ["ALLOW_ADMIN_USER_PASSWORD_AUTH", "ALLOW_REFRESH_TOKEN_AUTH"]
    app = {"UserPoolId": "$pool", "ClientName": "probe", "ExplicitAuthFlows": flows}
    return (
        _NEW_POOL,
        _cognito("create_user_pool_client", **app, saves={"client": "UserPoolClient.ClientId"}),
        _cognito("admin_create_user", MessageAction="SUPPRESS", **_USER),
        _cognito("admin_set_user_password", Password=_PASSWORD, Permanent=True, **_USER),
        *(_cognito("create_group", UserPoolId="$pool", GroupName=group) for group in groups),
        *(_cognito("admin_add_user_to_group", GroupName=group, **_USER) for group in groups),
        _cognito(
            "admin_initiate_auth",
            UserPoolId="$pool",
            ClientId="$client",
            AuthFlow="ADMIN_USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": "probe", "PASSWORD": _PASSWORD},
            saves={"token": "AuthenticationResult.AccessToken"},
        ),
    )


_API = (
    Request.of(
        "apigatewayv2",
        "create_api",
        Name="$prefix",
        ProtocolType="HTTP",
        saves={"api": "ApiId", "endpoint": "ApiEndpoint"},
    ),
    _gateway(
        "create_authorizer",
        Name="jwt",
        AuthorizerType="JWT",
        IdentitySource=["$request.header.Authorization"],
        JwtConfiguration={"Audience": ["$client"], "Issuer": "https://cognito-idp.$region.amazonaws.com/$pool"},
        saves={"authorizer": "AuthorizerId"},
    ),
    _gateway(
        "create_integration",
        IntegrationType="AWS_PROXY",
        IntegrationUri="$echo",
        PayloadFormatVersion="2.0",
        saves={"integration": "IntegrationId"},
    ),
    _gateway(
        "create_route",
        RouteKey="GET /claims",
        AuthorizationType="JWT",
        AuthorizerId="$authorizer",
        Target="integrations/$integration",
    ),
    _gateway("create_stage", StageName="$default", AutoDeploy=True),
)


def _call_as_user_in(
    *groups: str,
    returns: Mapping[str, Any],
    token: str = "$token",  # noqa: S107  a name in a probe
) -> tuple[Request, ...]:
    """Return the requests that create a user in these groups and an API, and call the API with the user's token."""
    api = {"ApiId": "$api", "ApiEndpoint": "$endpoint", "Path": "/claims"}
    return (*_signed_in_user(*groups), *_API, Request.of("http", "get", **api, Token=token, returns=returns))


PROBES = (
    ServiceProbe.of(
        "a_list_claim_is_a_text_in_brackets",
        'An HTTP API passes a claim that is a list as a text: the groups of a user become "[staff]".',
        *_call_as_user_in("staff", returns={"Status": 200, 'Body."cognito:groups"': "[staff]"}),
        source=sources.JWT_AUTHORIZER,
        open_question=f"[Two groups are a text in brackets]({sources.CLAIMS.url}). Is one group, too?",
    ),
    ServiceProbe.of(
        "a_list_claim_is_separated_by_spaces",
        'An HTTP API separates the elements of a list claim by spaces, such as "[staff warehouse]".',
        *_call_as_user_in(
            "staff",
            "warehouse",
            returns={
                "Body.\"cognito:groups\" == '[staff warehouse]' || Body.\"cognito:groups\" == '[warehouse staff]'": True
            },
        ),
        source=sources.JWT_AUTHORIZER,
        observed_by_others=sources.CLAIMS,
    ),
    ServiceProbe.of(
        "a_group_name_with_a_comma_stays_whole",
        'An HTTP API passes the group "a,staff" as the text "[a,staff]".',
        *_call_as_user_in("a,staff", returns={"Status": 200, 'Body."cognito:groups"': "[a,staff]"}),
        source=sources.JWT_AUTHORIZER,
        open_question="AWS's page shows no claim that is a list. Does the gateway keep a comma, without adding quotes?",
    ),
    ServiceProbe.of(
        "a_group_name_has_no_spaces",
        "Cognito refuses to create a group with a space in its name.",
        _NEW_POOL,
        _cognito("create_group", UserPoolId="$pool", GroupName="a staff", error="InvalidParameterException"),
        source=sources.CREATE_GROUP,
    ),
    ServiceProbe.of(
        "a_user_without_groups_has_no_claim",
        "The access token of a user without groups has no claim cognito:groups.",
        *_call_as_user_in(returns={"Status": 200, 'Body."cognito:groups"': None}),
        source=sources.JWT_AUTHORIZER,
        open_question=(
            "[An ID token has no such claim](https://github.com/aws-amplify/amplify-flutter/issues/413). "
            "Has an access token one?"
        ),
    ),
    ServiceProbe.of(
        "a_number_claim_is_a_text",
        "An HTTP API passes a claim that is a number as a text.",
        *_call_as_user_in(returns={"type(Body.exp)": "string", "Body.token_use": "access"}),
        source=sources.JWT_AUTHORIZER,
        observed_by_others=sources.CLAIMS,
    ),
    ServiceProbe.of(
        "a_forged_token_is_refused",
        "A JWT authorizer answers a request with an invalid token with 401.",
        *_call_as_user_in(returns={"Status": 401}, token="$token-forged"),
        source=sources.JWT_AUTHORIZER,
    ),
)
