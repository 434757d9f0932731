"""The version of the code before the item formats changed, from the history of the repository."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import pytest

from local import deploy
from local.deploy import DeployedStack
from local.shop_client import PROJECT, STACK_NAME, RunningShop
from local.up import DEPLOYED_SIGNAL

FIRST_OF_THE_NEW_FORMATS = "functions/shop/fulfilment.py"
"""The first commit of the new item formats added this file: paid orders are fulfilled in one transaction."""
SYNTHESIZE = """
import json, sys
from local.up import synthesize_template
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(synthesize_template(), file)
"""
LOCK_SECONDS = 15
"""How long a killed tool holds its lock in the rehearsal. Elsewhere it is a minute."""
RUN_OPS = f"""
import sys
from functools import partial
from pathlib import Path
from local import shop_client
shop_client.find = partial(shop_client.find, Path(sys.argv.pop(1)))
from ops.__main__ import main
from ops.scan import checkpoint
checkpoint.LOCK_SECONDS = {LOCK_SECONDS}
main()
"""
API = "functions.handlers.api.handler"


@dataclass(frozen=True)
class Version:
    """A version of the code. `tree`: the folder of its checkout."""

    name: str
    tree: Path

    @cached_property
    def template(self) -> dict[str, Any]:
        """The template of the version's local stack."""
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as file:
            subprocess.run([sys.executable, "-c", SYNTHESIZE, file.name], cwd=self.tree, check=True)
            return dict(json.load(file))

    def start_ops(self, state: Path, *words: str, output: Any = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start an operator tool of this version on the shop with its files in `state`."""
        command = [sys.executable, "-c", RUN_OPS, str(state), *words]
        return subprocess.Popen(command, cwd=self.tree, stdout=output, stderr=subprocess.STDOUT, text=True)

    def deploy(self, shop: RunningShop) -> None:
        """Deploy the template and the functions of this version to a running shop, as CloudFormation does."""
        variables = {"PROVIDER_URL": shop.provider_url, "PUBLIC_URL": shop.api_url}
        deploy.deploy(shop.aws, STACK_NAME, self.template, self.tree / "functions", variables)
        os.kill(shop.process_id, DEPLOYED_SIGNAL)

    def update_functions(self, shop: RunningShop, handlers: list[str], source: Path | None = None) -> None:
        """Change the code of these functions to that of this version, one after the other.

        `source`: the folder with their code, if it is not that of the version.
        """
        client = boto3.client("lambda", **shop.aws.client_options)
        key = deploy.upload_code(shop.aws, source or self.tree / "functions")
        for handler in handlers:
            name = shop.stack.function_name(handler)
            client.update_function_code(FunctionName=name, S3Bucket=deploy.ASSETS_BUCKET, S3Key=key)


def handlers(stack: DeployedStack) -> list[str]:
    """Return the handlers of all functions in the order of a deploy: the API changes last."""
    found = (resource["Properties"].get("Handler") for resource in stack.template["Resources"].values())
    return sorted({one for one in found if one and one.startswith("functions.")}, key=lambda one: (one == API, one))


def current_version() -> Version:
    return Version("new", PROJECT)


def previous_version() -> Version:
    """Return the version before the item formats changed. Skip the test if the repository has no such history."""
    added = _git("log", "--diff-filter=A", "--format=%H", "--", FIRST_OF_THE_NEW_FORMATS).split()
    commit = _git("rev-parse", "--verify", "--quiet", f"{added[-1]}~1").strip() if added else ""
    if not commit:
        pytest.skip("This checkout has no history with the previous item formats: use a clone with its whole history.")
    tree = PROJECT / "build" / "previous" / commit[:12]
    if not tree.exists():
        tree.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=tree.parent) as folder:
            new = Path(folder) / "tree"
            new.mkdir()
            packed = subprocess.run(["git", "archive", commit], cwd=PROJECT, check=True, stdout=subprocess.PIPE).stdout
            subprocess.run(["tar", "-x", "-C", str(new)], input=packed, check=True)
            (new / "node_modules").symlink_to(PROJECT / "node_modules")
            new.rename(tree)
    return Version("previous", tree)


def _git(*words: str) -> str:
    """Return the output of a git command, or "" if it fails or git is not installed."""
    try:
        return subprocess.run(["git", *words], cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
