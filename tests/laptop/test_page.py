"""Tests the answers of the running shop to its page, and the failures that the page's switches cause."""

import json
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any, TypeVar

import pytest
import urllib3

from local.laptop.demo import DemoClients
from tests.laptop.conftest import LaptopShop

pytestmark = pytest.mark.laptop
T = TypeVar("T")
PATIENCE_SECONDS = 300
JSON = {"Content-Type": "application/json"}


class Browser:
    """Sends requests to the page's server as a browser does."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.pool = urllib3.PoolManager(retries=False, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body)
        sent = (JSON if body is not None else {}) | {name.replace("_", "-"): text for name, text in headers.items()}
        answer = self.pool.request(method, self.url + path, body=data, headers=sent)
        kind = answer.headers["Content-Type"]
        return answer.status, answer.json() if "json" in kind else answer.data.decode()

    @contextmanager
    def following(self, query: str, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield the journal's entries that the server pushes."""
        address = urllib.parse.urlsplit(self.url)
        with closing(HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE_SECONDS)) as connection:
            sent = {name.replace("_", "-"): text for name, text in headers.items()}
            connection.request("GET", f"/local/events{query}", headers=sent)
            answer = connection.getresponse()
            assert answer.headers["Content-Type"] == "text/event-stream"
            yield (json.loads(line[6:]) for line in iter(answer.readline, b"") if line.startswith(b"data: "))

    def get(self, path: str) -> Any:
        status, body = self.ask("GET", path)
        assert status == 200, body
        return body

    def throw(self, switch: str, **body: Any) -> Any:
        status, said = self.ask("POST", "/local/chaos", {"switch": switch, **body})
        assert status == 200, said
        return said

    def entries(self, order_id: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.get(f"/local/orders/{order_id}/entries")["entries"]
        return entries


@pytest.fixture
def browser(laptop: LaptopShop) -> Browser:
    return Browser(laptop.page_url)


@pytest.fixture
def people(laptop: LaptopShop) -> DemoClients:
    return DemoClients(laptop.shop())


@pytest.fixture
def order(people: DemoClients) -> Any:
    return people.place_order(people.create_stocked_product(5), quantity=1)


def eventually(look: Callable[[], T], meanwhile: Callable[[], object] = lambda: None) -> T:
    """Wait until a value appears, and return it. `meanwhile` runs every few seconds until then."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    looks = 0
    while not (seen := look()):
        assert time.monotonic() < give_up, "nothing came in time"
        time.sleep(0.1)
        looks += 1
        if looks % 30 == 0:
            meanwhile()
    return seen


def others_buy(people: DemoClients) -> Callable[[], object]:
    """Return a function that places another order, so that the local AWS reads the last log lines of functions."""
    return lambda: people.pay_order(people.place_order(people.create_stocked_product(1), quantity=1))


def of_kind(entries: list[dict[str, Any]], kind: str, **wanted: Any) -> list[dict[str, Any]]:
    return [one for one in entries if one["kind"] == kind and wanted.items() <= one.items()]


def delivered(people: DemoClients, order: Any) -> Callable[[], bool]:
    return lambda: people.alice.get(f"/orders/{order['order_id']}")["status"] == "DELIVERED"


# views ----------------------------------------------------------------------------------------------------------------


def test_entries_are_pushed_as_they_happen(browser: Browser, people: DemoClients) -> None:
    last = browser.get("/local/shop")["last_entry"]
    with browser.following(f"?after={last}") as pushed:
        order = people.place_order(people.create_stocked_product(1), quantity=1)
        entry = next(one for one in pushed if one["order_id"] == order["order_id"] and one["kind"] == "published")
    with browser.following("", Last_Event_ID=str(entry["id"] - 1)) as pushed:
        assert next(pushed) == entry
    with browser.following(f"?after={last}&order={order['order_id']}") as pushed:
        assert next(pushed)["order_id"] == order["order_id"]


# rejected requests ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way_out", ["..", "%2e%2e", "."])
def test_only_requests_to_the_api_are_forwarded(browser: Browser, way_out: str) -> None:
    connection = HTTPConnection(urllib.parse.urlsplit(browser.url).netloc)
    with closing(connection):
        connection.request("GET", f"/api/{way_out}/{way_out}/{way_out}/_ministack/ses/messages")
        assert connection.getresponse().status == 404


def test_headers_are_known_in_any_case(browser: Browser) -> None:
    with closing(HTTPConnection(urllib.parse.urlsplit(browser.url).netloc)) as connection:
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


def test_measured_invocations_are_pushed_only_to_who_follows_one_order(
    browser: Browser, people: DemoClients, order: Any
) -> None:
    id = order["order_id"]
    last = eventually(lambda: of_kind(browser.entries(id), "effect"), others_buy(people))[-1]["id"]
    (first, *_) = of_kind(browser.entries(id), "invocation")
    with browser.following(f"?after={first['id'] - 1}&order={id}") as pushed:
        assert next(pushed) == first
    with browser.following(f"?after={first['id'] - 1}") as pushed:
        kinds = set()
        for entry in pushed:
            kinds.add(entry["kind"])
            if entry["id"] >= last:
                break
    assert "effect" in kinds
    assert "invocation" not in kinds


def test_entries_are_followed_from_a_number(browser: Browser) -> None:
    assert browser.ask("GET", "/local/events?after=soon")[0] == 400


# queries of the table -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("body", ["[" * 100_000, '{"arguments": ', "[]", "", "\ud800".encode("utf-8", "surrogatepass")])
def test_a_body_that_is_no_object_is_refused(browser: Browser, body: str | bytes) -> None:
    answer = browser.pool.request("POST", f"{browser.url}/local/patterns/A9", body=body, headers=JSON)
    assert (answer.status, answer.json()["errors"][0]["field"]) == (400, "body")


# switches that cause failures -----------------------------------------------------------------------------------------


def test_listing_dead_letters_repeatedly_shows_the_same_messages(
    browser: Browser, people: DemoClients, order: Any
) -> None:
    def dead() -> list[Any]:
        return [one for one in browser.get("/local/failures")["items"] if one["kind"] == "dead letter"]

    browser.throw("fail", of="fulfilment", times=9)
    people.pay_order(order)
    [first] = eventually(dead)
    assert (first["reader"], first["reason"]) == ("fulfilment", "failed at all 9 deliveries")
    assert dead() == [first]
    kept = browser.get(f"/local/failures/{urllib.parse.quote(first['key'], safe='')}")
    assert kept["event"]["data"]["order_id"] == order["order_id"]
    path = f"/local/failures/{urllib.parse.quote(first['key'], safe='')}/redrive"
    assert browser.ask("POST", path, {})[1] == {"redriven": True, "why": None}
    eventually(delivered(people, order))
    assert dead() == []
    assert browser.ask("POST", path, {})[0] == 404
