"""Two versions of the code for the rehearsal of an upgrade: the current code, and a copy with a renamed attribute."""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3

from local.laptop import deploy
from local.laptop.deploy import DeployedStack
from local.laptop.shop_client import PROJECT, STACK_NAME, RunningShop
from local.up import DEPLOYED_SIGNAL
from proof.support.example_migrations import PRESENT_NAME
from tests.support.applied_diff import copy_project

SYNTHESIZE = """
import json, sys
from local.up import synthesize_template
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(synthesize_template(), file)
"""
LOCK_SECONDS = 15
"""How long a killed tool holds its lock in the rehearsal. The default is a minute."""
RUN_OPS = f"""
import sys
from pathlib import Path
from local.laptop import shop_client
shop_client.STATE_FOLDER = Path(sys.argv.pop(1))
from ops.__main__ import main
from ops.scan import checkpoint
checkpoint.LOCK_SECONDS = {LOCK_SECONDS}
main()
"""
API = "functions.handlers.api.handler"
NEWER_NAME = "counted_type"
ROW = """CONTRIBUTION = Row(
    e.Contribution,
    "COUNTED#{source} / COUNTED",
"""
MIGRATION = """
from functions.model.table import CONTRIBUTION
from ops.migration import rename_stored_names

MIGRATION = rename_stored_names(CONTRIBUTION, description="contributions have a plain name")
"""


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

    def start_ops(self, state: Path, *words: str) -> subprocess.Popen[str]:
        """Start an operator tool of this version on the shop with its files in `state`."""
        command = [sys.executable, "-c", RUN_OPS, str(state), *words]
        return subprocess.Popen(command, cwd=self.tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def deploy(self, shop: RunningShop) -> None:
        """Deploy the template and the functions of this version to a running shop, as CloudFormation does."""
        variables = {"PROVIDER_URL": shop.provider_url, "PUBLIC_URL": shop.api_url}
        deploy.deploy(shop.aws, STACK_NAME, self.template, self.tree / "functions", variables)
        os.kill(shop.process_id, DEPLOYED_SIGNAL)

    def update_functions(self, shop: RunningShop, handlers: list[str]) -> None:
        """Give these functions the code of this version, one function after the other."""
        client = boto3.client("lambda", **shop.aws.client_options)
        key = deploy.upload_code(shop.aws, self.tree / "functions")
        for handler in handlers:
            name = shop.stack.function_name(handler)
            client.update_function_code(FunctionName=name, S3Bucket=deploy.ASSETS_BUCKET, S3Key=key)


def handlers(stack: DeployedStack) -> list[str]:
    """Return the handlers of all functions in the order of a deploy: the API changes last."""
    found = (resource["Properties"].get("Handler") for resource in stack.template["Resources"].values())
    return sorted({one for one in found if one and one.startswith("functions.")}, key=lambda one: (one == API, one))


def current_version() -> Version:
    return Version("old", PROJECT)


def newer_version(folder: Path) -> Version:
    """Write a copy of the project into an empty folder, in which contributions have another attribute name."""
    copy_project(folder)
    for path in (*folder.glob("functions/**/*.py"), *folder.glob("ops/**/*.py"), *folder.glob("local/*.py")):
        text = path.read_text(encoding="utf-8")
        if PRESENT_NAME in text:
            path.write_text(re.sub(rf"\b{PRESENT_NAME}\b", NEWER_NAME, text), encoding="utf-8")
    table = folder / "functions" / "model" / "table.py"
    text = table.read_text(encoding="utf-8")
    assert text.count(ROW) == 1, "the declaration of the row has changed: change ROW"
    table.write_text(
        text.replace(ROW, f'{ROW}    former_names={{"{NEWER_NAME}": "{PRESENT_NAME}"}},\n'), encoding="utf-8"
    )
    (folder / "ops" / "migrations" / "m0001_contributions_have_a_plain_name.py").write_text(MIGRATION, encoding="utf-8")
    return Version("new", folder)
