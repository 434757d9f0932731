"""Tests the routes of guests: the answers, the tokens of links, the limits, and that a guest sees only one order."""

from collections.abc import Iterator

import pytest

from functions.model.patterns import CUSTOMER_BY_ID
from functions.model.public_routes import GUEST_ROUTES
from functions.shop import guest_links
from proof.support.every_route import BODIES, GUEST_KEY, as_guest, call_route, guest_token, place_guest_order
from proof.support.http_client import ANN, STAFF, ApiHarness, HandlerResponse, Token, order_body
from tests.api.conftest import limiting_writes

ORDER = BODIES["POST /guest/orders"]


def test_a_guest_orders_and_opens_the_order_with_its_token(api: ApiHarness) -> None:
    made = api.call("POST", "/guest/orders", None, ORDER, key=GUEST_KEY)
    assert made.status == 201
    assert made.headers["cache-control"] == "private, no-store"
    path = made.headers["location"]
    shown = api.call("GET", path, Token("guest", bearer=made.body["token"]))
    assert shown.body == made.body["order"]
    assert (shown.body["customer_name"], shown.body["status"]) == ("Gil Gray", "PENDING")
    again = api.call("POST", "/guest/orders", None, ORDER, key=GUEST_KEY)
    assert (again.status, again.body, again.headers["idempotent-replayed"]) == (200, made.body, "true")


def test_a_guest_gets_the_total_before_the_order(api: ApiHarness) -> None:
    quote = api.call("POST", "/guest/orders/quote", None, BODIES["POST /guest/orders/quote"])
    assert (quote.status, quote.body) == (
        200,
        api.call("POST", "/orders/quote", ANN, BODIES["POST /orders/quote"]).body,
    )


def test_a_key_that_somebody_could_guess_is_rejected(api: ApiHarness) -> None:
    for key in (None, "order-1", "x" * 21):
        assert "idempotency-key" in api.call("POST", "/guest/orders", None, ORDER, key=key).field_errors


def test_a_wrong_token_is_answered_with_what_to_do(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    made = place_guest_order(api)
    path = f"/guest/orders/{made['guest_order_id']}"
    said = [api.call("GET", path), api.call("GET", path, Token("ann", bearer="wrong"))]
    assert api.call("POST", f"/orders/{made['guest_order_id']}/guest-link", STAFF).status == 202
    said.append(api.call("GET", path, guest_token(made)))
    monkeypatch.setattr(guest_links, "LINK_LIFETIME", -guest_links.LINK_LIFETIME)
    said.append(api.call("GET", path, guest_token(place_guest_order(api, "another-key-of-the-guest"))))
    assert {(one.status, one.problem_type, one.headers["www-authenticate"]) for one in said} == {
        (401, "guest-link-invalid", "Bearer")
    }
    texts = ["is missing", "is wrong", "was revoked", "has expired"]
    assert [text in one.body["detail"] for text, one in zip(texts, said, strict=True)] == [True] * 4


def test_an_access_token_opens_no_route_of_guests(api: ApiHarness, world: dict[str, str]) -> None:
    before = api.table_images()
    for key in GUEST_ROUTES:
        method, path = key.split()
        for token in (None, ANN, STAFF):
            refused = api.call(method, path.format(**as_guest(key, world)), token, BODIES.get(key))
            assert (refused.status, refused.problem_type) == (401, "guest-link-invalid"), key
    assert api.table_images() == before


def test_a_guest_sees_no_other_order_and_no_other_customer(api: ApiHarness, world: dict[str, str]) -> None:
    other = place_guest_order(api, email="hal@example.com")
    foreign = [{}, {"order_id": other["guest_order_id"], "invoice_id": "none", "customer_id": "bob"}]
    before = api.table_images()
    for key in GUEST_ROUTES:
        method, path = key.split()
        for ids in foreign:
            refused = api.call(method, path.format(**{**world, **ids}), guest_token(world), BODIES.get(key))
            assert (refused.status, refused.problem_type) == (404, "not-found"), key
    assert api.table_images() == before


def test_a_guest_may_use_each_route_for_the_own_order(api: ApiHarness, world: dict[str, str]) -> None:
    new = world | place_guest_order(api)
    for key in sorted(
        set(GUEST_ROUTES), key=lambda key: (key.startswith("DELETE"), "/guest-link" in key, "cancel" in key)
    ):
        of = world if "invoice" in key else new
        if not key.endswith("payment-intents"):  # tests/api/test_started_payments.py
            assert call_route(api, of, key, None).status in (200, 202), key
        if key.endswith("guest-link"):
            assert call_route(api, new, "GET /guest/orders/{order_id}", None).status == 401
            new = {**new, "guest_token": renewed_token(api, new["guest_order_id"])}
    assert call_route(api, new, "GET /guest/orders/{order_id}", None).status == 401, "the guest is erased"


def renewed_token(api: ApiHarness, order_id: str) -> str:
    guest = api.call("GET", "/customers", STAFF, email="gil@example.com").body["items"]
    (customer_id,) = [one["customer_id"] for one in guest if one["order_id"] == order_id]
    found = api.shop.table.get(CUSTOMER_BY_ID, customer_id=customer_id)
    assert found is not None
    return guest_links.create_token(api.shop, found)


def test_the_page_of_an_order_is_for_people_only(api: ApiHarness, world: dict[str, str]) -> None:
    page = call_route_with_query(api, world, world["guest_token"])
    assert page.status == 200
    assert "Blue mug" in page.text
    assert page.headers["content-type"].startswith("text/html")
    assert (page.headers["cache-control"], page.headers["x-robots-tag"]) == ("private, no-store", "noindex")
    assert page.headers["referrer-policy"] == "no-referrer"
    assert call_route_with_query(api, world, "wrong").problem_type == "guest-link-invalid"
    other = place_guest_order(api, email="hal@example.com")
    assert call_route_with_query(api, world, other["guest_token"]).problem_type == "not-found"


def call_route_with_query(api: ApiHarness, world: dict[str, str], token: str) -> HandlerResponse:
    return api.call("GET", f"/guest/orders/{world['guest_order_id']}/page", token=None, token_=token)


def test_staff_find_the_guests_with_an_address_after_its_customer(api: ApiHarness) -> None:
    made = [place_guest_order(api, f"key-{number}-of-a-guest-of-ann", "Ann@Example.com") for number in range(3)]
    first = api.call("GET", "/customers", STAFF, email="ann@example.com", limit=2).body
    rest = api.call("GET", "/customers", STAFF, email="ann@example.com", limit=2, cursor=first["cursor"]).body
    assert first["items"][0]["customer_id"] == "ann"
    found = {one["order_id"] for one in [*first["items"], *rest["items"]]}
    assert found == {None, *(one["guest_order_id"] for one in made)}


# limits ---------------------------------------------------------------------------------------------------------------
@pytest.fixture
def limited(api: ApiHarness, outside: pytest.MonkeyPatch) -> Iterator[ApiHarness]:
    """The API of a shop in which everybody may send 3 writes at once, then one a minute."""
    with limiting_writes(outside, 1, 3):
        yield api


def test_the_orders_of_a_guest_are_limited_by_the_address(limited: ApiHarness) -> None:
    body = order_body(mug=1) | {"name": "Gil", "email": "gil@example.com"}
    sent = [limited.call("POST", "/guest/orders", None, body, key=f"{number}-{GUEST_KEY}") for number in range(7)]
    assert [one.status for one in sent[:3]] == [201] * 3
    assert (sent[-1].status, sent[-1].problem_type) == (429, "too-many-writes")
    other = body | {"email": "hal@example.com"}
    assert limited.call("POST", "/guest/orders", None, other, key=GUEST_KEY).status == 201


def test_the_writes_with_a_link_are_limited(limited: ApiHarness) -> None:
    made = place_guest_order(limited)
    path = f"/guest/orders/{made['guest_order_id']}/cancel"
    statuses = [limited.call("POST", path, guest_token(made)).status for _ in range(7)]
    assert (statuses[:3], statuses[-1]) == ([200] * 3, 429)
