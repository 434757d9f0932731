"""Tests commands with an idempotency key: they run once, repeat their answer, and store only a hash of the key."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.dynamodb.errors import TableBusy
from functions.dynamodb.writes import Write, WriteConflict, update
from functions.model.errors import IdempotencyKeyReused, NotFound
from functions.model.patterns import PRODUCT_BY_ID
from functions.model.retention import COMMAND_DAYS
from functions.model.table import PRODUCT
from functions.shop.idempotency import IdempotentResult, fingerprint, run_idempotently
from functions.shop.shop import ShopContext, retry_on_conflict
from proof.support.client_faults import WireTap
from proof.support.tapped_client import ManualClock

RESULT: dict[str, Any] = {"text": "é", "list": [1, {"none": None}], "true": True}


def nothing(_shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
    return [], RESULT


def once(
    shop: ShopContext, key: str = "secret-key", body: Any = None, decide: Any = nothing, caller: str = "ann"
) -> IdempotentResult:
    return run_idempotently(shop, caller, key, "try", body or {}, decide)


def test_a_command_is_answered_the_same_when_it_comes_again(shop: ShopContext) -> None:
    assert once(shop) == IdempotentResult(RESULT, replayed=False)
    assert once(shop, decide=lambda _: pytest.fail("it was done")) == IdempotentResult(RESULT, replayed=True)


def test_a_key_is_remembered_only_as_a_digest_and_for_its_time(
    shop: ShopContext, wire: WireTap, clock: ManualClock
) -> None:
    once(shop)
    item = wire.requests[-1].body["Item"]
    assert "secret-key" not in str(item)
    assert item["PK"]["S"].startswith("COMMAND#ann#")
    assert "ttl" not in item
    run_idempotently(shop, "payment-provider", "evt_1", "record_payment", {}, nothing)
    item = wire.requests[-1].body["Item"]
    assert int(item["ttl"]["N"]) == int((clock.now + timedelta(days=COMMAND_DAYS)).timestamp())


def test_a_key_is_one_callers_and_one_commands(shop: ShopContext) -> None:
    once(shop)
    assert not once(shop, caller="bob").replayed
    assert not run_idempotently(shop, "ann", "secret-key", "another", {}, nothing).replayed
    with pytest.raises(IdempotencyKeyReused):
        once(shop, body={"x": 1})


def test_a_command_that_is_refused_does_not_burn_its_key(shop: ShopContext) -> None:
    def refuse(_shop: ShopContext) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
        raise NotFound("thing")

    with pytest.raises(NotFound):
        once(shop, decide=refuse)
    assert not once(shop).replayed


def rename_mug(shop: ShopContext, seen: list[int]) -> tuple[Sequence[Write[Any]], dict[str, Any]]:
    """Decide to rename the mug. At the first call, a concurrent command changes the mug first."""
    before = shop.table.get(PRODUCT_BY_ID, product_id="mug")
    assert before is not None
    seen.append(before.version)
    after = type(before)(**{name: getattr(before, name) for name in PRODUCT.fields} | {"version": before.version + 1})
    if len(seen) == 1:
        shop.table.write(update(PRODUCT, before, after))
    return [update(PRODUCT, before, after)], {"version": after.version}


def test_a_command_whose_items_changed_is_decided_again(shop: ShopContext) -> None:
    seen: list[int] = []
    assert once(shop, decide=lambda _: rename_mug(shop, seen)).result == {"version": 3}
    assert seen == [1, 2]


def test_items_that_always_conflict_end_as_busy(shop: ShopContext, clock: ManualClock) -> None:
    def never() -> None:
        raise WriteConflict(PRODUCT.type)

    with pytest.raises(TableBusy):
        retry_on_conflict(shop, never)
    assert 0 < sum(clock.pauses) <= shop.table.retry_budget_seconds


def test_an_expired_command_marker_that_still_exists_prevents_a_repeat(shop: ShopContext, clock: ManualClock) -> None:
    def record() -> IdempotentResult:
        return run_idempotently(shop, "payment-provider", "evt_1", "record_payment", {}, nothing)

    record()
    clock.now += timedelta(days=COMMAND_DAYS, seconds=1)
    assert record().replayed, "the expired item still exists, so it cannot be written again"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)
BODIES = st.dictionaries(st.text(max_size=3), JSON, max_size=4)


@given(BODIES, BODIES)
def test_two_bodies_have_one_fingerprint_only_if_they_are_the_same(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert (fingerprint(one) == fingerprint(two)) == (repr(sorted_deep(one)) == repr(sorted_deep(two)))
    assert fingerprint(one).startswith("1:")


def sorted_deep(value: Any) -> Any:
    """Return the value with sorted names. Unlike `==`, it keeps True and 1 different."""
    match value:
        case dict():
            return {name: sorted_deep(value[name]) for name in sorted(value)}
        case list():
            return [sorted_deep(each) for each in value]
    return value
