"""The CDK app: `cdk synth` and `cdk deploy` run it, and so may you (`python app.py`), without credentials or Docker."""

import json
import sys
from collections.abc import Mapping

from stacks import PROJECT, bundle, stage  # isort: skip  # first: it tells the CDK where its Node is
from aws_cdk import Annotations, App, AssetHashType
from aws_cdk import aws_lambda as lambda_

from stacks.acknowledged import guard
from stacks.firewall_stack import FirewallStack
from stacks.orders_stack import OrdersStack


def build(context: Mapping[str, object] | None = None, outdir: str | None = None) -> App:
    """The app, ready to be synthesized. The command line's context goes before `context`, that before cdk.json's.

    `laptop=true` leaves the Lambdas' packages out: the local AWS runs them on the packages of its own Python.
    Raises stage.BadSetting.
    """
    flags = json.loads((PROJECT / "cdk.json").read_text())["context"]
    app = App(context={**flags, **(context or {})}, outdir=outdir)
    settings = stage.read(app.node.get_all_context())
    laptop = app.node.try_get_context("laptop") in (True, "true")
    stack = OrdersStack(app, f"orderstream-{settings.name}", stage=settings, code=code(laptop))
    if settings.firewall:
        FirewallStack(app, f"orderstream-{settings.name}-firewall", stage=settings)
    if settings.protect and settings.sender.endswith(".example"):
        Annotations.of(stack).add_warning_v2("orderstream:sender", "mails would come from an example: set sender")
    if not laptop and not bundle.python_of(bundle.LAMBDA):
        Annotations.of(stack).add_warning_v2(
            "orderstream:compiled",
            f"no Python {bundle.LAMBDA.python} here to compile the bundle with: cold starts take longer",
        )
    guard(app)
    return app


def code(laptop: bool) -> lambda_.Code:
    """What every Lambda runs: one folder for all, so that who writes the stream and who reads it are of one version."""
    folder, digest = bundle.bundle(source_only=laptop)
    return lambda_.Code.from_asset(str(folder), asset_hash=digest, asset_hash_type=AssetHashType.CUSTOM)


if __name__ == "__main__":
    try:
        build().synth()
    except stage.BadSetting as wrong:
        sys.exit(f"{wrong}.")
