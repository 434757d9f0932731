"""Synthesized templates, with helpers to find their resources."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stacks import PROJECT, synth_cache
from stacks.stage import EXAMPLE_STAGES

Resource = dict[str, Any]


VALIDATED = {"@aws-cdk/core:validateAgainstDefaultRules": True}
"""The setting that validates a template. `make synth` validates by default, but a template for the laptop does not."""


CREATE_IT = "add a function that creates it to stacks/orders_stack.py"


MODULES = sorted(path.stem for path in (PROJECT / "functions/handlers").glob("[!_]*.py") if path.stem != "canary")
"""The modules of the Lambdas of every stage. Only a stage with the setting `canary_minutes` has the canary."""


@dataclass(frozen=True)
class SynthesizedTemplate:
    """A synthesized template, with helpers to find its resources."""

    file: Path
    body: dict[str, Any]

    def resources(self, resource_type: str) -> dict[str, Resource]:
        """The resources of a type, by logical id."""
        resources: dict[str, Resource] = self.body["Resources"]
        return {id: resource for id, resource in resources.items() if resource["Type"] == resource_type}

    def properties(self, resource_type: str) -> dict[str, Any]:
        """The properties of the resources of a type, by logical id."""
        return {id: resource["Properties"] for id, resource in self.resources(resource_type).items()}

    def only_properties(self, resource_type: str) -> Any:
        """The properties of the only resource of a type."""
        (properties,) = self.properties(resource_type).values()
        return properties

    def function(self, module: str) -> str:
        """The logical id of the function of a module."""
        handler = f"functions.handlers.{module}.handler"
        ids = [id for id, it in self.properties("AWS::Lambda::Function").items() if it["Handler"] == handler]
        if not ids:
            pytest.fail(f"functions/handlers/{module}.py: the stack has no Lambda of it: {CREATE_IT}", pytrace=False)
        (id,) = ids
        return id

    def mapping(self, module: str) -> Any:
        """The properties of the only event source mapping of a module's function."""
        mappings = self.properties("AWS::Lambda::EventSourceMapping").values()
        (mapping,) = [it for it in mappings if it["FunctionName"] == {"Ref": self.function(module)}]
        return mapping

    def statements(self, module: str) -> list[Any]:
        """Return all policy statements of the role of a module's function."""
        role = self.properties("AWS::Lambda::Function")[self.function(module)]["Role"]["Fn::GetAtt"][0]
        policies = self.properties("AWS::IAM::Policy").values()
        attached = [policy for policy in policies if {"Ref": role} in policy["Roles"]]
        return [statement for policy in attached for statement in policy["PolicyDocument"]["Statement"]]


def synthesize(stack: str, **context: object) -> SynthesizedTemplate:
    """Return the cached template of a stack with these settings, with the source of the functions as their code."""
    file = synth_cache.get_assembly({"laptop": "true", "stages": EXAMPLE_STAGES, **context}) / f"{stack}.template.json"
    return SynthesizedTemplate(file, json.loads(file.read_text()))


def as_list(value: Any) -> Iterator[Any]:
    """Yield the elements of a template value that is either one element or a list."""
    yield from value if isinstance(value, list) else [value]
