"""The CloudFront distribution of the API and the web page, which a firewall can protect, unlike an HTTP API."""

from typing import Any

from aws_cdk import Aws, Duration, SecretValue, Stack
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from constructs import Construct

from functions.model.public_routes import ORIGIN_SECRET_HEADER, cached_paths
from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage

CACHED_ERRORS = (400, 403, 404, 405, 414, 500, 501, 502, 503, 504)
"""The error statuses that CloudFront caches for 10 seconds by default.

https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/HTTPStatusCodes.html
"""


class ApiDistribution(Construct):
    """The CloudFront distribution. `url`: where clients reach the API. `target`: the distribution's name at AWS.

    It caches only answers of the public paths, for as long as Cache-Control allows, with the access token in the key.
    With a firewall, CloudFront sends `secret` with each request, so the API's own address accepts no other.
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage, api_id: str, secret: SecretValue | None) -> None:
        super().__init__(scope, id)
        # `unsafe_unwrap` is safe here: it puts a reference to the secret into the template, and not the secret's value.
        # CloudFormation resolves the reference at deploy time.
        headers = {ORIGIN_SECRET_HEADER: secret.unsafe_unwrap()} if secret else None
        behavior: dict[str, Any] = {
            "origin": origins.HttpOrigin(
                f"{api_id}.execute-api.{Aws.REGION}.{Aws.URL_SUFFIX}",
                origin_ssl_protocols=[cloudfront.OriginSslPolicy.TLS_V1_2],
                custom_headers=headers,
            ),
            "allowed_methods": cloudfront.AllowedMethods.ALLOW_ALL,
            # Forward everything except the Host header: the API accepts only its own host name.
            "origin_request_policy": cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
            "viewer_protocol_policy": cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
        }
        cached = cloudfront.BehaviorOptions(**behavior, cache_policy=self._cache_policy(stage))
        self.distribution = distribution = cloudfront.Distribution(
            self,
            "Distribution",
            comment=f"{stage.shop_name} ({stage.name})",
            **self._domain_settings(stage),
            web_acl_id=stage.web_acl or None,
            http_version=cloudfront.HttpVersion.HTTP2_AND_3,
            default_behavior=cloudfront.BehaviorOptions(
                **behavior, cache_policy=cloudfront.CachePolicy.CACHING_DISABLED
            ),
            additional_behaviors=dict.fromkeys(cached_paths(), cached),
            error_responses=[
                cloudfront.ErrorResponse(http_status=status, ttl=Duration.seconds(0)) for status in CACHED_ERRORS
            ],
        )
        self.target: str = distribution.distribution_domain_name
        self.url = f"https://{stage.domain or self.target}"
        acknowledge(
            distribution,
            {
                "AwsSolutions-CFR2": "The setting web_acl adds a firewall.",
                "AwsSolutions-CFR1": "Each shop decides which countries it sells to.",
                "AwsSolutions-CFR3": "The API logs every request. CloudFront's log would add IP addresses.",
                "AwsSolutions-CFR4": "CloudFront's default domain does not allow a choice of the TLS version.",
            },
        )

    def _domain_settings(self, stage: Stage) -> dict[str, Any]:
        if not stage.domain:
            return {}
        return {
            "domain_names": [stage.domain],
            "certificate": acm.Certificate.from_certificate_arn(self, "Certificate", stage.certificate),
            "minimum_protocol_version": cloudfront.SecurityPolicyProtocol.TLS_V1_2_2021,
        }

    def _cache_policy(self, stage: Stage) -> cloudfront.CachePolicy:
        """Return the policy of the public paths: the API decides what is cached, and for how long.

        API Gateway adds CORS headers to an answer only if the request has an Origin. So the cache key has the Origin.
        """
        return cloudfront.CachePolicy(
            self,
            "Catalog",
            # The names of CloudFront resources must be unique in the account, across all regions. So add the region.
            cache_policy_name=f"{Stack.of(self).stack_name}-catalog-{Aws.REGION}",
            min_ttl=Duration.seconds(0),
            default_ttl=Duration.seconds(0),
            max_ttl=Duration.seconds(max(1, stage.public_cache_seconds)),
            header_behavior=cloudfront.CacheHeaderBehavior.allow_list("Authorization", "Origin"),
            query_string_behavior=cloudfront.CacheQueryStringBehavior.all(),
            cookie_behavior=cloudfront.CacheCookieBehavior.none(),
            enable_accept_encoding_gzip=True,
            enable_accept_encoding_brotli=True,
        )

    def add_paths(self, *paths: str, origin: cloudfront.IOrigin, **settings: Any) -> None:
        """Serve these paths from another origin. All other paths still go to the API."""
        for path in paths:
            self.distribution.add_behavior(path, origin, **settings)
