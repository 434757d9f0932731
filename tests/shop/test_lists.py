"""Tests that a cursor is valid only for the list that it continues."""

from dataclasses import replace
from typing import Any

import pytest

from functions.dynamodb.cursors import InvalidCursor
from functions.model.patterns import PAYMENTS_OF_ORDER, REFUNDS_OF_ORDER
from functions.shop import order_notifications, orders, refunds, returns
from functions.shop.lists import ListRequest, PagedQuery
from functions.shop.shop import ShopContext
from proof.support.actors import ANN, BOB, place
from proof.support.samples import moment

ORDER = {"order_id": "o1"}


def test_a_cursor_is_bound_to_caller_pattern_values_filters_and_range(shop: ShopContext) -> None:
    request = ListRequest(ANN, 10, since=moment(1), until=moment(3))
    made = PagedQuery(shop, request, REFUNDS_OF_ORDER, ORDER, ("filter",))
    sent = replace(made, request=replace(request, cursor=made.seal("here")))
    assert replace(sent, request=replace(sent.request, limit=20)).after == "here"
    others: list[dict[str, Any]] = [
        {"pattern": PAYMENTS_OF_ORDER},
        {"known": {"order_id": "o2"}},
        {"filters": ()},
        {"filters": ("other",)},
        *(
            {"request": replace(sent.request, **other)}
            for other in ({"caller": BOB}, {"since": moment(0)}, {"since": None}, {"until": moment(4)}, {"until": None})
        ),
    ]
    for other in others:
        with pytest.raises(InvalidCursor):
            _ = replace(sent, **other).after


def test_a_cursor_of_an_order_is_refused_for_another_order(shop: ShopContext, monkeypatch: pytest.MonkeyPatch) -> None:
    seal = PagedQuery.seal
    monkeypatch.setattr(PagedQuery, "seal", lambda self, after: seal(self, after or "1"))
    one, other = place(shop, "k1").order_id, place(shop, "k2").order_id
    for ask in (
        refunds.list_refunds_of_order,
        returns.list_returns_of_order,
        order_notifications.list_notifications_of_order,
        orders.get_order_item_collection,
    ):
        request = ListRequest(ANN, 10, ask(shop, ListRequest(ANN, 10), one).cursor)
        ask(shop, request, one)
        with pytest.raises(InvalidCursor):
            ask(shop, request, other)
