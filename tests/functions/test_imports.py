"""What each function imports when it starts, by name: a cold start is mostly this, and grows unseen.

Who adds an import that belongs there adds its name here; who did not mean to finds out.
"""

import importlib.util
import json
import subprocess
import sys

import pytest

from stacks import PROJECT

FUNCTIONS = PROJECT / "functions"
SDK = {"boto3", "botocore", "certifi", "dateutil", "jmespath", "s3transfer", "six", "urllib3"}
"""boto3, and what that imports itself (certifi where it finds it: a bundle has none)."""
VALIDATION = {"annotated_types", "aws_lambda_powertools", "pydantic", "pydantic_core", "typing_extensions"} | {
    "typing_inspection"
}
TEMPLATES = {"jinja2", "markupsafe"}
MORE_PACKAGES = {"api.handler": VALIDATION, "notifications.handler": TEMPLATES, "notices.handler": TEMPLATES}

POWERTOOLS = """event_handler exceptions logging metrics middleware_factory package_logger shared tracing utilities
    utilities.data_classes utilities.jmespath_utils warnings"""
"""What the API's resolver imports of Powertools: its packages, and those of its utilities."""

HEAVY = """asyncio concurrent.futures ctypes doctest email fractions http.client http.server logging.config
    multiprocessing pdb pydoc smtplib sqlite3 statistics tkinter unittest wsgiref xml.etree xmlrpc zoneinfo"""
"""Of the standard library what takes milliseconds."""
HEAVY_IN_SDK = "concurrent.futures email http.client multiprocessing xml.etree"
MORE_HEAVY = {"api.handler": "asyncio fractions zoneinfo"}

EVERYWHERE = """
    dynamodb dynamodb.images dynamodb.keys dynamodb.patience dynamodb.patterns dynamodb.store dynamodb.streams
    dynamodb.units dynamodb.writes environment log model model.changes model.entities model.errors model.events
    model.metrics model.money model.states model.table shop shop.shop tally wiring
"""
MODULES = {
    "copies": "model.amounts model.counters model.derived model.lives model.patterns shop.names",
    "relay": "",
    "fulfilment": """model.amounts model.lives model.patterns queues shop.accounts shop.discounts shop.ending
        shop.invoices shop.keyed shop.orders shop.refunds shop.shipments shop.stock""",
    "notifications.handler": """mails model.amounts model.lives model.patterns notifications notifications.mails queues
        shop.customers shop.notifications shop.orders""",
    "notices.handler": """mails model.lives model.patterns notices notices.mails queues shop.customers shop.notices
        shop.notifications shop.orders shop.stock""",
    "refunds": """model.lives model.patterns queues shop.accounts shop.keyed shop.orders shop.refunds shop.settling""",
    "names": "model.amounts model.counters model.derived model.lives model.patterns queues shop.names",
    "archive": """model.amounts model.counters model.derived model.lives model.patterns objects queues shop.accounts
        shop.archive shop.discounts shop.ending shop.keyed shop.orders shop.refunds shop.stock""",
    "bulk": """model.lives model.patterns model.reactions queues shop.imports shop.keyed shop.products shop.stock""",
    "lapse": """model.amounts model.lives model.patterns schedules shop.accounts shop.discounts shop.ending shop.keyed
        shop.orders shop.refunds shop.shipments shop.stock""",
    "erasure": "model.patterns objects schedules shop.erasure",
    "watch": """model.amounts model.lives model.patterns objects shop.accounts shop.discounts shop.ending shop.keyed
        shop.orders shop.payments shop.refunds shop.settling shop.shipments shop.stock""",
    "api.handler": """api api.accounts api.activity api.categories api.companies api.context api.customers api.discounts
        api.docs api.fields api.follows api.guard api.imports api.insight api.invoice_page api.invoices
        api.notifications api.openapi api.order_answers api.orders api.paging api.payments api.problems api.products
        api.refunds api.returns api.reviews api.routes api.sales api.shipments api.signature api.tenders
        dynamodb.cursors model.amounts model.counters model.entrance model.lives model.patterns
        shop.accounts shop.activity shop.categories shop.companies shop.customers shop.discounts shop.disputes
        shop.ending shop.erasure shop.follows shop.imports shop.insight shop.invoices shop.keyed shop.notifications
        shop.orders shop.payments shop.placing shop.products shop.refunds shop.returns shop.reviews shop.sales
        shop.settling shop.shipments shop.stock shop.tenders""",
}


START = """
import sys
there = {*sys.modules}  # what this interpreter's own site brings
import importlib, json, os
for module in sys.argv[1:]:
    reads, writes = os.pipe()
    if not os.fork():
        importlib.import_module(f"functions.{module}")
        os.write(writes, json.dumps([module, sorted(sys.modules.keys() - there)]).encode() + b"\\n")
        os._exit(0)
    os.close(writes)
    sys.stdout.write(os.fdopen(reads).read())
"""
"""Imports each module in a process of its own, forked from one that has imported nothing."""


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """The names of what each function imports."""
    command = [sys.executable, "-c", START, *MODULES]
    ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    return {module: set(names) for module, names in map(json.loads, ran.stdout.splitlines())}


def test_every_function_has_a_budget() -> None:
    deployed = {"functions." + module for module in MODULES}
    handlers = {
        f"functions.{file.relative_to(FUNCTIONS).with_suffix('').as_posix().replace('/', '.')}"
        for file in FUNCTIONS.rglob("*.py")
        if "\ndef handler(event" in file.read_text() or "\ndef handler(_event" in file.read_text()
    }
    assert deployed == handlers


@pytest.mark.parametrize("module", MODULES)
def test_a_function_imports_what_its_budget_names_and_nothing_else(imported: dict[str, set[str]], module: str) -> None:
    names = imported[module]
    top = {name.partition(".")[0] for name in names}
    installed = {name for name in top if not name.startswith("_") and importlib.util.find_spec(name)}
    assert installed - sys.stdlib_module_names - {"functions"} == SDK | MORE_PACKAGES.get(module, set())
    assert within("functions", names) == {module, *EVERYWHERE.split(), *MODULES[module].split()}
    parts = {name for name in within("aws_lambda_powertools", names) if not name.startswith("_")}
    packages = {".".join(name.split(".")[: 1 + name.startswith("utilities.")]) for name in parts}
    assert packages == (set(POWERTOOLS.split()) if "aws_lambda_powertools" in installed else set())
    assert names & set(HEAVY.split()) == {*HEAVY_IN_SDK.split(), *MORE_HEAVY.get(module, "").split()}


def within(package: str, names: set[str]) -> set[str]:
    """What of these is in a package, as it is called there."""
    return {name.removeprefix(f"{package}.") for name in names if name.startswith(f"{package}.")}
