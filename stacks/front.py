"""CloudFront before the API, with a firewall: an HTTP API itself takes none."""

from aws_cdk import Aws, SecretValue
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from constructs import Construct

from functions.model.entrance import FRONT_HEADER
from stacks.acknowledged import acknowledge
from stacks.stage import Stage


class Front(Construct):
    """`url`: where the API answers behind it. Nothing is cached: an answer is for who asked. `secret`: what the api
    asks of each request, so that nobody comes past the firewall to the API's own address."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, api_id: str, secret: SecretValue) -> None:
        super().__init__(scope, id)
        distribution = cloudfront.Distribution(
            self,
            "Distribution",
            comment=f"{stage.shop_name} ({stage.name})",
            web_acl_id=stage.web_acl,
            http_version=cloudfront.HttpVersion.HTTP2_AND_3,
            default_behavior=cloudfront.BehaviorOptions(
                origin=origins.HttpOrigin(
                    f"{api_id}.execute-api.{Aws.REGION}.{Aws.URL_SUFFIX}",
                    origin_ssl_protocols=[cloudfront.OriginSslPolicy.TLS_V1_2],
                    custom_headers={FRONT_HEADER: secret.unsafe_unwrap()},  # a reference, resolved at the deploy
                ),
                allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
                cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
                # All that was sent, but for the name: the API answers to its own alone.
                origin_request_policy=cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
                viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
            ),
        )
        self.url = f"https://{distribution.distribution_domain_name}"
        acknowledge(
            distribution,
            {
                "AwsSolutions-CFR1": "Which countries a shop sells to is the shop's to say.",
                "AwsSolutions-CFR3": "The API's own log has every request; CloudFront's would add addresses of people.",
                "AwsSolutions-CFR4": "CloudFront's own name leaves no choice of protocol; a shop's own would.",
            },
        )
