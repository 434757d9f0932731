"""Roles: a Lambda that handles more than 100 orders or items needs no action that its role in the template lacks."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from functions.handlers import backlog_metrics, customer_erasure, order_deadlines
from functions.runtime import clients, environment
from functions.shop import customers, follows, placing, products
from functions.shop.erasure import erase_customer
from functions.shop.shop import Caller
from local.world.harness import ANN, HOME_ADDRESS, READERS, STAFF, WORKERS, ShopHarness
from proof.mutants.edits import detects, edit_template, remove_action
from proof.mutants.items import stored_items, text
from proof.support.permissions import allowed, asks
from proof.support.synthesized import SynthesizedTemplate
from stacks import synth_cache
from stacks.stage import STAGES

pytestmark = pytest.mark.slow

MANY = 105
HANDLERS = (*READERS.values(), *WORKERS.values(), order_deadlines, customer_erasure, backlog_metrics)


@contextmanager
def record_actions(harness: ShopHarness) -> Iterator[dict[str, set[tuple[str, str]]]]:
    """Yield the actions for which IAM asks each handler, with the end of the resource's name, by handler module."""
    actions: dict[str, set[tuple[str, str]]] = {}
    running: list[str] = []

    def note(params: dict[str, Any], model: Any, **_: Any) -> None:
        if running:
            actions.setdefault(running[-1], set()).update(asks(model.service_model.endpoint_prefix, model.name, params))

    def recorded(module: str, handler: Any) -> Any:
        def handle(*arguments: Any) -> Any:
            running.append(module)
            try:
                return handler(*arguments)
            finally:
                running.pop()

        return handle

    with ExitStack() as stack:
        for module in HANDLERS:
            name = module.__name__.rpartition(".")[2]
            stack.enter_context(mock.patch.object(module, "handler", recorded(name, module.handler)))
        for service in ("dynamodb", "events", "s3", "sesv2", "sqs"):
            events = clients.client(service).meta.events
            events.register("provide-client-params", note)
            stack.callback(events.unregister, "provide-client-params", note)
        yield actions


def name_end(resource: Any) -> str:
    """Return the suffix that a policy adds to the name of a resource of the stack, such as "/index/GSI1", or ""."""
    return str(resource["Fn::Join"][1][-1]) if "Fn::Join" in resource else ""


def missing_actions(actions: dict[str, set[tuple[str, str]]]) -> set[str]:
    """Return each action that a handler used and that its role in the template does not allow."""
    template = SynthesizedTemplate(Path(), synth_cache.load_template("orderstream-dev", {"laptop": "true"}))
    return {
        f"{module} {action}{on}"
        for module, used in actions.items()
        for action, on in used
        if not any(fnmatch(on, name_end(resource)) for resource in allowed(template, module).get(action, []))
    }


@contextmanager
def sender_of_the_template() -> Iterator[None]:
    """Send mails from the address of the stage dev, because the role allows no other sender. Send 100 mails a page."""
    clients.client("sesv2").create_email_identity(EmailIdentity=STAGES["dev"].sender)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SENDER", STAGES["dev"].sender)
        patch.setenv("PAGE_SIZE", "100")
        environment.load_environment.cache_clear()
        yield
    environment.load_environment.cache_clear()


def place_many(harness: ShopHarness, name: str, count: int) -> list[str]:
    wanted = {"mug": placing.RequestedLine(1)}
    return [
        placing.place_order(harness.shop, ANN, f"{name}-{key}", wanted, HOME_ADDRESS, {}).order.order_id
        for key in range(count)
    ]


@detects(
    "name worker may not store the position of the next page",
    edit_template(partial(remove_action, "dynamodb:PutItem", "customer_name_worker")),
)
def test_a_customer_with_more_than_100_orders_is_renamed_and_erased_with_the_actions_of_the_roles(
    harness: ShopHarness,
) -> None:
    harness.open_shop(available=MANY)
    place_many(harness, "open", MANY)
    for key in range(MANY):
        products.create_product(harness.shop, STAFF, f"p{key}", "Cup", 100, "EUR", 1)
        follows.follow_product(harness.shop, ANN, f"p{key}")
    harness.process_all(("copies_reader",))
    harness.new_records()
    with record_actions(harness) as actions:
        customers.change_profile(harness.shop, ANN, ANN.id, "Ann Birch")
        harness.process_all()
        names = [text(order, "customer_name") for order in stored_items(harness, "Order")]
        assert names == ["Ann Birch"] * MANY
        erase_customer(harness.shop, ANN, ANN.id)
        customer_erasure.handler({"time": f"{harness.now():%Y-%m-%dT%H:%M:%SZ}"}, None)
        harness.process_all()
    assert stored_items(harness, "Follow") == []
    assert missing_actions(actions) == set()


@detects(
    "product alert worker may not queue the next page",
    edit_template(partial(remove_action, "sqs:SendMessage", "product_alert_worker")),
)
def test_more_than_100_followers_get_a_mail_with_the_actions_of_the_roles(harness: ShopHarness) -> None:
    harness.open_shop()
    harness.process_all()
    for key in range(MANY):
        follower = Caller(f"follower-{key}")
        customers.register_customer(harness.shop, follower, f"{follower.id}@example.com", follower.id)
        follows.follow_product(harness.shop, follower, "mug")
    products.update_product(harness.shop, STAFF, "mug", price=1000)
    with sender_of_the_template(), record_actions(harness) as actions:
        harness.process_all(("event_publisher",))
    assert len(harness.sent_mails()) == MANY
    assert missing_actions(actions) == set()
