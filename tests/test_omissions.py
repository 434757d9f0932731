"""Tests that no declaration is missing, and that a planted omission is reported in one sentence with file and line."""

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from docs.pages import settings
from functions.api.app import app
from functions.api.http import openapi, problems
from functions.dynamodb.keys import Row
from functions.model import copies, errors, metrics, reactions, totals
from functions.model import table as t
from ops import migrations
from proof.support import every_route, pattern_examples
from proof.support.recorded import Recorded
from proof.support.samples import SAMPLES
from stacks import alarm_definitions
from tests.model import test_table
from tests.support import omissions
from tests.support.applied_diff import copy_project, run_python
from tests.support.omissions import find_omissions
from tests.support.served_document import served_document
from tools.declarations import InvalidDeclarations, check_declarations

Patch = pytest.MonkeyPatch
AT = r"[\w/.-]+:\d+"


def without(entries: Any, *keys: Any) -> Any:
    """Return a copy of a mapping without these keys. The mapping itself must keep its order."""
    return {key: value for key, value in entries.items() if key not in keys}


@pytest.fixture(autouse=True)
def document_is_built_once(monkeypatch: Patch) -> None:
    monkeypatch.setattr(openapi, "document", lambda _: served_document())


# output of `make check` -----------------------------------------------------------------------------------------------
def forget_record(patch: Patch, file: Path, name: str) -> None:
    get: Any = vars(Recorded)["entries"].fget
    patch.setattr(Recorded, "entries", property(lambda it: without(get(it), name) if it.file == file else get(it)))


def forget_examples(patch: Patch) -> None:
    schema = deepcopy(served_document())
    del schema["components"]["schemas"]["NewDiscount"]["examples"]
    patch.setattr(openapi, "document", lambda _: schema)


def forget_docstring(patch: Patch) -> None:
    app.load_all()
    patch.setattr(app.handlers["POST /discounts"], "__doc__", None)


def forget_migration(patch: Patch, name: str, folder: Path) -> None:
    (folder / name).write_text('"""Nothing."""\n', encoding="utf-8")
    patch.setattr(migrations, "__path__", [str(folder)])


def compare_secret(patch: Patch, folder: Path) -> None:
    (folder / "links.py").write_text('"""Links."""\n\nis_right = signature == expected\n', encoding="utf-8")


OMISSIONS: dict[str, tuple[Callable[[Patch, Path], Any], str]] = {
    "a comparison of secrets in constant time": (
        compare_secret,
        r"links.py:3: compare secrets with hmac.compare_digest: signature == expected",
    ),
    "the sample of an item type": (
        lambda patch, _: patch.setattr(omissions, "SAMPLES", without(SAMPLES, t.REVIEW)),
        r"functions/model/table.py:\d+: Review has no sample: add one to proof/support/samples.py:\d+",
    ),
    "the keys of an item type": (
        lambda patch, _: forget_record(patch, test_table.KEYS, "Review"),
        r"functions/model/table.py:\d+: the keys of the sample of Review are not recorded: run `make record`",
    ),
    "a route of the table": (
        lambda patch, _: patch.setattr(app, "known_routes", [it for it in app.known_routes if it.module != "reviews"]),
        r"functions/api/routes/reviews.py: \S+/route_table.py lacks PUT /\S+/reviews/me: run `make record`",
    ),
    "the units of a pattern": (
        lambda patch, _: forget_record(patch, pattern_examples.UNITS, "A9"),
        r"functions/model/patterns.py:\d+: the units of A9 are not recorded: run `make record`",
    ),
    "the call of a pattern": (
        lambda patch, _: patch.setitem(
            SAMPLES, t.REVIEW, type("Nothing", (), {name: "" for name in t.REVIEW.fields if name != "customer_id"})()
        ),
        r"functions/model/patterns.py:\d+: A9b has no test call: add one .* to proof/support/pattern_examples.py:\d+",
    ),
    "a total's function": (
        lambda patch, _: patch.setattr(totals, "TOTAL_FIELDS", without(totals.TOTAL_FIELDS, t.RATING)),
        r"functions/model/table.py:\d+: nothing derives the counter Rating, .* add it to functions/model/totals.py:\d+",
    ),
    "a copy's function": (
        lambda patch, _: patch.setattr(copies, "LOGS", ()),
        r"functions/model/table.py:\d+: nothing derives the log Activity, .*: add it to functions/model/copies.py:\d+",
    ),
    "the example of a body": (
        lambda patch, _: forget_examples(patch),
        r"functions/api/routes/discounts.py:\d+: the body NewDiscount of POST /discounts has no example: set its .*",
    ),
    "the docstring of a route": (
        lambda patch, _: forget_docstring(patch),
        r"functions/api/routes/discounts.py:\d+: POST /discounts has no docstring: .*",
    ),
    "a valid body for the tests of every route": (
        lambda patch, _: patch.setattr(every_route, "BODIES", without(every_route.BODIES, "POST /discounts")),
        r"functions/api/routes/discounts.py:\d+: no test sends a valid body .* proof/support/every_route.py:\d+",
    ),
    "the problem type of an error": (
        lambda patch, _: patch.setattr(problems, "PROBLEM_TYPES", without(problems.PROBLEM_TYPES, errors.OutOfStock)),
        r"functions/model/errors.py:\d+: OutOfStock has no problem type: .* functions/api/http/problems.py:\d+",
    ),
    "the graph of a metric": (
        lambda patch, _: patch.setattr(metrics, "NOTES", metrics.MetricDefinition("Notes", "Count", "notes"), False),
        r"functions/model/metrics.py: no graph shows NOTES: add it to stacks/dashboard.py",
    ),
    "the runbook of an alarm": (
        lambda patch, _: patch.setattr(
            alarm_definitions, "ALARMS", (*alarm_definitions.ALARMS, replace(alarm_definitions.ALARMS[0], runbook="no"))
        ),
        r"stacks/alarm_definitions.py:\d+: the alarm fulfilment-stalled has no runbook: write docs/runbooks/no.md",
    ),
    "the alarm of a runbook": (
        lambda patch, _: patch.setattr(
            omissions, "RUNBOOKS_WITHOUT_ALARM", omissions.RUNBOOKS_WITHOUT_ALARM - {"rotate-secrets"}
        ),
        r"docs/runbooks/rotate-secrets.md:1: no alarm leads to this runbook: .* stacks/alarm_definitions.py:\d+",
    ),
    "the description of a setting": (
        lambda patch, _: patch.setattr(
            settings, "setting_descriptions", lambda told=settings.setting_descriptions: without(told(), "sender")
        ),
        r"stacks/stage.py:\d+: the setting sender has no description: add it as a string below the declaration",
    ),
    "a migration's description": (
        lambda patch, folder: forget_migration(patch, "m0002_notes.py", folder),
        r"ops/migrations/m0002_notes.py:1: the module has no MIGRATION: add one as `python -m ops migrate new .*",
    ),
    "the number of a migration": (
        lambda patch, folder: forget_migration(patch, "notes.py", folder),
        r"ops/migrations/notes.py: the name has no number: rename the module, such as m0002_notes.",
    ),
}


@pytest.mark.parametrize(("forget", "sentence"), OMISSIONS.values(), ids=OMISSIONS)
def test_an_omission_is_one_sentence_with_the_place_to_add_it(
    monkeypatch: Patch, tmp_path: Path, forget: Callable[[Patch, Path], Any], sentence: str
) -> None:
    monkeypatch.setattr(omissions, "FUNCTIONS", tmp_path)  # to parse the whole product each time takes long
    forget(monkeypatch, tmp_path)
    found = list(find_omissions())
    assert [one for one in found if re.fullmatch(sentence, one)] == found[:1], found


# output of synth, `make check` and the start --------------------------------------------------------------------------
def test_a_reaction_without_its_module_is_refused_in_one_sentence(monkeypatch: Patch) -> None:
    wrong = replace(reactions.REACTIONS[0], function="packer")
    monkeypatch.setattr(reactions, "REACTIONS", (*reactions.REACTIONS, wrong))
    sentence = r"functions/model/reactions.py:\d+: fulfilment has no Lambda: write functions/handlers/packer.py"
    with pytest.raises(InvalidDeclarations) as refused:
        check_declarations()
    assert re.fullmatch(sentence, str(refused.value))


def test_a_route_that_declares_an_error_without_a_problem_type_is_refused_in_one_sentence() -> None:
    class NoteTaken(Exception):
        pass

    with pytest.raises(TypeError, match="NoteTaken has no problem type: add a row to PROBLEM_TYPES in functions/api/"):
        problems.problem_responses(NoteTaken)


def test_a_class_that_no_module_declares_is_named_before_anything_is_imported(tmp_path: Path) -> None:
    folder = copy_project(tmp_path)
    declared = folder / "functions/model/entities/products.py"
    declared.write_text(declared.read_text().replace("class Review:", "class Rated:"))
    sentence = r"functions/model/\w+\.py:\d+: no module of functions/model/entities declares Review: write it there"
    for program in (["-m", "tools.declarations"], ["app.py"], ["-m", "pytest", "tests/model"]):
        refused = run_python(folder, *program)
        assert refused.returncode != 0
        assert re.fullmatch(f"(Exit: )?{sentence}", (refused.stdout + refused.stderr).strip()), program


# recorded figures -----------------------------------------------------------------------------------------------------
def test_a_record_adds_new_entries_deletes_old_ones_and_changes_none(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr("proof.support.recorded.PROJECT", tmp_path)
    file = tmp_path / "units.json"
    file.write_text('{"A1": 1.0}', encoding="utf-8")
    said = {"at": "patterns.py:7", "what": "units of A2"}
    with pytest.raises(pytest.fail.Exception, match=r"patterns.py:7: the units of A2 are not recorded: run `make rec"):
        Recorded(file, writes=False).check("A2", 2.0, **said)
    Recorded(file, writes=True).check("A2", 2.0, **said)
    Recorded(file, writes=False).check("A2", 2.0, **said)
    assert Recorded(file, writes=False).entries == {"A1": 1.0, "A2": 2.0}
    changed = r"patterns.py:7: the units of A2 were 2.0 and are 3.0: if you mean it, delete A2 in units.json and run"
    with pytest.raises(pytest.fail.Exception, match=changed):
        Recorded(file, writes=True).check("A2", 3.0, **said)
    with pytest.raises(pytest.fail.Exception, match=r"units.json: A1 does not exist any more: run `make record`"):
        Recorded(file, writes=False).check_names({"A2"})
    Recorded(file, writes=True).check_names({"A2"})
    assert Recorded(file, writes=False).entries == {"A2": 2.0}


def test_a_test_without_its_sample_names_the_missing_sample() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"proof/support/samples.py:\d+: Wish has no sample: add it to"):
        SAMPLES[Row(type("Wish", (), {}), "WISH#{wish_id} / WISH")]
