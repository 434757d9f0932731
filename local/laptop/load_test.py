"""Runs a load test: many clients place orders in parallel. Measures throughput and delays.

The delay of an order is the time until its last side effect, such as a mail. None may be missing or occur twice.
"""

from __future__ import annotations

import statistics
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any

from local.laptop import journal
from local.laptop.aws_process import LocalAws
from local.laptop.demo import DemoClients
from local.laptop.shop_client import RunningShop
from ops.api_client import ApiResponse, UnexpectedResponse
from ops.scenarios import ADDRESS, EffectMissing, ScenarioClients

STALL_TIMEOUT_SECONDS = 120
"""The load test stops if no side effect of an order, such as a mail, occurs for this time."""
EXPECTED_MAILS = ["OrderDelivered", "OrderPaid", "OrderPlaced", "OrderShipped"]
LAST_EFFECT = "mail OrderDelivered"
EFFECT_KINDS = {"copied", "published", "effect"}


PROGRESS_SECONDS = 5.0


@dataclass
class LoadResult:
    """The measurements of one run, in seconds. `limited`: how often an order was answered with 429.

    By order id, `started_at` is the epoch time of the first request, and `finished_at` of the last side effect.
    """

    request_seconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    limited: int = 0
    started_at: dict[str, float] = field(default_factory=dict)
    finished_at: dict[str, float] = field(default_factory=dict)
    complete: set[str] = field(default_factory=set)


def run_load_test(shop: RunningShop, orders: int, clients: int, rate: float = 0) -> LoadResult:
    """Run the load test, wait for all side effects, check them, and print and return the measurements.

    `rate`: orders a second of all clients together; 0: no limit. Raises EffectMissing if an effect is missing or
    repeated.
    """
    people = DemoClients(shop)
    product_id = people.create_stocked_product(orders)
    measured = LoadResult()
    last_entry = journal.read_last_id(shop.journal_file)
    followed = threading.Thread(target=_track_effects, args=(shop, measured, orders, last_entry), daemon=True)
    followed.start()
    began = time.time()
    placed = _place_orders(people, product_id, orders, clients, rate, measured)
    seconds = time.time() - began
    print(f"{clients} clients placed and paid {orders} orders: {orders / seconds:.1f} orders per second")
    times, failures = _format_percentiles(measured.request_seconds, 1000), _format_failures(measured.failures)
    print(f"  request time: {times} ms; {failures}")
    if measured.limited:
        print(f"  the shop was far behind, and made its clients wait {measured.limited} times (429)")
    followed.join()
    delays = [measured.finished_at[id] - measured.started_at[id] for id in placed if id in measured.finished_at]
    seconds = max(measured.finished_at.values(), default=began) - began
    print(f"effects completed: {len(delays) / seconds:.1f} orders per second")
    print(f"  time from the first request to the last effect of an order: {_format_percentiles(delays, 1)} s")
    check_effects(people, placed, product_id)
    print("each order has every effect exactly once, and the stock is correct")
    return measured


def _place_orders(
    people: DemoClients, product_id: str, orders: int, clients: int, rate: float, measured: LoadResult
) -> list[str]:
    """Place and pay this number of orders with parallel clients, and return their ids. `rate`: 0 means no limit."""
    began = time.time()
    due = [began + number / rate if rate else 0.0 for number in range(orders)]
    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(lambda at: _place_and_pay_at(people, product_id, at, measured), due))


def _place_and_pay_at(people: DemoClients, product_id: str, at: float, measured: LoadResult) -> str:
    """At epoch time `at`, place an order and pay for it, repeating failed requests, and return the order id."""
    time.sleep(max(0.0, at - time.time()))
    began = time.time()
    body, key = {"lines": [{"product_id": product_id, "quantity": 1}], "address": ADDRESS}, uuid.uuid4().hex
    placed = _place_order(people, body, key, measured)
    measured.started_at[placed["order_id"]] = began
    _retry_and_time(lambda: people.pay_order(placed), measured)
    return str(placed["order_id"])


def _place_order(people: DemoClients, body: Any, key: str, measured: LoadResult) -> Any:
    """Place an order. While the shop accepts no new orders (429), wait as long as Retry-After says, and try again."""

    def send() -> ApiResponse:
        answer = people.alice.call("POST", "/orders", body, key=key)
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES and answer.status != HTTPStatus.TOO_MANY_REQUESTS:
            raise UnexpectedResponse(f"POST /orders answered {answer.status}: {answer.body}")
        return answer

    while (answer := _retry_and_time(send, measured)).status == HTTPStatus.TOO_MANY_REQUESTS:
        measured.limited += 1
        time.sleep(int(answer.headers["Retry-After"]))
    return answer.body


def _retry_and_time(request: Callable[[], Any], measured: LoadResult) -> Any:
    while True:
        began = time.perf_counter()
        try:
            answer = request()
        except Exception as error:
            measured.failures[type(error).__name__] += 1
            if sum(measured.failures.values()) > STALL_TIMEOUT_SECONDS:
                raise
            time.sleep(0.1)
        else:
            measured.request_seconds.append(time.perf_counter() - began)
            return answer


def _track_effects(shop: RunningShop, measured: LoadResult, orders: int, last_entry: int) -> None:
    """Record from the journal when each order had its last side effect, such as a mail, and print the progress.

    Returns with the last mail of each order, or when no side effect occurs for STALL_TIMEOUT_SECONDS.
    """
    done, heard, printed = measured.complete, time.monotonic(), time.monotonic()
    while len(done) < orders and time.monotonic() < heard + STALL_TIMEOUT_SECONDS:
        for entry in journal.read_entries_after(shop.journal_file, last_entry):
            last_entry = entry["id"]
            if entry["kind"] in EFFECT_KINDS and entry["order_id"] in measured.started_at:
                heard = time.monotonic()
                measured.finished_at[entry["order_id"]] = datetime.fromisoformat(entry["at"]).timestamp()
                if entry["text"] == LAST_EFFECT:
                    done.add(entry["order_id"])
        if time.monotonic() > printed + PROGRESS_SECONDS:
            _print_progress(shop, measured)
            printed = time.monotonic()
        time.sleep(0.2)


def _print_progress(shop: RunningShop, measured: LoadResult) -> None:
    behind = "; ".join(str(lag) for lag in shop.consumer_lags() if lag.is_behind) or "nothing is behind"
    print(f"  {len(measured.started_at)} placed, {len(measured.complete)} complete; {behind}", flush=True)


def _format_percentiles(values: Sequence[float], factor: float) -> str:
    if len(values) < 2:
        return "unknown"
    at = statistics.quantiles(values, n=100)
    return ", ".join(f"p{percent} {at[percent - 1] * factor:.1f}" for percent in (50, 95, 99))


def _format_failures(failures: Counter[str]) -> str:
    return ", ".join(f"{count} failed with {name}" for name, count in failures.items()) or "none failed"


def check_effects(
    people: DemoClients, placed: list[str], product_id: str, *, allow_duplicate_mail: bool = False
) -> None:
    """Wait until every order is delivered and complete, then check invoices, mails, stock and order lists.

    `allow_duplicate_mail`: a process was killed, so a mail may be sent twice. Raises EffectMissing.
    """
    check_orders(people, placed, product_id)
    check_mails(people.shop.aws, placed, allow_duplicates=allow_duplicate_mail)


def check_orders(people: ScenarioClients, placed: list[str], product_id: str) -> None:
    """Run the checks of `check_effects` through the API of any shop. The API does not show repeated mails."""
    give_up = time.monotonic() + STALL_TIMEOUT_SECONDS
    for order_id in placed:  # check one order after the other, because parallel requests would slow down the shop
        while reason := _missing_effect(people, order_id):
            if time.monotonic() > give_up:
                raise EffectMissing(f"order {order_id} is incomplete: {reason}")
            time.sleep(0.1)
    _check_invoices(people, placed)
    if left := people.available_stock(product_id):
        raise EffectMissing(f"{left} pieces are in stock, but all pieces were sold")
    for path in ("/orders?limit=100", "/customers/me/bought?limit=100"):
        listed = Counter(order["order_id"] for order in people.list_all(path))
        if wrong := [id for id in placed if listed[id] != 1]:
            raise EffectMissing(f"{len(wrong)} orders are not exactly once in the list {path}")


def _missing_effect(people: ScenarioClients, order_id: str) -> str:
    """Return the missing or wrong part of an order, such as its invoice, or "" if the order is complete."""
    whole: Any = people.alice.get(f"/orders/{order_id}/whole?limit=100")
    if whole["order"]["status"] != "DELIVERED":
        return f"its status is {whole['order']['status']}"
    for kind, count in (("payments", 1), ("invoices", 1), ("shipments", 1), ("timeline", 5)):
        if len(whole[kind]) != count:
            return f"{len(whole[kind])} {kind}"
    mails = people.mailed_events(order_id)
    return "" if mails == EXPECTED_MAILS else f"mails {mails}"


def _check_invoices(people: ScenarioClients, placed: list[str]) -> None:
    """Check for one invoice of each order, and for invoice numbers without gaps. Raises EffectMissing."""
    of_these = [one for one in people.list_all("/customers/me/invoices?limit=100") if one["order_id"] in set(placed)]
    if len(of_these) != len(placed):
        raise EffectMissing(f"expected {len(placed)} invoices, found {len(of_these)}")
    by_series: dict[str, list[int]] = {}
    for one in of_these:
        series, _, number = one["invoice_id"].rpartition("-")
        by_series.setdefault(series, []).append(int(number))
    for series, numbers in by_series.items():
        if sorted(numbers) != list(range(min(numbers), min(numbers) + len(numbers))):
            raise EffectMissing(f"the {len(numbers)} invoices of {series} from {min(numbers)} have gaps")


def check_mails(aws: LocalAws, placed: list[str], *, allow_duplicates: bool = False) -> None:
    """Check for one mail of each order and each event in EXPECTED_MAILS. Raises EffectMissing.

    `allow_duplicates`: accept two copies of a mail, and missing mails, because a process was killed during the test.
    """
    numbers = {order_id[:8].upper() for order_id in placed}
    subjects = Counter(mail["Subject"] for mail in aws.list_mails())
    ours = {subject: count for subject, count in subjects.items() if any(number in subject for number in numbers)}
    if wrong := {subject: count for subject, count in ours.items() if count > (2 if allow_duplicates else 1)}:
        raise EffectMissing(f"mails sent too often: {wrong}")
    # a killed process may have sent a mail without writing its file
    if not allow_duplicates and len(ours) != len(placed) * len(EXPECTED_MAILS):
        raise EffectMissing(f"expected {len(placed) * len(EXPECTED_MAILS)} different mails, found {len(ours)}")
