"""The CloudFront distribution in front of the API. It also serves the shop's web page.

A firewall can protect the distribution. AWS WAF cannot protect an HTTP API directly.
"""

from typing import Any

from aws_cdk import Aws, SecretValue
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from constructs import Construct

from functions.model.public_routes import ORIGIN_SECRET_HEADER
from stacks.nag_suppressions import acknowledge
from stacks.stage import Stage


class ApiDistribution(Construct):
    """The CloudFront distribution. `url`: its address, where clients reach the API.

    CloudFront caches no answer of the API, because answers depend on the caller. `secret`: if there is a firewall,
    CloudFront sends this secret to the API with each request. The API checks the secret, so a request to the API's own
    address cannot bypass the firewall.
    """

    def __init__(self, scope: Construct, id: str, *, stage: Stage, api_id: str, secret: SecretValue | None) -> None:
        super().__init__(scope, id)
        # `unsafe_unwrap` is safe here: it puts a reference to the secret into the template, and not the secret's value.
        # CloudFormation resolves the reference at deploy time.
        headers = {ORIGIN_SECRET_HEADER: secret.unsafe_unwrap()} if secret else None
        self.distribution = distribution = cloudfront.Distribution(
            self,
            "Distribution",
            comment=f"{stage.shop_name} ({stage.name})",
            web_acl_id=stage.web_acl or None,
            http_version=cloudfront.HttpVersion.HTTP2_AND_3,
            default_behavior=cloudfront.BehaviorOptions(
                origin=origins.HttpOrigin(
                    f"{api_id}.execute-api.{Aws.REGION}.{Aws.URL_SUFFIX}",
                    origin_ssl_protocols=[cloudfront.OriginSslPolicy.TLS_V1_2],
                    custom_headers=headers,
                ),
                allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
                cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
                # Forward everything except the Host header: the API accepts only its own host name.
                origin_request_policy=cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
                viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
            ),
        )
        self.url = f"https://{distribution.distribution_domain_name}"
        acknowledge(
            distribution,
            {
                "AwsSolutions-CFR2": "The setting web_acl adds a firewall.",
                "AwsSolutions-CFR1": "Each shop decides which countries it sells to.",
                "AwsSolutions-CFR3": "The API logs every request. CloudFront's log would add IP addresses.",
                "AwsSolutions-CFR4": "CloudFront's default domain does not allow a choice of the TLS version.",
            },
        )

    def add_paths(self, *paths: str, origin: cloudfront.IOrigin, **settings: Any) -> None:
        """Serve these paths from another origin. All other paths still go to the API."""
        for path in paths:
            self.distribution.add_behavior(path, origin, **settings)
