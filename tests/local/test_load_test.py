"""Tests that the load test finds the rate of orders with which a shop keeps up."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from local.laptop.load_test import MIN_RATE, RATE_PRECISION, find_highest
from ops.scenarios import ScenarioClients


@pytest.mark.parametrize("capacity", [0.3, 1.0, 6.4, 40.0])
def test_the_highest_possible_rate_is_found_in_a_few_tries(capacity: float) -> None:
    tried: list[float] = []

    def is_possible(rate: float) -> bool:
        tried.append(rate)
        return rate <= capacity

    found = find_highest(is_possible)
    assert found <= capacity <= found * RATE_PRECISION
    assert len(tried) <= 12


def test_if_no_rate_is_possible_the_search_ends() -> None:
    assert find_highest(lambda rate: False) < MIN_RATE


def test_the_mails_of_an_order_are_found_on_all_pages_of_its_customer() -> None:
    mails = [{"event": event, "status": "SENT"} for event in ("OrderPaid", "OrderPlaced")]
    pages = {
        "/orders/o1/notifications?limit=100": {"items": mails[:1], "cursor": "next"},
        "/orders/o1/notifications?limit=100&cursor=next": {"items": mails[1:], "cursor": None},
    }
    people: Any = SimpleNamespace(alice=SimpleNamespace(get=pages.__getitem__))
    people.list_all = partial(ScenarioClients.list_all, people)
    assert ScenarioClients.mailed_events(people, "o1") == ["OrderPaid", "OrderPlaced"]
