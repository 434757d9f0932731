"""One synth for all tests of the stack: both stages in one app, and one with all other settings, with the Lambdas'
source alone as their code."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from stacks.stage import STAGES

Resource = dict[str, Any]

OTHER = replace(
    STAGES["prod"],
    name="other",
    sender="orders@shop.test",
    billing="provisioned",
    read_units=("table:10-400", "*:5-100"),
    write_units=("*:5-50", "GSI2:1-20"),
    utilization=60,
    table_class="STANDARD_INFREQUENT_ACCESS",
    monthly_backup_days=0,
    backup_copy_vault="arn:aws:backup:eu-west-1:111122223333:backup-vault:copies",
    snap_start=True,
    firewall=True,
    web_acl="arn:aws:wafv2:us-east-1:111122223333:global/webacl/name/id",
)
"""A stage in which everything is set that dev and prod leave alone."""


@dataclass(frozen=True)
class Template:
    """A synthesized stack, with what tests look for."""

    file: Path
    body: dict[str, Any]

    def all(self, resource_type: str) -> dict[str, Resource]:
        """The resources of a type, by logical id."""
        resources: dict[str, Resource] = self.body["Resources"]
        return {id: resource for id, resource in resources.items() if resource["Type"] == resource_type}

    def properties(self, resource_type: str) -> dict[str, Any]:
        """The properties of the resources of a type, by logical id."""
        return {id: resource["Properties"] for id, resource in self.all(resource_type).items()}

    def only(self, resource_type: str) -> Any:
        """The properties of the only resource of a type."""
        (properties,) = self.properties(resource_type).values()
        return properties

    def function(self, module: str) -> str:
        """The logical id of the function of a module."""
        handler = f"functions.{module}.handler"
        (id,) = [id for id, it in self.properties("AWS::Lambda::Function").items() if it["Handler"] == handler]
        return id

    def mapping(self, module: str) -> Any:
        """The properties of the only event source mapping of a module's function."""
        mappings = self.properties("AWS::Lambda::EventSourceMapping").values()
        (mapping,) = [it for it in mappings if it["FunctionName"] == {"Ref": self.function(module)}]
        return mapping

    def statements(self, module: str) -> list[Any]:
        """All that the role of a module's function allows."""
        role = self.properties("AWS::Lambda::Function")[self.function(module)]["Role"]["Fn::GetAtt"][0]
        policies = self.properties("AWS::IAM::Policy").values()
        attached = [policy for policy in policies if {"Ref": role} in policy["Roles"]]
        return [statement for policy in attached for statement in policy["PolicyDocument"]["Statement"]]


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    """The template of each stage, of the other, and of its firewall."""
    import app  # noqa: PLC0415  it starts the CDK's Node, which only these tests need
    from stacks.firewall_stack import FirewallStack  # noqa: PLC0415
    from stacks.orders_stack import OrdersStack  # noqa: PLC0415

    both = app.build({"laptop": True}, outdir=str(tmp_path_factory.mktemp("cdk.out")))
    OrdersStack(both, "orderstream-prod", stage=STAGES["prod"], code=app.code(laptop=True))
    OrdersStack(both, "orderstream-other", stage=OTHER, code=app.code(laptop=True))
    FirewallStack(both, "orderstream-firewall", stage=OTHER)
    directory = Path(both.synth().directory)
    files = {name: directory / f"orderstream-{name}.template.json" for name in (*STAGES, "other", "firewall")}
    return {stage: Template(file, json.loads(file.read_text())) for stage, file in files.items()}


@pytest.fixture(scope="session")
def dev(templates: dict[str, Template]) -> Template:
    return templates["dev"]


@pytest.fixture(scope="session")
def prod(templates: dict[str, Template]) -> Template:
    return templates["prod"]


@pytest.fixture(scope="session")
def other(templates: dict[str, Template]) -> Template:
    return templates["other"]


def listed(value: Any) -> Iterator[Any]:
    """What a template gives as one thing or as a list of them."""
    yield from value if isinstance(value, list) else [value]
