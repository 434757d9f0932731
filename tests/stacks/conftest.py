"""One synth for all tests of the stack: both stages in one app, with the Lambdas' source alone as their code."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stacks.stage import STAGES

Resource = dict[str, Any]


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
    """The template of each stage."""
    import app  # noqa: PLC0415  it starts the CDK's Node, which only these tests need
    from stacks.orders_stack import OrdersStack  # noqa: PLC0415

    both = app.build({"laptop": True}, outdir=str(tmp_path_factory.mktemp("cdk.out")))
    OrdersStack(both, "orderstream-prod", stage=STAGES["prod"], code=app.code(laptop=True))
    directory = Path(both.synth().directory)
    files = {stage: directory / f"orderstream-{stage}.template.json" for stage in STAGES}
    return {stage: Template(file, json.loads(file.read_text())) for stage, file in files.items()}


@pytest.fixture(scope="session")
def dev(templates: dict[str, Template]) -> Template:
    return templates["dev"]


@pytest.fixture(scope="session")
def prod(templates: dict[str, Template]) -> Template:
    return templates["prod"]


def listed(value: Any) -> Iterator[Any]:
    """What a template gives as one thing or as a list of them."""
    yield from value if isinstance(value, list) else [value]
