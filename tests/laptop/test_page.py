"""Tests the answers of the running shop to its page, and the failures that the page's switches cause."""

import json
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest

from local.laptop.demo import DemoClients
from ops.api_client import ApiClient
from ops.scenarios import wait_until
from tests.laptop.conftest import LaptopShop

pytestmark = pytest.mark.laptop
PATIENCE_SECONDS = 300
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def page(laptop: LaptopShop) -> ApiClient:
    """A client of the page's server."""
    return ApiClient(laptop.page_url)


@pytest.fixture
def people(laptop: LaptopShop) -> DemoClients:
    return DemoClients(laptop.shop())


@pytest.fixture
def order(people: DemoClients) -> Any:
    return people.place_order(people.create_stocked_product(5), quantity=1)


@contextmanager
def connected(page: ApiClient) -> Iterator[HTTPConnection]:
    with closing(HTTPConnection(urllib.parse.urlsplit(page.url).netloc, timeout=PATIENCE_SECONDS)) as connection:
        yield connection


@contextmanager
def following(page: ApiClient, query: str, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    """Yield the journal's entries that the server pushes."""
    with connected(page) as connection:
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request("GET", f"/local/events{query}", headers=sent)
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "text/event-stream"
        yield (json.loads(line[6:]) for line in iter(answer.readline, b"") if line.startswith(b"data: "))


# views ----------------------------------------------------------------------------------------------------------------
def test_entries_are_pushed_as_they_happen(page: ApiClient, people: DemoClients) -> None:
    last = page.get("/local/shop")["last_entry"]
    with following(page, f"?after={last}") as pushed:
        order = people.place_order(people.create_stocked_product(1), quantity=1)
        entry = next(one for one in pushed if one["order_id"] == order["order_id"] and one["kind"] == "published")
    with following(page, "", Last_Event_ID=str(entry["id"] - 1)) as pushed:
        assert next(pushed) == entry
    with following(page, f"?after={last}&order={order['order_id']}") as pushed:
        assert next(pushed)["order_id"] == order["order_id"]


def test_measured_invocations_are_pushed_only_to_who_follows_one_order(page: ApiClient, order: Any) -> None:
    id = order["order_id"]

    def entries(kind: str) -> list[Any]:
        return [one for one in page.get(f"/local/orders/{id}/entries")["entries"] if one["kind"] == kind]

    last = wait_until("an effect", lambda: entries("effect"), PATIENCE_SECONDS)[-1]["id"]
    (first, *_) = entries("invocation")
    with following(page, f"?after={first['id'] - 1}&order={id}") as pushed:
        assert next(pushed) == first
    with following(page, f"?after={first['id'] - 1}") as pushed:
        kinds = set()
        for entry in pushed:
            kinds.add(entry["kind"])
            if entry["id"] >= last:
                break
    assert "effect" in kinds
    assert "invocation" not in kinds


# rejected requests ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("way_out", ["..", "%2e%2e", "."])
def test_only_requests_to_the_api_are_forwarded(page: ApiClient, way_out: str) -> None:
    with connected(page) as connection:
        connection.request("GET", f"/api/{way_out}/{way_out}/{way_out}/_ministack/ses/messages")
        assert connection.getresponse().status == 404


def test_headers_are_known_in_any_case(page: ApiClient) -> None:
    with connected(page) as connection:
        connection.request("POST", "/local/tokens", '{"user": "alice"}', {"content-type": "application/json"})
        assert connection.getresponse().status == 200


@pytest.mark.parametrize("port", ["--page-port", "--provider-port"])
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"Content-Length": "-1"}, 400),
        ({"Content-Length": "x"}, 400),
        ({"Content-Length": "9" * 30}, 400),
        ({"Content-Length": "9999999"}, 413),
        ({"Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_a_body_without_a_length_is_refused(laptop: LaptopShop, port: str, sent: dict[str, str], status: int) -> None:
    with closing(HTTPConnection(f"127.0.0.1:{laptop.ports[port]}", timeout=5)) as connection:
        connection.putrequest("POST", "/local/chaos")
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["status"]) == (status, status)


def test_entries_are_followed_from_a_number(page: ApiClient) -> None:
    assert page.call("GET", "/local/events?after=soon").status == 400


@pytest.mark.parametrize("body", ["[" * 100_000, '{"arguments": ', "[]", "", "\ud800".encode("utf-8", "surrogatepass")])
def test_a_body_that_is_no_object_is_refused(page: ApiClient, body: str | bytes) -> None:
    answer = page.pool.request("POST", f"{page.url}/local/patterns/A9", body=body, headers=JSON)
    assert (answer.status, answer.json()["errors"][0]["field"]) == (400, "body")


# switches that cause failures -----------------------------------------------------------------------------------------
def test_listing_dead_letters_repeatedly_shows_the_same_messages(
    page: ApiClient, people: DemoClients, order: Any
) -> None:
    def dead() -> list[Any]:
        return [one for one in page.get("/local/failures")["items"] if one["kind"] == "dead letter"]

    page.post("/local/chaos", {"switch": "fail", "of": "fulfilment", "times": 9})
    people.pay_order(order)
    [first] = wait_until("the dead letter", dead, PATIENCE_SECONDS)
    assert (first["reader"], first["reason"]) == ("fulfilment", "failed at all 9 deliveries")
    assert dead() == [first]
    path = f"/local/failures/{urllib.parse.quote(first['key'], safe='')}"
    assert page.get(path)["event"]["data"]["order_id"] == order["order_id"]
    assert page.post(f"{path}/redrive", {}) == {"redriven": True, "why": None}
    path_of_order = f"/orders/{order['order_id']}"
    wait_until("the delivery", lambda: people.alice.get(path_of_order)["status"] == "DELIVERED", PATIENCE_SECONDS)
    assert dead() == []
    assert page.call("POST", f"{path}/redrive", {}).status == 404
