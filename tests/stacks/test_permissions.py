"""Tests the permissions of each function: named actions on named resources, and all that its code needs."""

import json
import re
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from functools import cache
from typing import Any, get_args

import boto3
import pytest

from docs.generate import DOCS
from docs.pages import permissions
from functions.dynamodb.keys import to_instant
from functions.handlers import backlog_metrics, customer_erasure, order_deadlines, webhook_retries
from functions.model.entities import ArchivedOrder, ListName
from functions.runtime import clients
from functions.shop import (
    activity,
    cancellation,
    companies,
    customer_names,
    customers,
    follows,
    imports,
    list_exports,
    orders,
    products,
    refunds,
    reviews,
    shipments,
    started_payments,
    webhooks,
)
from functions.shop.erasure import erase_customer
from functions.shop.lists import ListRequest
from functions.shop.shop import Caller, ShopContext
from local.world.dynamodb_engine import REGION
from local.world.expiry import expire_until
from local.world.harness import ANN, READERS, STAFF, WAREHOUSE, WORKERS, ShopHarness
from ops import targets
from ops.__main__ import main as ops
from ops.commands import health
from ops.commands.restore import SETTLE_TIME
from ops.scan.checkpoint import Checkpoint
from ops.targets import ShopTarget
from proof.support.actors import place_guest_order
from proof.support.archiving import create_delivered_order
from proof.support.operator_shop import BUCKETS
from proof.support.permissions import WITHOUT_RESOURCES, Asked, allowed, asks
from proof.support.suppression_list import SuppressionList
from proof.support.synthesized import MODULES, SynthesizedTemplate, as_list
from stacks.stage import STAGES

OF_THE_ACCOUNT = {"ses:GetSuppressedDestination", "ses:DeleteSuppressedDestination"}
"""Actions on the account's only suppression list. They do not support resources."""


# policies -------------------------------------------------------------------------------------------------------------
def test_every_function_has_a_role_of_its_own(dev: SynthesizedTemplate) -> None:
    roles = [it["Role"]["Fn::GetAtt"][0] for it in dev.properties("AWS::Lambda::Function").values()]
    assert len(set(roles)) == len(roles) == len(MODULES)
    assert {*roles, operators_role(dev)} == set(dev.resources("AWS::IAM::Role")), "no other roles exist"
    for id in roles:
        role = dev.properties("AWS::IAM::Role")[id]
        assert role.keys() <= {"AssumeRolePolicyDocument"}, "no managed policies"
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        lambda_alone = {"Service": "lambda.amazonaws.com"}
        assert trust == {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": lambda_alone}
    assert all(len(policy["Roles"]) == 1 for policy in dev.properties("AWS::IAM::Policy").values())


@pytest.mark.parametrize("module", MODULES)
def test_every_action_is_named(dev: SynthesizedTemplate, module: str) -> None:
    assert not [action for action in allowed(dev, module) if "*" in action]


@pytest.mark.parametrize("module", MODULES)
def test_no_function_may_scan(dev: SynthesizedTemplate, module: str) -> None:
    assert {"dynamodb:Scan", "dynamodb:PartiQLSelect"}.isdisjoint(allowed(dev, module))


def test_only_the_archive_may_delete_items_in_batches(dev: SynthesizedTemplate) -> None:
    """BatchWriteItem takes no condition, so it could delete an item that has changed."""
    assert [module for module in MODULES if "dynamodb:BatchWriteItem" in allowed(dev, module)] == ["archive_worker"]


def test_only_operators_may_read_the_whole_table(dev: SynthesizedTemplate) -> None:
    may: dict[str, set[str]] = {}
    for policy in all_policies(dev):
        (role,) = policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Allow"
            may.setdefault(role["Ref"], set()).update(as_list(statement["Action"]))
    assert {
        role
        for role, actions in may.items()
        if {"dynamodb:Scan", "dynamodb:PartiQLSelect", "dynamodb:*", "*"} & actions
    } == {operators_role(dev)}
    assert not [action for action in may[operators_role(dev)] if "*" in action]
    everywhere = {
        action
        for statement in operators_statements(dev)
        for action in as_list(statement["Action"])
        if statement["Resource"] == "*"
    }
    assert everywhere == {
        "events:ListRules", "events:ListArchives", "cloudwatch:GetMetricStatistics", "cloudwatch:GetMetricData",
        "cloudwatch:ListMetrics", "ses:GetSuppressedDestination",
    }, "these actions do not support resources"  # fmt: skip
    written = {action: [_end(one) for one in ons] for action, ons in operators_may(dev).items() if "s3" in action}
    assert {action: ends for action, ends in written.items() if action not in ("s3:GetObject", "s3:ListBucket")} == {
        "s3:PutObject": ["/redriven/*"],
        "s3:DeleteObject": ["/orders/*", "/parked/*"],
    }, "marks; a name, whose version stays; and unused attributes"


def test_operators_may_read_the_logs_of_requests_and_no_other_log(dev: SynthesizedTemplate) -> None:
    reading = {action: ons for action, ons in operators_may(dev).items() if action.startswith("logs:")}
    logs = [one["Fn::GetAtt"][0].rstrip("0123456789ABCDEF") for one in reading.pop("logs:FilterLogEvents")]
    assert (logs, reading) == (["ApiLog", "HttpAccessLog", "PaymentStarterLog"], {})


def test_operators_are_principals_of_the_account_with_a_second_factor(dev: SynthesizedTemplate) -> None:
    (trust,) = dev.properties("AWS::IAM::Role")[operators_role(dev)]["AssumeRolePolicyDocument"]["Statement"]
    assert str(trust["Principal"]["AWS"]).count(":root") == 1
    assert trust["Condition"] == {"Bool": {"aws:MultiFactorAuthPresent": "true"}}
    seconds = dev.properties("AWS::IAM::Role")[operators_role(dev)]["MaxSessionDuration"]
    assert seconds == 12 * 60 * 60, "a sweep of a large table takes hours, and a lost session ends on the same day"


def test_a_permission_set_of_single_sign_on_can_refer_to_the_policies_of_operators(dev: SynthesizedTemplate) -> None:
    role = {"Ref": operators_role(dev)}
    assert not [it for it in dev.properties("AWS::IAM::Policy").values() if role in it["Roles"]]
    policies = [it for it in dev.properties("AWS::IAM::ManagedPolicy").values() if role in it["Roles"]]
    assert {str(it["ManagedPolicyName"]["Fn::Join"][1]) for it in policies} == {
        f"['orderstream-dev-operators-{name}-', {{'Ref': 'AWS::Region'}}]" for name in ("tools", "runbooks")
    }
    for policy in policies:  # IAM allows 6,144 characters; here, references are longer than most ARNs
        assert len(json.dumps(policy["PolicyDocument"], separators=(",", ":"))) < 10_000


def test_operators_have_the_permissions_of_their_tools(
    dev: SynthesizedTemplate, harness: ShopHarness, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    did: set[Asked] = set()

    def note(params: dict[str, Any], model: Any, **_: Any) -> None:
        did.update(asks(model.service_model.endpoint_prefix, model.name, params))

    @cache
    def client(service: str) -> Any:
        made: Any = harness.engine.dynamodb() if service == "dynamodb" else boto3.client(service, region_name=REGION)  # type: ignore[call-overload]
        made.meta.events.register("provide-client-params", note)
        SuppressionList().attach(made)
        return made

    sqs, events = clients.client("sqs"), clients.client("events")
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    bus_arn = events.describe_event_bus(Name="shop")["Arn"]
    events.create_archive(ArchiveName="all", EventSourceArn=bus_arn, RetentionDays=30)
    has = {
        "AWS::SQS::Queue": [*harness.queues.values(), dead],
        "AWS::Events::EventBus": ["shop"],
        "AWS::Lambda::Function": ["copies_reader"],
    }
    outputs = {"StackName": "orderstream-dev", "TableName": harness.shop.table.name, **BUCKETS}
    where = ShopTarget(outputs, client, has.__getitem__)
    monkeypatch.setattr(targets, "resolve_target", lambda given: where)
    monkeypatch.setattr(where.table, "clock", harness.now)
    monkeypatch.setattr(health, "DRIFT_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(
        health, "_fetch_own_datapoints", lambda *_: [1e6]
    )  # so that health looks for reasons of late effects

    archived = create_delivered_order(harness)
    harness.advance_days(days=2 * 365)
    harness.process_all()
    harness.clock_offset += SETTLE_TIME
    assert isinstance(orders.get_order(harness.shop, STAFF, archived), ArchivedOrder)
    harness.pay_order(harness.place_order("lost", mug=2))
    READERS["copies_reader"].handler(
        {"Records": [{"dynamodb": {"Keys": {}, "NewImage": {}, "SequenceNumber": "1"}}]}, None
    )
    harness.new_records()  # these records are lost
    for command in (
        "drift --all --repair --pause 0.001", "drift --pause 0.001", "replay --from-table --copies", "failures list",
        "replay --from-table --reactions --to fulfilment", "replay --from-event-archive --since 1h --to-all",
        f"restore {archived}", f"order {archived}", "drift --only accounts",
    ):  # fmt: skip
        ops(command.split())
    sqs.send_message(QueueUrl=dead, MessageBody="no event")
    for command in ("failures redrive --all", "health --stack shop"):
        with pytest.raises(SystemExit):
            ops(command.split())
    with Checkpoint(where.table, "test", "0001", "a sweep", by="ann"):
        pass
    may = operators_may(dev)
    missing = {
        (action, on)
        for action, on in did
        if not any(fnmatch(on, _end(resource)) or resource == "*" for resource in may.get(action, []))
    }
    assert not missing
    assert {action.partition(":")[0] for action, _ in did} == {"dynamodb", "s3", "sqs", "events", "cloudwatch", "ses"}


def all_policies(template: SynthesizedTemplate) -> list[Any]:
    kinds = "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"
    return [policy for kind in kinds for policy in template.properties(kind).values()]


def operators_may(template: SynthesizedTemplate) -> dict[str, list[Any]]:
    may: dict[str, list[Any]] = {}
    for statement in operators_statements(template):
        for action in as_list(statement["Action"]):
            may.setdefault(action, []).extend(as_list(statement["Resource"]))
    return may


def operators_role(template: SynthesizedTemplate) -> str:
    (id,) = [id for id in template.resources("AWS::IAM::Role") if id.startswith("Operators")]
    return id


def operators_statements(template: SynthesizedTemplate) -> list[Any]:
    own = [policy for policy in all_policies(template) if {"Ref": operators_role(template)} in policy["Roles"]]
    return [statement for policy in own for statement in policy["PolicyDocument"]["Statement"]]


@pytest.mark.parametrize("module", MODULES)
def test_every_permission_names_its_resource_or_a_known_folder(dev: SynthesizedTemplate, module: str) -> None:
    for statement in dev.statements(module):
        assert statement["Effect"] == "Allow"
        for resource in as_list(statement["Resource"]):
            if resource == "*":
                assert set(as_list(statement["Action"])) in (WITHOUT_RESOURCES, OF_THE_ACCOUNT)
            elif isinstance(resource, dict) and "Fn::Join" in resource:
                end = resource["Fn::Join"][1][-1]
                folders = ("/parked/*", "/aws/lambda/*", "/orders/*", "/activity/*", "/exports/*", "/stream/*")
                assert "*" not in str(end) or end in folders
            else:
                assert resource.keys() & {"Ref", "Fn::GetAtt"}


def test_only_an_erasure_may_delete_or_list_archived_objects(dev: SynthesizedTemplate) -> None:
    (bucket,) = [id for id in dev.resources("AWS::S3::Bucket") if id.startswith("Archived")]
    may: dict[str, set[str]] = {}
    for module in MODULES:
        for statement in dev.statements(module):
            if bucket in str(statement["Resource"]):
                may.setdefault(module, set()).update(as_list(statement["Action"]))
    anew = {"s3:PutObject", "s3:GetObject"}
    assert may == {
        "api": {"s3:GetObject"},
        "archive_worker": anew,
        "customer_erasure": {*anew, "s3:DeleteObjectVersion", "s3:ListBucketVersions"},
    }


def test_mails_are_sent_as_the_shops_sender_and_by_notifications_and_notices_alone(dev: SynthesizedTemplate) -> None:
    may = {module: allowed(dev, module).get("ses:SendEmail") for module in MODULES}
    assert [module for module, resources in may.items() if resources] == [
        "order_notification_worker",
        "product_alert_worker",
    ]
    for resources in filter(None, may.values()):
        ends = [resource["Fn::Join"][1][-1] for resource in resources]
        (mails,) = dev.resources("AWS::SES::ConfigurationSet")
        assert ends == [{"Ref": mails}, ":identity/orders@shop.example", ":identity/shop.example"]


def test_lambda_lets_those_functions_call_themselves_that_may_send_to_the_queue_they_read(
    dev: SynthesizedTemplate,
) -> None:
    """Lambda stops other functions after 16 calls, because a message that they sent comes back to them."""
    functions = dev.properties("AWS::Lambda::Function")
    let = {module for module in MODULES if functions[dev.function(module)].get("RecursiveLoop") == "Allow"}
    queues = {module: dev.mapping(module)["EventSourceArn"] for module in MODULES if module.endswith("_worker")}
    assert let == {
        module for module, queue in queues.items() if queue in allowed(dev, module).get("sqs:SendMessage", [])
    }
    assert let == {"order_notification_worker", "product_alert_worker"}


def test_each_secret_is_readable_only_by_its_users(dev: SynthesizedTemplate) -> None:
    readers = sorted(
        (resource["Ref"].removeprefix("Secrets")[:6], module)
        for module in MODULES
        for resource in allowed(dev, module).get("secretsmanager:GetSecretValue", [])
    )
    assert readers == [
        ("Pepper", "api"),
        ("Pepper", "order_notification_worker"),
        ("Pepper", "payment_starter"),
        ("Pepper", "product_alert_worker"),
        ("Pepper", "webhook_retries"),
        ("Pepper", "webhook_worker"),
        ("Provid", "payment_starter"),
        ("Provid", "refund_worker"),
        ("Webhoo", "api"),
    ]


def test_operators_may_change_the_webhooks_and_the_providers_secret_and_read_none(dev: SynthesizedTemplate) -> None:
    may = {action: ons for action, ons in operators_may(dev).items() if action.startswith("secretsmanager:")}
    assert may.keys() == {
        "secretsmanager:PutSecretValue",
        "secretsmanager:ListSecretVersionIds",
        "secretsmanager:UpdateSecretVersionStage",
    }
    for action, secrets in may.items():
        assert sorted(one["Ref"].removeprefix("Secrets")[:6] for one in secrets) == ["Provid", "Webhoo"], action


# the page of permissions, and the encryption key ---------------------------------------------------------------------
def test_the_page_of_permissions_equals_the_template(dev: SynthesizedTemplate, prod: SynthesizedTemplate) -> None:
    written = (DOCS / "permissions.md").read_text(encoding="utf-8")
    assert permissions.render_page(dev.body) == written, (
        "a permission changed: run `make docs` and review the difference"
    )
    like_dev = permissions.render_page(prod.body).replace("orderstream-prod", "orderstream-dev")
    there, here = rows_of(like_dev.replace("shop.test", "shop.example")), rows_of(written)
    more, less = ({name for name, _ in rows} for rows in (there - here, here - there))
    assert more == {"ApiRelease", "ApiReleaseAlias", "ArchivedCopy", "Backups"}, (
        "all stages have the same permissions, except these"
    )
    assert less == {"Api"}, "prod calls the alias of the API instead"


def rows_of(page: str) -> set[tuple[str, str]]:
    """Return the rows of the page's tables: each name of the first cell, with the other cells."""
    cells = [line.partition(" | ") for line in page.splitlines()]
    return {(name, rest) for names, _, rest in cells for name in re.findall(r"\*\*(\w+)\*\*", names)}


def test_the_key_is_managed_by_the_account_and_used_through_a_few_services_alone(dev: SynthesizedTemplate) -> None:
    statements = dev.only_properties("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    for statement in statements:
        (who,) = statement["Principal"].values()
        assert str(who).count(":root") == 1 or who in ("dynamodb.amazonaws.com", "cloudwatch.amazonaws.com")
        assert "*" not in str(statement["Principal"])
        if who == "cloudwatch.amazonaws.com":  # an alarm of this stack, which publishes to an encrypted topic
            assert statement["Condition"].keys() == {"StringEquals", "ArnLike"}
            continue
        uses = {"kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey", "kms:CreateGrant"} & set(statement["Action"])
        assert bool(uses) == ("kms:ViaService" in str(statement.get("Condition"))), statement
    through = {service for it in statements for service in _services(it.get("Condition", {}))}
    assert through == {"dynamodb", "s3", "secretsmanager", "backup"}
    assert [it["Resource"] for it in statements] == ["*"] * len(statements), "in a key policy: this key"
    managed, *_ = statements
    assert not [action for action in managed["Action"] if "*" in action]


def _services(condition: Any) -> list[str]:
    via = condition.get("StringEquals", {}).get("kms:ViaService", [])
    return [it["Fn::Join"][1][0].removesuffix(".") for it in as_list(via)]


# the permissions that the code uses -----------------------------------------------------------------------------------


@pytest.fixture
def asked(harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[Asked]]:
    """Record the permissions that the calls of each function need, by module. Calls outside handlers are the API's."""
    monkeypatch.setenv("SENDER", STAGES["dev"].sender)
    monkeypatch.setattr(customer_names, "ORDERS_PER_PAGE", 1)
    monkeypatch.setenv("PAGE_SIZE", "1")
    clients.client("sesv2").create_email_identity(EmailIdentity=STAGES["dev"].sender)
    asked: dict[str, set[Asked]] = {module: set() for module in MODULES}
    working = ["api"]

    def note(params: dict[str, Any], model: Any, **_: Any) -> None:
        # leave out SQS requests outside handlers, because the test sends them
        if (service := model.service_model.endpoint_prefix) != "sqs" or working[-1] != "api":
            asked[working[-1]].update(asks(service, model.name, params))

    def noted(module: str, handler: Any) -> Any:
        def handle(*arguments: Any) -> Any:
            working.append(module)
            try:
                return handler(*arguments)
            finally:
                working.pop()

        return handle

    for module in (
        *READERS.values(),
        *WORKERS.values(),
        order_deadlines,
        customer_erasure,
        backlog_metrics,
        webhook_retries,
    ):
        monkeypatch.setattr(module, "handler", noted(module.__name__.rpartition(".")[2], module.handler))
    start = noted("payment_starter", started_payments.start_payment)
    monkeypatch.setattr(started_payments, "start_payment", start)
    for service in ("dynamodb", "events", "s3", "sesv2", "sqs"):
        clients.client(service).meta.events.register("provide-client-params", note)
    return asked


def serve_guests_and_a_webhook(harness: ShopHarness) -> None:
    """Process an order of a guest that is refunded after its invoice, and one that is cancelled. A webhook has both."""
    webhooks.create_webhook(harness.shop, STAFF, "none", "http://127.0.0.1:9/", ["OrderPlaced"], {})  # without a server
    harness.clock_offset += webhooks.ACTIVE_AFTER
    kept, cancelled = (place_guest_order(harness.shop, key, pot=1).placed.order.order_id for key in ("one", "two"))
    cancellation.cancel_order(harness.shop, STAFF, cancelled)
    harness.pay_order(kept, "evt_guest", "pi_guest")
    harness.process_all()
    refunds.refund_order(harness.shop, STAFF, "guest", kept, 100)
    harness.process_all()
    harness.clock_offset += timedelta(minutes=2)
    assert webhook_retries.handler({}, None)["failed"] == 2


def let_ann_buy_for_a_company(shop: ShopContext) -> None:
    companies.create_company(shop, STAFF, "acme", "Acme")
    companies.add_member(shop, STAFF, "acme", ANN.id)
    companies.get_company_with_members(shop, ListRequest(ANN, 20), "acme")


def register_a_second_follower(shop: ShopContext) -> None:
    """Let Bob follow the mug, so that its followers are two pages."""
    bob = Caller("bob")
    customers.register_customer(shop, bob, "bob@example.com", "Bob Birch")
    follows.follow_product(shop, bob, "mug")


def export_lists(harness: ShopHarness) -> None:
    since, until = (to_instant(harness.now() + timedelta(days=days)) for days in (-30, 1))
    for name in get_args(ListName):
        list_exports.request_export(harness.shop, STAFF, name, name, since, until)
    harness.process_all()


def test_every_function_has_the_permissions_for_processing_orders(
    dev: SynthesizedTemplate, harness: ShopHarness, asked: dict[str, set[Asked]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = harness.shop
    harness.open_shop(available=10)
    products.list_products_in_category(shop, ListRequest(ANN, 20), "/")
    let_ann_buy_for_a_company(shop)
    register_a_second_follower(shop)
    customers.change_email(shop, ANN, ANN.id, lambda: "ann@new.example")
    mugs = {"product_id": "mug", "name": "Red mug", "price": 1250, "currency": "EUR"}
    lines = [imports.ParsedLine(1, mugs, 5), imports.ParsedLine(2, {**mugs, "product_id": "jug"}, 5)]
    imports.import_products(shop, STAFF, "file", {}, lambda: lines)
    activity.list_activity_of_day(shop, ListRequest(STAFF, 20), "2026-11-21")
    sold, cancelled = harness.place_order("sold", mug=2, pot=1), harness.place_order("cancelled")
    started_payments.start_payment(shop, harness.provider, ANN, harness.place_order("lapsed"))
    customers.change_profile(shop, ANN, ANN.id, "Ann Birch")
    harness.process_all()
    harness.pay_order(sold)
    cancellation.cancel_order(shop, ANN, cancelled)
    harness.lapse((datetime.now(UTC) + timedelta(minutes=31)).isoformat())
    harness.process_all()
    harness.pay_order(cancelled, "evt_2", "pi_2")
    refunds.refund_order(shop, STAFF, "sorry", sold, 100, "credit")
    harness.process_all()
    serve_guests_and_a_webhook(harness)
    assert harness.provider.refunded_amount("pi_2")
    shipments.dispatch_shipment(shop, WAREHOUSE, sold, f"{sold}-1", "dhl", "42")
    export_lists(harness)
    harness.lapse((datetime.now(UTC) + timedelta(days=31)).isoformat())
    harness.process_all()
    reviews.write_review(shop, ANN, "mug", sold, 5, "Keeps warm.")
    reviews.list_reviews_of_product(shop, ListRequest(ANN, 20), "mug")
    follows.follow_product(shop, ANN, "mug")
    follows.list_followers_of_product(shop, ListRequest(STAFF, 20), "mug")
    products.update_product(shop, STAFF, "mug", price=990)
    products.create_product(shop, STAFF, "cup", "Cup", 990, "EUR", 1)
    follows.follow_product(shop, ANN, "cup")
    products.receive_stock(shop, STAFF, "cups", "cup", 5)
    harness.process_all()
    expire_until(harness.engine, shop.table.name, datetime.now(UTC) + timedelta(days=500))
    harness.process_all()
    assert isinstance(orders.get_order(shop, ANN, sold), ArchivedOrder)
    for reader in READERS.values():
        reader.handler({"Records": [{"dynamodb": {"Keys": {}, "NewImage": {}, "SequenceNumber": "1"}}]}, None)
    for worker in WORKERS.values():
        worker.handler({"Records": [{"messageId": "1", "body": "no event"}]}, None)
    erase_customer(shop, ANN, ANN.id)
    for finished in (0, 1):  # the first run deletes the addresses, and the second run finds none
        harness.clock_offset += timedelta(days=15)
        assert customer_erasure.handler({"time": harness.now().isoformat()}, None) == {
            "waiting": 2,  # and a guest, whose order is archived
            "finished": 2 * finished,
        }

    assert backlog_metrics.handler({}, None)["ParkedWaiting"]

    for module in MODULES:
        if not asked[module]:
            why = "had nothing to do: let this test give it work (tests/stacks/test_permissions.py)"
            pytest.fail(f"functions/handlers/{module}.py: {why}", pytrace=False)
        check_permissions(dev, module, asked[module])


def check_permissions(template: SynthesizedTemplate, module: str, asked: set[Asked]) -> None:
    """Fail the test with one sentence if the role of a function lacks a permission."""
    for action, on in sorted(asked):
        ends = [_end(resource) for resource in allowed(template, module).get(action, [])]
        if not any(fnmatch(on, end) for end in ends):
            why = f"may not {action} on {on or 'the table'}, only on {ends}: grant it where the function is created"
            pytest.fail(f"stacks/orders_stack.py: {module} {why}", pytrace=False)


def _end(resource: Any) -> str:
    """Return the suffix after the name of a resource, such as /index/GSI1, or "" for the resource itself."""
    return str(resource["Fn::Join"][1][-1]) if "Fn::Join" in resource else ""
