"""Tests the commands of runbooks: operators have the permissions and all the values that the commands need."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proof.support.synthesized import SynthesizedTemplate
from stacks import PROJECT
from stacks.alarm_definitions import RUNBOOKS
from tests.stacks.test_permissions import operators_may

PAGES = sorted((PROJECT / RUNBOOKS).glob("*.md"))
CODE = re.compile(r"^ *```\w*\n(.*?)^ *```$|`([^`]+)`", re.DOTALL | re.MULTILINE)
AWS = re.compile(r"\baws\s+([a-z0-9-]+)\s+([a-z0-9-]+)([^;|&\n]*(?:\\\n[^;|&\n]*)*)")
VARIABLE = re.compile(r"\$([A-Z][A-Z_]+)")
NAMED = re.compile(r"^\| `\$([A-Z_]+)` \| (.*) \|$", re.MULTILINE)
ADMINISTERS = "need an administrator of the account"
SERVICES = {"s3api": "s3"}


def parts(page: Path) -> Iterator[str]:
    """Return the sections of a page that a user with the operators' role can follow."""
    before, *sections = page.read_text(encoding="utf-8").split("\n## ")
    if ADMINISTERS not in before:
        yield before
        yield from (section for section in sections if ADMINISTERS not in section)


def code_in(text: str) -> list[str]:
    return [block or inline for block, inline in CODE.findall(text)]


def typed(text: str) -> Iterator[tuple[str, str]]:
    """Yield the IAM action and the arguments of each AWS command."""
    for code in code_in(text):
        for service, operation, rest in AWS.findall(code):
            action = "".join(word.capitalize() for word in operation.split("-"))
            yield f"{SERVICES.get(service, service)}:{action}", rest.replace("--event-bus-name $BUS", "")  # of a rule


def known() -> dict[str, str]:
    """Return the meaning of each name in runbooks: a stack output (…Name: each output whose name ends so), or words."""
    text = (PROJECT / "docs" / "observability.md").read_text(encoding="utf-8")
    return dict(NAMED.findall(text))


def outputs(template: SynthesizedTemplate, means: str) -> dict[str, Any]:
    """Return the stack outputs that a name in a runbook stands for, with their values. `means`: see `known`."""
    found = re.fullmatch(r"the output `(…?)(\w+)`.*", means)
    if not found:
        return {}
    several, name = found.groups()
    there: dict[str, Any] = template.body["Outputs"]
    return {key: it["Value"] for key, it in there.items() if (key.endswith(name) if several else key == name)}


def resources_in(value: Any) -> set[str]:
    """Return the logical ids of the resources in a value of the template."""
    match value:
        case {"Ref": str(id)} | {"Fn::GetAtt": [str(id), _]}:
            return set() if id.startswith("AWS::") else {id}
        case dict():
            return {id for one in value.values() for id in resources_in(one)}
        case list():
            return {id for one in value for id in resources_in(one)}
    return set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_runbook_are_permitted_to_operators_or_name_the_required_role(
    dev: SynthesizedTemplate, page: Path
) -> None:
    may, meanings = operators_may(dev), known()
    for part in parts(page):
        for action, rest in typed(part):
            assert action in may, f"{page.stem}: operators may not {action}, and it does not say who may"
            for name in VARIABLE.findall(rest):
                for output, value in outputs(dev, meanings[name]).items():
                    assert resources_in(value) <= resources_in(may[action]) or "*" in may[action], (action, output)


def test_every_name_in_a_runbook_is_a_stack_output_or_explained(dev: SynthesizedTemplate) -> None:
    meanings = known()
    used: set[str] = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        names = {name for code in code_in(text) for name in VARIABLE.findall(code)}
        assert names <= meanings.keys(), page.stem
        used |= names
    assert meanings.keys() == used, "every explained name is used"
    for name, means in meanings.items():
        if "output" in means:
            assert outputs(dev, means), f"${name}: the stack has no output {means}"


def test_every_secret_in_a_runbook_is_a_stack_output(dev: SynthesizedTemplate) -> None:
    text = (PROJECT / RUNBOOKS / "rotate-secrets.md").read_text(encoding="utf-8")
    asked = set(re.findall(r"\$\(secret (\w+)\)", text))
    assert asked - {"OriginSecret"} <= dev.body["Outputs"].keys(), "this needs CloudFront: see test_settings"
    assert len(asked) >= 2
