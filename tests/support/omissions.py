"""Reports forgotten declarations, with one sentence for each: the missing part, and the file and line to add it.

`make check` prints them (`python -m tests.support.omissions`). tests/test_omissions.py removes each declaration on
purpose. tools/declarations.py checks the model alone, but these checks know API, stack and tests, too.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

from docs.pages import settings
from functions.api.app import app
from functions.api.http import openapi, problems
from functions.api.http.router import Route
from functions.model import copies, errors, metrics, patterns, totals
from functions.model import table as t
from ops.cli_errors import UsageError
from ops.commands import migrate
from proof.support import every_route, pattern_examples
from proof.support.places import place_in, place_of
from proof.support.recorded import Recorded
from proof.support.samples import SAMPLES
from stacks import alarm_definitions
from tests.handlers import test_import_budgets
from tests.model import test_table
from tests.support.route_table import TABLE, declared_routes
from tools.declarations import PROJECT, declared_at

RUNBOOKS_WITHOUT_ALARM = {"orphaned-stack", "region-move", "restore-table", "rotate-secrets", "update-rollback-failed"}
FUNCTIONS = PROJECT / "functions"
SECRET = re.compile("secret|signature|token|digest|pepper|password", re.IGNORECASE)


def find_omissions() -> Iterator[str]:
    """Yield one sentence for each omission."""
    yield from _rows()
    yield from _patterns()
    yield from _derived_rows()
    yield from _routes()
    yield from _errors()
    yield from _lambdas()
    yield from _metrics()
    yield from _alarms()
    yield from settings.find_undescribed()
    yield from _migrations()
    yield from _compared_secrets()


# the table ------------------------------------------------------------------------------------------------------------
def _rows() -> Iterator[str]:
    recorded = Recorded(test_table.KEYS, writes=False).entries
    for row in t.ROWS:
        why = ""
        if row not in SAMPLES:
            why = f"{row.type} has no sample: add one to {place_in('proof/support/samples.py', '_SAMPLES')}"
        elif row.type not in recorded:
            why = f"the keys of the sample of {row.type} are not recorded: run `make record`"
        if why:
            yield f"{declared_at('table', row.type)}: {why}"


def _patterns() -> Iterator[str]:
    recorded = Recorded(pattern_examples.UNITS, writes=False).entries
    for pattern in patterns.PATTERNS:
        why = ""
        known = pattern_examples.CALLS[pattern].known if pattern in pattern_examples.CALLS else {}
        sample = SAMPLES.get(pattern.rows[0])
        if sample and (unknown := [n for n in pattern.required_fields if n not in known and not hasattr(sample, n)]):
            calls = place_in("proof/support/pattern_examples.py", "CALLS")
            why = f"{pattern.id} has no test call: add one with a value for {', '.join(unknown)} to {calls}"
        elif pattern.id not in recorded:
            why = f"the units of {pattern.id} are not recorded: run `make record`"
        if why:
            yield f"{declared_at('patterns', pattern.id)}: {why}"


def _derived_rows() -> Iterator[str]:
    """Yield each copy and total that no declaration derives. The drift check cannot compare it with its source."""
    derived = {
        "snapshot": ({it.target_row for it in copies.SNAPSHOTS}, "functions/model/copies.py", "SNAPSHOTS"),
        "log": ({it.target_row for it in copies.LOGS}, "functions/model/copies.py", "LOGS"),
        "counter": (totals.TOTAL_FIELDS.keys(), "functions/model/totals.py", "TOTAL_FIELDS"),
    }
    for row in t.ROWS:
        rows, path, name = derived.get(row.kind, ((row,), "", ""))
        if row not in rows:
            why = f"nothing derives the {row.kind} {row.type}, and no drift check covers it"
            yield f"{declared_at('table', row.type)}: {why}: add it to {place_in(path, name)}"


# the API --------------------------------------------------------------------------------------------------------------
def _routes() -> Iterator[str]:
    for method, path, module in declared_routes():
        if Route(method, path, module) not in app.known_routes:
            yield f"functions/api/routes/{module}.py: {TABLE} lacks {method} {path}: run `make record`"
    document = openapi.document(app)
    schemas: dict[str, Any] = document["components"]["schemas"]
    for route in app.known_routes:
        operation = document["paths"].get(route.path, {}).get(route.method.lower())
        if operation is None:  # the route of the OpenAPI document itself
            continue
        handler = app.handlers[route.key]
        at = place_of(handler)
        if not inspect.getdoc(handler):
            yield f"{at}: {route.key} has no docstring: the API's documentation shows its first sentence"
        for content in operation.get("requestBody", {}).get("content", {}).values():
            name = content["schema"].get("$ref", "").rpartition("/")[2]
            if name and not schemas[name].get("examples"):
                yield f"{at}: the body {name} of {route.key} has no example: set its model_config to examples(...)"
            if name and route.key not in every_route.BODIES and route.key not in every_route.SIGNED_ROUTES:
                bodies = place_in("proof/support/every_route.py", "BODIES")
                yield f"{at}: no test sends a valid body to {route.key}: add one to {bodies}"


def _errors() -> Iterator[str]:
    own = {problems: Exception, errors: errors.ShopError}
    for module, base in own.items():
        for name, error in inspect.getmembers(module, inspect.isclass):
            is_own = error.__module__ == module.__name__ and issubclass(error, base) and error is not base
            if is_own and error not in problems.PROBLEM_TYPES:
                table = place_in("functions/api/http/problems.py", "PROBLEM_TYPES")
                yield f"{place_of(error)}: {name} has no problem type: add a row to {table}"


# Lambdas ------------------------------------------------------------------------------------------------
def _lambdas() -> Iterator[str]:
    budgets = "tests/handlers/test_import_budgets.py"
    stack = (PROJECT / "stacks/orders_stack.py").read_text(encoding="utf-8")
    for path in sorted((PROJECT / "functions/handlers").glob("[!_]*.py")):
        at, module = path.relative_to(PROJECT).as_posix(), path.stem
        if f'"{module}"' not in stack:
            yield f"{at}: no stack creates the Lambda, with its permissions: create it in stacks/orders_stack.py"
        if module not in test_import_budgets.MODULES:
            yield f"{at}: the Lambda has no budget of imports: add one to {place_in(budgets, 'MODULES')}"


# alarms, metrics and settings -----------------------------------------------------------------------------------------
def _metrics() -> Iterator[str]:
    shown = (PROJECT / "stacks/dashboard.py").read_text(encoding="utf-8")
    for name, metric in vars(metrics).items():
        if isinstance(metric, metrics.MetricDefinition) and f"m.{name}" not in shown:
            yield f"{declared_at('metrics', metric.name)}: no graph shows {name}: add it to stacks/dashboard.py"


def _alarms() -> Iterator[str]:
    pages = {page.stem: page for page in (PROJECT / alarm_definitions.RUNBOOKS).glob("*.md")}
    at = place_in("stacks/alarm_definitions.py", "ALARMS")
    for alarm in (*alarm_definitions.ALARMS, alarm_definitions.CANARY_ALARM):
        page = PROJECT / alarm.runbook_path
        pages.pop(alarm.runbook, None)
        if not page.exists():
            yield f"{at}: the alarm {alarm.name} has no runbook: write {alarm.runbook_path}"
        elif f"`{alarm.name}" not in page.read_text(encoding="utf-8"):
            yield f"{alarm.runbook_path}:1: the runbook does not name its alarm: write `{alarm.name}` there"
    for name in sorted(pages.keys() - RUNBOOKS_WITHOUT_ALARM):
        runbook = f"{alarm_definitions.RUNBOOKS}/{name}.md"
        yield f"{runbook}:1: no alarm leads to this runbook: add one to {at}"


def _migrations() -> Iterator[str]:
    try:
        migrate.load_migrations()
    except UsageError as error:
        yield str(error)


def _compared_secrets() -> Iterator[str]:
    """Find secrets that the product compares with an operator. Its time shows how many characters were right."""
    for file in sorted(FUNCTIONS.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
                sides = [node.left, *node.comparators]
                is_constant = any(isinstance(side, ast.Constant) for side in sides)
                if not is_constant and SECRET.search(" ".join(map(ast.unparse, sides))):
                    yield f"{file.name}:{node.lineno}: compare secrets with hmac.compare_digest: {ast.unparse(node)}"


if __name__ == "__main__":
    sys.exit("\n".join(find_omissions()) or 0)
