"""Tests that each function imports only the listed modules when it starts, because imports are most of a cold start.

If an added import is intended, add its name here.
"""

import importlib.util
import json
import os
import subprocess
import sys

import grimp
import pytest

from functions.api.app import app
from proof.support.places import place_in
from stacks import PROJECT

FUNCTIONS = PROJECT / "functions"
SDK = {"botocore", "certifi", "dateutil", "jmespath", "six", "urllib3"}
"""botocore and the packages that it imports. It imports certifi only if certifi is installed, but a bundle lacks it."""
VALIDATION = {"annotated_types", "aws_lambda_powertools", "pydantic", "pydantic_core", "typing_extensions"} | {
    "typing_inspection"
}
TEMPLATES = {"jinja2", "markupsafe"}
MORE_PACKAGES = {
    "api": VALIDATION,
    "payment_starter": VALIDATION,
    "order_notification_worker": TEMPLATES,
    "product_alert_worker": TEMPLATES,
    "webhook_worker": {"standardwebhooks"},
    "webhook_retries": {"standardwebhooks"},
}

POWERTOOLS = "event_handler shared utilities utilities.data_classes warnings"
"""The packages of Powertools that the API's resolver imports."""

HEAVY = """asyncio concurrent.futures ctypes doctest email fractions http.client http.server logging.config
    multiprocessing pdb pydoc smtplib sqlite3 statistics tkinter unittest wsgiref xml.etree xmlrpc zoneinfo"""
"""Modules of the standard library whose import takes milliseconds."""
HEAVY_IN_SDK = "concurrent.futures email http.client xml.etree"
MORE_HEAVY = dict.fromkeys(("api", "payment_starter"), "fractions zoneinfo")

EVERYWHERE = """
    cold_start
    dynamodb dynamodb.actors dynamodb.capacity dynamodb.codec dynamodb.errors dynamodb.keys dynamodb.patterns
    dynamodb.record_batch dynamodb.retry dynamodb.table dynamodb.writes handlers model model.changes model.entities
    model.entities.accounts model.entities.audit model.entities.companies model.entities.customers
    model.entities.discounts model.entities.exports model.entities.imports
    model.entities.invoices model.entities.markers model.entities.notifications model.entities.order_copies
    model.entities.orders model.entities.payments model.entities.products model.entities.sellers
    model.entities.sharding model.entities.shipments model.entities.shipping_methods model.entities.sweeps
    model.entities.taxes model.entities.totals model.entities.webhooks model.errors model.events model.lambdas
    model.metrics model.money model.retention model.states model.table model.timelines runtime runtime.clients
    runtime.environment runtime.log runtime.metrics_buffer runtime.observability shop shop.shop
"""
LISTS = "dynamodb.cursors dynamodb.sealed_text shop.lists"
API = """adapters adapters.object_store api api.app api.http api.http.caching api.http.context
    api.http.field_selection api.http.fields api.http.guard api.http.problems api.http.router api.request
    api.route_table dynamodb.cursors dynamodb.sealed_text
    model.address_rules model.languages model.patterns model.public_routes
    runtime.secrets shop.customer_write_limit shop.guest_links shop.payment_provider"""
MODULES = {
    "copies_reader": """dynamodb.stream_batch model.audit model.copies model.patterns model.pricing model.totals
        runtime.dead_letters runtime.time_limit shop.customer_names""",
    "event_publisher": f"""{LISTS} adapters adapters.event_bus dynamodb.stream_batch model.audit model.patterns
        runtime.dead_letters runtime.subscriptions runtime.time_limit shop.audit shop.idempotency
        shop.webhook_deliveries shop.webhooks""",
    "fulfilment_worker": f"""{LISTS} model.mail_kinds model.patterns model.pricing model.reactions model.retries
        runtime.dead_letters runtime.queue_batch runtime.secrets runtime.time_limit shop.accounts shop.cancellation
        shop.credit_notes shop.discounts shop.fulfilment shop.idempotency shop.invoices shop.order_money shop.orders
        shop.refunds shop.sellers shop.shipments shop.stock""",
    "order_notification_worker": f"""{LISTS} adapters adapters.mail_pace adapters.mailer adapters.templates mails
        mails.order_notifications model.languages model.mail_kinds model.patterns model.pricing model.reactions
        model.retries runtime.dead_letters runtime.mail_deferral runtime.queue_batch runtime.rate_limiter
        runtime.secrets runtime.time_limit shop.customers shop.guest_links shop.invoices shop.order_notifications
        shop.orders""",
    "product_alert_worker": f"""{LISTS} adapters adapters.mail_pace adapters.mailer adapters.templates
        mails mails.product_alerts model.languages model.mail_kinds model.patterns model.public_routes model.reactions
        model.retries runtime.dead_letters runtime.mail_deferral runtime.queue_batch runtime.rate_limiter
        runtime.secrets runtime.time_limit shop.customers shop.order_notifications shop.orders shop.product_alerts
        shop.stock shop.unsubscribe""",
    "refund_worker": f"""{LISTS} adapters adapters.payment_provider model.mail_kinds model.patterns model.reactions
        model.retries runtime.dead_letters runtime.queue_batch runtime.secrets runtime.time_limit shop.accounts
        shop.idempotency shop.order_money shop.orders shop.payment_provider shop.refund_processing shop.refunds
        shop.started_payments""",
    "customer_name_worker": """model.copies model.mail_kinds model.patterns model.pricing model.reactions
        model.retries model.totals runtime.dead_letters runtime.queue_batch runtime.secrets runtime.time_limit
        shop.customer_names""",
    "archive_worker": f"""{LISTS} adapters adapters.object_store model.mail_kinds model.patterns model.pricing
        model.reactions model.retries model.totals runtime.dead_letters runtime.queue_batch runtime.secrets
        runtime.time_limit
        model.audit model.copies model.flat_columns model.personal_data shop.audit shop.companies shop.customers
        shop.erasure shop.feed shop.reviews
        shop.accounts shop.archive shop.cancellation shop.credit_notes shop.discounts shop.idempotency shop.invoices
        shop.order_money shop.orders shop.refunds shop.stock""",
    "import_worker": f"""{LISTS} model.mail_kinds model.patterns model.reactions model.retries runtime.dead_letters
        runtime.queue_batch runtime.secrets runtime.rate_limiter runtime.time_limit shop.idempotency shop.imports
        shop.products
        shop.stock shop.stock_parts""",
    "export_worker": f"""{LISTS} adapters adapters.object_store model.flat_columns model.mail_kinds model.patterns
        model.reactions model.retries runtime.dead_letters runtime.queue_batch runtime.secrets runtime.time_limit
        shop.feed
        shop.idempotency shop.list_exports""",
    "webhook_worker": f"""{LISTS} adapters adapters.webhook_sender model.audit model.mail_kinds model.patterns
        model.reactions model.retries runtime.dead_letters runtime.queue_batch runtime.secrets runtime.subscriptions
        runtime.time_limit shop.audit shop.idempotency shop.webhook_deliveries shop.webhooks""",
    "webhook_retries": f"""{LISTS} adapters adapters.webhook_sender model.audit model.patterns
        runtime.scheduled_jobs runtime.secrets runtime.time_limit shop.audit shop.idempotency
        shop.webhook_deliveries shop.webhooks""",
    "order_deadlines": f"""{LISTS} model.patterns model.pricing runtime.scheduled_jobs runtime.time_limit shop.accounts
        shop.cancellation shop.discounts shop.idempotency shop.order_money shop.orders shop.refunds shop.shipments
        shop.stock""",
    "customer_erasure": f"""{LISTS} adapters adapters.object_store model.copies model.flat_columns model.patterns
        model.audit model.personal_data model.pricing model.totals runtime.scheduled_jobs shop.audit runtime.time_limit
        shop.companies shop.feed shop.customers model.mail_kinds
        shop.erasure shop.orders shop.reviews""",
    "backlog_metrics": f"""{LISTS} adapters adapters.object_store model.patterns model.pricing runtime.scheduled_jobs
        runtime.time_limit shop.accounts shop.cancellation shop.discounts shop.disputes shop.external_refunds
        shop.idempotency shop.kept_events shop.order_money shop.orders shop.payment_provider shop.payments
        shop.refund_processing shop.refunds shop.shipments shop.stock""",
    "canary": "runtime.secrets",
    "api": API,
    "payment_starter": API,
}


START = """
import sys
there = {*sys.modules}  # what this interpreter's own site brings
import importlib, json, os
import functions.runtime.clients, functions.runtime.observability, functions.shop.shop
for module in sys.argv[1:]:
    reads, writes = os.pipe()
    if not os.fork():
        importlib.import_module(f"functions.handlers.{module}")
        os.write(writes, json.dumps([module, sorted(sys.modules.keys() - there)]).encode() + b"\\n")
        os._exit(0)
    os.close(writes)
    sys.stdout.write(os.fdopen(reads).read())
"""
"""Imports each module in its own child process. The parent imports only what is in EVERYWHERE, which saves its time."""


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    command = [sys.executable, "-c", START, *MODULES]
    # Lambda sets this variable. If it is set, packages skip some imports.
    environment = {**os.environ, "AWS_LAMBDA_FUNCTION_NAME": "it"}
    ran = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True)
    return {module: set(names) for module, names in map(json.loads, ran.stdout.splitlines())}


def test_every_handler_is_a_module_of_the_handlers() -> None:
    handlers = {file for file in FUNCTIONS.rglob("*.py") if "\ndef handler(" in file.read_text()}
    assert handlers == {FUNCTIONS / "handlers" / f"{module}.py" for module in MODULES}


@pytest.mark.parametrize("module", MODULES)
def test_a_function_imports_only_the_modules_of_its_budget(imported: dict[str, set[str]], module: str) -> None:
    names = imported[module]
    top = {name.partition(".")[0] for name in names}
    installed = {name for name in top if not name.startswith("_") and importlib.util.find_spec(name)}
    assert installed - sys.stdlib_module_names - {"functions"} == SDK | MORE_PACKAGES.get(module, set())
    ours, budget = within("functions", names), {f"handlers.{module}", *EVERYWHERE.split(), *MODULES[module].split()}
    at = place_in("tests/handlers/test_import_budgets.py", "MODULES")
    if more := ours - budget:
        why = f"{module} imports {' '.join(sorted(more))}, which its budget lacks: add it, or import it later"
        pytest.fail(f"{at}: {why}", pytrace=False)
    if gone := budget - ours:
        pytest.fail(f"{at}: {module} does not import {' '.join(sorted(gone))} any more: delete it", pytrace=False)
    parts = {name for name in within("aws_lambda_powertools", names) if not name.startswith("_")}
    packages = {".".join(name.split(".")[: 1 + name.startswith("utilities.")]) for name in parts}
    assert packages == (set(POWERTOOLS.split()) if "aws_lambda_powertools" in installed else set())
    assert names & set(HEAVY.split()) == {*HEAVY_IN_SDK.split(), *MORE_HEAVY.get(module, "").split()}


def test_a_lambda_imports_each_module_of_the_bundle_except_three_with_declarations() -> None:
    """The stacks and the operator tools read these declarations. Code that no Lambda needs belongs to other folders."""
    graph = grimp.build_graph("functions")
    imported: set[str] = set()
    for entry in ("functions.handlers", "functions.api.routes"):
        imported |= graph.find_descendants(entry) | graph.find_upstream_modules(entry, as_package=True)
    modules = {module for module in graph.modules if not graph.find_children(module)}
    declarations = {f"functions.model.{name}" for name in ("archive_columns", "service_levels", "stream_readers")}
    assert modules - imported == declarations


def within(package: str, names: set[str]) -> set[str]:
    """Return which modules of a package were imported, without the package's name in front."""
    return {name.removeprefix(f"{package}.") for name in names if name.startswith(f"{package}.")}


def test_a_request_to_the_api_imports_the_routes_of_its_noun_only() -> None:
    """The first request to another noun imports the routes of that noun."""
    program = (
        "import json, sys\n"
        "from functions.api.app import app\n"
        "for method, path in (('GET', '/products/mug'), ('POST', '/orders')):\n"
        "    app.find_route(method, path)\n"
        "    print(json.dumps(sorted(name for name in sys.modules if name.startswith('functions.api.routes.'))))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    first, second = (
        {name.removeprefix("functions.api.routes.") for name in json.loads(line)} for line in ran.stdout.splitlines()
    )
    assert (first, second - first) == ({"products"}, {"orders", "order_responses"})


def test_a_snapshot_of_the_api_contains_all_its_routes() -> None:
    program = "from functions.api.app import app; print(sum(route.key in app.handlers for route in app.known_routes))"
    environment = {**os.environ, "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"}
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True)
    assert int(ran.stdout) == len(app.known_routes)
