"""The shop's web page behind CloudFront: its files in a private bucket, and the settings for sign-in."""

from urllib.parse import urlsplit

from aws_cdk import Aws, Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_s3 as s3
from constructs import Construct

from functions.model.events import WEBHOOK_EVENTS
from functions.model.languages import language_names
from stacks import PROJECT
from stacks.cloudfront import ApiDistribution
from stacks.identity import Identity
from stacks.nag_suppressions import acknowledge
from stacks.page_files import PageFiles
from stacks.page_policy import SWAGGER_UI_FOLDER, content_security_policy
from stacks.stage import Stage

PAGE_FOLDER = "page"
"""The name of the web page's folder in the project, in the bucket and in the URL."""


class ShopPage(Construct):
    """The shop's web page. `url`: its address. Users sign in at `identity` (Cognito), or at the setting `issuer`."""

    def __init__(
        self, scope: Construct, id: str, *, stage: Stage, front: ApiDistribution, identity: Identity | None
    ) -> None:
        super().__init__(scope, id)
        self.url = f"{front.url}/{PAGE_FOLDER}/"
        if identity:
            identity.allow_redirect_to(self.url)
            sign_in, provider = identity.sign_in, identity.sign_in["url"]
        else:
            sign_in = {
                "issuer": stage.issuer,
                "client_id": stage.page_client_id,
                "scope": stage.page_scope,
                "audience": stage.audience[0],
                "groups_claim": stage.groups_claim,
            }
            provider = "{0.scheme}://{0.netloc}".format(urlsplit(stage.issuer))
        bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.S3_MANAGED,  # no KMS key is needed: CloudFront publishes the files
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            removal_policy=RemovalPolicy.DESTROY,  # each deploy can upload the files again
        )
        index = cloudfront.Function(
            self,
            "Index",
            code=cloudfront.FunctionCode.from_file(file_path=str(PROJECT / "stacks" / "page_index.js")),
            runtime=cloudfront.FunctionRuntime.JS_2_0,
        )
        # The names of CloudFront resources must be unique in the account, across all regions. So add the region.
        name = f"{Stack.of(self).stack_name}-page-{Aws.REGION}"
        access = cloudfront.S3OriginAccessControl(self, "Access", origin_access_control_name=name)
        front.add_paths(
            f"/{PAGE_FOLDER}",
            f"/{PAGE_FOLDER}/*",
            origin=origins.S3BucketOrigin.with_origin_access_control(bucket, origin_access_control=access),
            cache_policy=cloudfront.CachePolicy.CACHING_OPTIMIZED,
            viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.REDIRECT_TO_HTTPS,
            response_headers_policy=self._security_headers(name, provider),
            function_associations=[
                cloudfront.FunctionAssociation(function=index, event_type=cloudfront.FunctionEventType.VIEWER_REQUEST)
            ],
        )
        PageFiles(
            self,
            "Files",
            stage=stage,
            folder=PAGE_FOLDER,
            folders=[PROJECT / PAGE_FOLDER, SWAGGER_UI_FOLDER],
            settings={
                "laptop": False,
                "shop": stage.shop_name,
                "api": "",
                "sign_in": sign_in,
                "language": stage.language,
                "languages": language_names(),
                "webhook_events": [*WEBHOOK_EVENTS],
            },
            bucket=bucket,
            distribution=front.distribution,
        )
        acknowledge(bucket, {"AwsSolutions-S1": "Its content is public, and only CloudFront reads it."})

    def _security_headers(self, name: str, provider: str) -> cloudfront.ResponseHeadersPolicy:
        """Return the security headers of each file. The web page may connect only to its own origin and to `provider`,
        the origin at which users sign in.
        """
        policy = content_security_policy(connect_src=provider)
        return cloudfront.ResponseHeadersPolicy(
            self,
            "Headers",
            response_headers_policy_name=name,
            security_headers_behavior=cloudfront.ResponseSecurityHeadersBehavior(
                content_security_policy=cloudfront.ResponseHeadersContentSecurityPolicy(
                    content_security_policy=policy, override=True
                ),
                content_type_options=cloudfront.ResponseHeadersContentTypeOptions(override=True),
                referrer_policy=cloudfront.ResponseHeadersReferrerPolicy(
                    referrer_policy=cloudfront.HeadersReferrerPolicy.NO_REFERRER, override=True
                ),
                strict_transport_security=cloudfront.ResponseHeadersStrictTransportSecurity(
                    access_control_max_age=Duration.days(365), override=True
                ),
            ),
        )
