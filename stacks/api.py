"""The HTTP API with one Lambda behind it. The authorizer checks the access token of
each request, except on ROUTES_WITHOUT_AUTHORIZER."""

import json

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from functions.model.public_routes import PAYMENT_STARTER_ROUTES, ROUTES_WITHOUT_AUTHORIZER, WEBHOOK_ROUTE
from stacks.identity import Identity
from stacks.log_group import LogGroup
from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage

# The methods do not include OPTIONS, because a browser's preflight request has no token. API Gateway answers OPTIONS
# requests itself if no route matches them.
AUTHORIZED_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# These fields are enough to find a request and its log lines. The log has no IP address, user agent or path, because
# these can identify a person.
ACCESS_LOG = {
    "requestId": "$context.requestId",
    "time": "$context.requestTime",
    "route": "$context.routeKey",
    "status": "$context.status",
    "responseLength": "$context.responseLength",
    "latencyMilliseconds": "$context.responseLatency",
    "integrationMilliseconds": "$context.integrationLatency",
    "integrationError": "$context.integrationErrorMessage",
    "authorizerError": "$context.authorizer.error",
}


class ShopApi(Construct):
    """The HTTP API and its routes, with an `access_log`. `function`: the Lambda or alias that the API calls."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: Stage,
        function: lambda_.IFunction,
        payment_starter: lambda_.IFunction,
        identity: Identity | None,
    ) -> None:
        super().__init__(scope, id)
        api = apigateway.HttpApi(
            self,
            "Api",
            description=f"{stage.shop_name} ({stage.name})",
            create_default_stage=False,
            cors_preflight=_cors_options(stage) if stage.cors_origins else None,
        )
        authorizer: apigateway.IHttpRouteAuthorizer
        if identity:
            authorizer = authorizers.HttpUserPoolAuthorizer("Token", identity.pool, user_pool_clients=[identity.client])
        else:
            authorizer = authorizers.HttpJwtAuthorizer("Token", stage.issuer, jwt_audience=list(stage.audience))
        calling = integrations.HttpLambdaIntegration("Lambda", function, scope_permission_to_route=False)
        methods = [apigateway.HttpMethod(method) for method in AUTHORIZED_METHODS]
        api.add_routes(path="/{proxy+}", methods=methods, integration=calling, authorizer=authorizer)
        starting = integrations.HttpLambdaIntegration(
            "PaymentStarter", payment_starter, scope_permission_to_route=False
        )
        for route in PAYMENT_STARTER_ROUTES:
            if route not in ROUTES_WITHOUT_AUTHORIZER:
                method, path = route.split()
                only = [apigateway.HttpMethod(method)]
                api.add_routes(path=path, methods=only, integration=starting, authorizer=authorizer)
        for route, reason in ROUTES_WITHOUT_AUTHORIZER.items():
            method, path = route.split()
            called = starting if route in PAYMENT_STARTER_ROUTES else calling
            [public] = api.add_routes(path=path, methods=[apigateway.HttpMethod(method)], integration=called)
            acknowledge(public, {"AwsSolutions-APIG4": reason})
            if route == WEBHOOK_ROUTE:
                webhook = public
        self.access_log = log = LogGroup(self, "AccessLog", stage=stage, vended_by="apis")
        deployed = apigateway.CfnStage(
            self,
            "Stage",
            api_id=api.api_id,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=apigateway.CfnStage.AccessLogSettingsProperty(
                destination_arn=log.log_group_arn, format=json.dumps(ACCESS_LOG)
            ),
            default_route_settings=apigateway.CfnStage.RouteSettingsProperty(
                throttling_rate_limit=stage.requests_per_second,
                throttling_burst_limit=stage.burst_requests,
            ),
            route_settings={
                WEBHOOK_ROUTE: {
                    "ThrottlingRateLimit": stage.webhooks_per_second,
                    "ThrottlingBurstLimit": stage.burst_webhooks,
                }
            },
        )
        deployed.node.add_dependency(webhook)  # API Gateway rejects settings of a route that does not exist yet
        self.url: str = api.api_endpoint
        self.api_id: str = api.api_id
        self._stage = deployed

    def use_domain(self, domain: str, certificate: str) -> str:
        """Let clients reach the API at its own domain. Return the name to which the domain's DNS record must point."""
        names = apigateway.CfnDomainName
        name = apigateway.CfnDomainName(
            self,
            "Domain",
            domain_name=domain,
            domain_name_configurations=[
                names.DomainNameConfigurationProperty(
                    certificate_arn=certificate, endpoint_type="REGIONAL", security_policy="TLS_1_2"
                )
            ],
        )
        mapping = apigateway.CfnApiMapping(
            self, "Mapping", api_id=self.api_id, domain_name=name.ref, stage=self._stage.ref
        )
        mapping.node.add_dependency(self._stage)
        self.url = f"https://{domain}"
        target: str = name.attr_regional_domain_name
        return target


def _cors_options(stage: Stage) -> apigateway.CorsPreflightOptions:
    return apigateway.CorsPreflightOptions(
        allow_origins=list(stage.cors_origins),
        allow_methods=[apigateway.CorsHttpMethod(method) for method in AUTHORIZED_METHODS],
        allow_headers=["authorization", "content-type", "idempotency-key", "if-none-match"],
        # API Gateway adds apigw-requestid to each answer. An answer of its own, such as 429, has no x-request-id.
        expose_headers=["apigw-requestid", "etag", "idempotent-replayed", "location", "retry-after", "x-request-id"],
        max_age=Duration.hours(1),
    )
