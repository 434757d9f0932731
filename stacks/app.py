"""Build and synthesize the CDK app: `python -m stacks.app`. stacks/synth_cache.py runs this command."""

import json
import sys

# Import `stacks` before aws_cdk: the import of `stacks` selects the Node with which aws_cdk runs.
from stacks import PROJECT, bundle, stage, synth_cache  # isort: skip
from aws_cdk import Annotations, App, AssetHashType
from aws_cdk import aws_lambda as lambda_

from stacks.deploy_role_stack import DeployRoleStack
from stacks.firewall_stack import FirewallStack
from stacks.mail_domain_stack import MailDomainStack
from stacks.nag_suppressions import add_nag_checks
from stacks.orders_stack import OrdersStack
from tools.declarations import InvalidDeclarations

BOOTSTRAP_QUALIFIER = "@aws-cdk/core:bootstrapQualifier"
VALIDATE = "@aws-cdk/core:validateAgainstDefaultRules"


def build_app() -> App:
    """Return the app to synthesize. Raises stage.InvalidSetting. With `laptop=true`, its bundle has no packages."""
    laptop = synth_cache.is_laptop(synth_cache.context_from_environment())
    flags = json.loads((PROJECT / "cdk.json").read_text())["context"]
    if laptop:  # skip the CDK's validation of the templates: it doubles the time, and `make synth` includes it
        flags[VALIDATE] = False
    app = App(context=flags)
    merged = app.node.get_all_context()
    settings = stage.read_settings(merged)
    if settings.bootstrap_qualifier:
        app.node.set_context(BOOTSTRAP_QUALIFIER, settings.bootstrap_qualifier)
    stack = OrdersStack(
        app, f"orderstream-{settings.name}", stage=settings, code=_lambda_code(laptop, settings.trim_bundle)
    )
    if settings.mail_domain:
        MailDomainStack(app, f"orderstream-{settings.name}-mail", stage=settings)
    if settings.deploy_from:
        DeployRoleStack(app, f"orderstream-{settings.name}-deploy", stage=settings)
    if settings.firewall:
        FirewallStack(app, f"orderstream-{settings.name}-firewall", stage=settings)
    if not laptop and not bundle.find_python(bundle.LAMBDA_TARGET):
        Annotations.of(stack).add_warning_v2(
            "orderstream:compiled",
            f"Python {bundle.LAMBDA_TARGET.python} was not found to compile the bundle: cold starts take longer",
        )
    add_nag_checks(app)
    synth_cache.check_inputs(sys.modules.values(), merged)
    return app


def _lambda_code(laptop: bool, trim: bool) -> lambda_.Code:
    """Return the code bundle of all Lambdas, so that writers and stream readers have the same version of the code."""
    folder, digest = bundle.build_bundle(source_only=laptop, trim=trim)
    return lambda_.Code.from_asset(str(folder), asset_hash=digest, asset_hash_type=AssetHashType.CUSTOM)


if __name__ == "__main__":
    try:
        build_app().synth()
    except InvalidDeclarations as wrong:
        sys.exit(str(wrong))
