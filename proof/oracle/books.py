"""The oracle's books: the orders, payments and requests of a run, built from the plain observations."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

from proof.oracle.arithmetic import Row, currency_of, price_of_goods, rate_of, rows_of_goods, shipping_price, taxed_row
from proof.oracle.exceptions import Exceptions
from proof.oracle.observations import CardPayment, Image, Observations, ObservedRequest

PLACING_PATHS = ("/orders", "/guest/orders")
"""The paths to which customers and guests send their orders."""
ENDED_UNSOLD = ("CANCELLED", "LAPSED")
ALL_SENT = ("SHIPPED", "DELIVERED", "PARTIALLY_RETURNED", "RETURNED")
"""The states in which nothing more of an order is sent. Pieces that have not left the warehouse are cancelled."""


class Item(dict[str, Any]):
    """An item, or a map in it, without DynamoDB's type tags. Numbers are integers.

    The shop does not store a number that is 0, so a missing attribute reads as 0.
    """

    def __missing__(self, name: str) -> int:
        return 0


def to_plain(image: Image) -> Item:
    """Return an item without DynamoDB's type tags."""
    return Item({name: _plain_value(value) for name, value in image.items()})


def _plain_value(tagged: Mapping[str, Any]) -> Any:
    ((tag, value),) = tagged.items()
    match tag:
        case "N":
            return int(value)
        case "M":
            return to_plain(value)
        case "L":
            return [_plain_value(one) for one in value]
        case "NULL":
            return None
    return value


@dataclass
class OrderRecord:
    """An order with all its items.

    `versions`: each written version of the order, by time, except while archived. `item`: the order as it is now, from
    the table or the archive. `archived`: when the order was archived, as (start, end). `parcels`: by the path of the
    shipment, the pieces by product of each parcel that the warehouse reported as sent. `last_sent_at`: when it first
    reported the last parcel. `placed_by`: the requests that were answered with this order. If there are none: the
    unanswered requests with equal lines.
    """

    id: str
    item: Item
    status: str
    versions: Sequence[tuple[float, Item]]
    items: Sequence[Item]
    archived: Sequence[tuple[float, float]]
    parcels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    last_sent_at: float = 0
    placed_by: Sequence[ObservedRequest] = ()

    def of_type(self, kind: str) -> list[Item]:
        return [item for item in self.items if item["type"] == kind]

    @property
    def invoices(self) -> list[Item]:
        return [item for item in self.of_type("Invoice") if "corrects" not in item]

    @property
    def customer(self) -> str:
        return str(self.item["customer_id"])

    @property
    def code(self) -> str:
        return str((self.item.get("discount") or {"code": ""})["code"])

    @property
    def is_sold(self) -> bool:
        """Whether the order is paid in full and not cancelled."""
        return self.status not in ("PENDING", *ENDED_UNSOLD)

    @property
    def sent(self) -> Counter[str]:
        """The pieces by product that left the warehouse."""
        return sum((Counter(pieces) for pieces in self.parcels.values()), Counter[str]())

    @property
    def ordered(self) -> Counter[str]:
        return Counter({product: line["quantity"] for product, line in self.item["lines"].items()})

    @property
    def kept(self) -> Counter[str]:
        """The pieces by product that are reserved for the order or were sent. Returned pieces still count."""
        if self.status in ENDED_UNSOLD:
            return Counter()
        return self.sent if self.status in ALL_SENT else self.ordered

    @property
    def dropped(self) -> Counter[str]:
        """The cancelled pieces of an order whose other pieces were sent, by product."""
        return self.ordered - self.sent if self.status in ALL_SENT else Counter()

    def owners_between(self, since: float, until: float) -> set[str]:
        """Return the customers to whom the order belonged at some time. The order of a guest may move to an account."""
        before = [item for at, item in self.versions if at < since][-1:]
        return {str(item["customer_id"]) for item in before} | {
            str(item["customer_id"]) for at, item in self.versions if since <= at <= until
        }

    @cached_property
    def owners(self) -> set[str]:
        """All customers to whom the order belonged."""
        return {str(item["customer_id"]) for _, item in self.versions}


class Books(Exceptions):
    """The orders, payments and requests of one run.

    `rule`: the name of the rule that is being checked. `premises`: how often each premise of a rule held.
    """

    def __init__(self, seen: Observations) -> None:
        super().__init__()
        self.seen = seen
        self.premises: Counter[str] = Counter()
        self._asked: dict[tuple[str, str], list[tuple[tuple[str, ...], ObservedRequest]]] = {}
        self.current = [to_plain(image) for versions in seen.history.values() if (image := versions[-1][1])]

    def count_premise(self, premise: str, times: int = 1) -> None:
        """Count how often the rule had something to check. `premise`: a text that describes what the rule checks."""
        if times:
            self.premises[f"{self.rule}: {premise}"] += times

    def shipping_of(self, order: OrderRecord) -> tuple[str, int]:
        """Return the id of the shipping method of an order and its price before tax, or ("", 0) without methods."""
        asked, lines = order.placed_by[0].body, order.item["lines"]
        currency, country = currency_of(order.ordered), asked["address"]["country"]
        value = price_of_goods(lines) - (order.item.get("discount") or {"amount": 0})["amount"]
        weight = sum(self._weights.get(id, 0) * pieces for id, pieces in order.ordered.items())
        for method in self._shipping_methods:
            price = shipping_price(method, country, currency, value, weight)
            if price is not None and asked.get("shipping_method", method["id"]) == method["id"]:
                return method["id"], price
        return "", 0

    def goods_rows(self, order: OrderRecord) -> dict[str, Row]:
        """Return what the customer pays for each product of an order, with the tax rates of their country."""
        table, country = self._tax_table, order.placed_by[0].body["address"]["country"]
        rates = {id: rate_of(table["rates"], country, [self._tax_classes.get(id, "standard")]) for id in order.ordered}
        discount = (order.item.get("discount") or {"amount": 0})["amount"]
        return rows_of_goods(order.item["lines"], discount, rates, is_net=table["net_prices"])

    def shipping_row(self, order: OrderRecord) -> Row:
        """Return what the customer pays for the shipping of an order."""
        table, country = self._tax_table, order.placed_by[0].body["address"]["country"]
        rate = rate_of(table["rates"], country, ["shipping", "standard"])
        return taxed_row(self.shipping_of(order)[1], rate, is_net=table["net_prices"])

    def rows_of(self, order: OrderRecord) -> list[Row]:
        """Return all rows of an order: its products, and its shipping if it costs something."""
        shipping = self.shipping_row(order)
        return [*self.goods_rows(order).values(), *([shipping] if shipping.gross else [])]

    @cached_property
    def _tax_table(self) -> Mapping[str, Any]:
        return next(one.body for _, one in self.asked("PUT", "/tax-table"))

    @cached_property
    def _shipping_methods(self) -> Sequence[Mapping[str, Any]]:
        return next((one.body["methods"] for _, one in self.asked("PUT", "/shipping-methods")), ())

    @cached_property
    def _weights(self) -> Mapping[str, int]:
        asked = [one.body for _, one in self.asked("POST", "/products")]
        return {body["product_id"]: body["weight"] for body in asked if "weight" in body}

    @cached_property
    def _tax_classes(self) -> Mapping[str, str]:
        asked = [one.body for _, one in self.asked("POST", "/products")]
        return {body["product_id"]: body["tax_class"] for body in asked if "tax_class" in body}

    def of_type(self, *kinds: str) -> list[Item]:
        """Return the items of these types that are in the table now."""
        return [item for item in self.current if item["type"] in kinds]

    def versions_of(self, kind: str) -> Sequence[Sequence[tuple[float, Item]]]:
        """Return all versions of each item that ever had this type, with the times of their writes."""
        return self._versions_by_type[kind]

    @cached_property
    def _versions_by_type(self) -> Mapping[str, list[list[tuple[float, Item]]]]:
        found: dict[str, list[list[tuple[float, Item]]]] = defaultdict(list)
        for versions in self.seen.history.values():
            by_type: dict[str, list[tuple[float, Item]]] = defaultdict(list)
            for at, image in versions:
                if image:
                    by_type[image["type"]["S"]].append((at, to_plain(image)))
            for kind, own in by_type.items():
                found[kind].append(own)
        return found

    def asked(self, method: str, path: str) -> list[tuple[tuple[str, ...], ObservedRequest]]:
        """Return the requests whose whole path matches a pattern, each with the groups of the match.

        Of several requests with the same caller, path and idempotency key, return only one. Prefer a successful
        request, then a request that the shop may have executed.
        """
        if (method, path) not in self._asked:
            self._asked[method, path] = list(self._find_asked(method, path).values())
        return self._asked[method, path]

    def _find_asked(self, method: str, path: str) -> Mapping[Any, tuple[tuple[str, ...], ObservedRequest]]:
        found: dict[Any, tuple[tuple[str, ...], ObservedRequest]] = {}
        by_path = self._requests[method]
        matches = {one: re.fullmatch(path, one) for one in (by_path if {*"[(|"} & {*path} else (path,))}
        sent = sorted((number, text) for text, match in matches.items() if match for number in by_path.get(text, ()))
        for number, text in sent:
            request, match = self.seen.requests[number], matches[text]
            place = (request.caller, text, request.key or number)
            if match and (place not in found or _certainty(request) > _certainty(found[place][1])):
                found[place] = (match.groups(), request)
        return found

    @cached_property
    def _requests(self) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """The numbers of the requests by method and path, because one expression for each request takes too long."""
        found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, request in enumerate(self.seen.requests):
            found[request.method][request.path].append(number)
        return found

    @cached_property
    def erased(self) -> set[str]:
        """The customers who asked for the erasure of their data, successfully or without an answer.

        The data of a guest is also erased when the order is archived.
        """
        asked = self.asked("DELETE", "/customers/([^/]+)")
        guests = {item["customer_id"] for item in self.of_type("ErasedCustomer")}
        return {id for (id,), request in asked if request.succeeded or request.is_uncertain} | {
            id for id in guests if id.startswith("guest-")
        }

    @cached_property
    def orders(self) -> Mapping[str, OrderRecord]:
        """All orders by id, except damaged ones and archived ones whose archive object is missing."""
        partitions: dict[str, dict[str, Sequence[tuple[float, Image | None]]]] = defaultdict(dict)
        for (partition, sort), versions in self.seen.history.items():
            if partition.startswith("ORDER#"):
                partitions[partition.removeprefix("ORDER#")][sort] = versions
        found = {}
        for id, rows in partitions.items():
            if "ORDER" in rows and id not in self.seen.ignored_orders and (order := self._order(id, rows)):
                self._add_parcels(order)
                order.placed_by = self._placed_by(order)
                found[id] = order
        return found

    @cached_property
    def _assigned(self) -> Mapping[str, str]:
        """The order to which staff assigned a payment, by payment id. An unanswered request counts if it worked."""
        asked = self.asked("POST", "/orders/[^/]+/payments/([^/]+)/assign")
        recorded = {
            (item["payment_id"], order.id) for order in self.orders.values() for item in order.items if item["amount"]
        }
        to = [(id, one.body["to_order_id"], one) for (id,), one in asked]
        unanswered = {id: order_id for id, order_id, one in to if one.is_uncertain and (id, order_id) in recorded}
        return unanswered | {id: order_id for id, order_id, one in to if one.succeeded}

    def order_of(self, payment: CardPayment) -> str:
        """Return the id of the order whose money a card payment is."""
        return self._assigned.get(payment.id, payment.order_id)

    def _order(self, id: str, rows: Mapping[str, Sequence[tuple[float, Image | None]]]) -> OrderRecord | None:
        whole = [(at, to_plain(image)) for at, image in rows["ORDER"] if image]
        versions = [(at, item) for at, item in whole if item["type"] == "Order" and item["status"] != "ARCHIVING"]
        last = whole[-1][1]
        is_archiving = last["status"] == "ARCHIVING"
        images: dict[str, Image | None] = {}
        for sort, row_versions in rows.items():
            # The archive deletes the items of an order before it writes the stub. Until then, use their last images.
            usable = [image for _, image in row_versions if image or not is_archiving]
            images[sort] = usable[-1] if usable else None
        items = {sort: to_plain(image) for sort, image in images.items() if image}
        if last["type"] == "ArchivedOrder":
            body = self.seen.archive.get(str(last["object_key"]))
            if body is None:
                return None
            archived = {image["SK"]["S"]: to_plain(image) for image in json.loads(body)["items"]}
            items = archived | {sort: item for sort, item in items.items() if sort != "ORDER"}
        return OrderRecord(
            id=id,
            item=versions[-1][1] if is_archiving else items["ORDER"],
            status=str(versions[-1][1]["status"] if is_archiving else last["status"]),
            versions=versions,
            items=list(items.values()),
            archived=[
                (at, until)
                for (at, item), until in zip(whole, [*(at for at, _ in whole[1:]), inf], strict=True)
                if item["type"] == "ArchivedOrder"
            ],
        )

    def _add_parcels(self, order: OrderRecord) -> None:
        asked = self.asked("POST", f"(/orders/{order.id}/shipments/[^/]+)/dispatched")
        sent = [it["shipment_id"] for it in order.of_type("Shipment") if "carrier" in it]
        reports = [
            (path, one) for (path,), one in asked if one.succeeded or (one.is_uncertain and path.endswith(tuple(sent)))
        ]
        order.parcels = {path: one.body.get("quantities") or self.seen.parcels[path] for path, one in reports}
        first_reported = {path: one.asked_at for path, one in reversed(reports)}
        order.last_sent_at = max(first_reported.values(), default=0)

    def _placed_by(self, order: OrderRecord) -> Sequence[ObservedRequest]:
        # Requests with the same key may ask for other goods.
        path = "/guest/orders" if any(owner.startswith("guest-") for owner in order.owners) else "/orders"
        callers = {"", *order.owners} if path == "/guest/orders" else {order.customer}
        own = [one for one in self.seen.requests if one.caller in callers]
        asked = [one for one in own if (one.method, one.path) == ("POST", path)]
        return [one for one in asked if one.succeeded and placed_order(one)["order_id"] == order.id] or [
            one
            for one in asked
            if one.is_uncertain and {it["product_id"]: it["quantity"] for it in one.body["lines"]} == order.ordered
        ]

    def gone(self, order: OrderRecord) -> Counter[str]:
        """Return the pieces of a sold order that were returned or dropped, by product."""
        return order.dropped + sum((Counter(item["quantities"]) for item, _ in self.returns_of(order)), Counter[str]())

    def shipping_back(self, order: OrderRecord) -> int:
        """Return the price of the shipping of a sold order if a return asked for it, or 0."""
        is_asked = any(asked and asked.body["refund_shipping"] for _, asked in self.returns_of(order))
        return is_asked * self.shipping_row(order).gross

    def credit_notes_of(self, order: OrderRecord) -> list[tuple[float, Item]]:
        """Return the credit notes of an order, oldest first, each with the time when it was first written."""
        stored = {item["invoice_id"]: item for item in order.of_type("Invoice")}
        written = [(at, item["invoice_id"]) for at, item in self._credit_notes[order.id]]
        return [(at, stored[id]) for at, id in written if id in stored]

    @cached_property
    def _credit_notes(self) -> Mapping[str, list[tuple[float, Item]]]:
        found: dict[str, list[tuple[float, Item]]] = defaultdict(list)
        for (at, item), *_ in sorted(self.versions_of("Invoice"), key=lambda versions: versions[0][0]):
            if "corrects" in item:
                found[item["order_id"]].append((at, item))
        return found

    def returns_of(self, order: OrderRecord) -> list[tuple[Item, ObservedRequest | None]]:
        """Return the returns of an order, oldest first, each with the request that entered it.

        The request is None if nobody asked for the return.
        """
        asked = [one for _, one in self.asked("POST", f"/orders/{order.id}/returns")]
        written = {
            item["SK"]: next(at for at, image in self.seen.history[item["PK"], item["SK"]] if image)
            for item in order.of_type("Return")
        }
        return [
            (item, _request_of_return(item, asked))
            for item in sorted(order.of_type("Return"), key=lambda item: written[item["SK"]])
        ]


def placed_order(request: ObservedRequest) -> Mapping[str, Any]:
    """Return the order in the answer to a request that placed it."""
    order: Mapping[str, Any] = request.answer.get("order", request.answer)
    return order


def _certainty(request: ObservedRequest) -> int:
    """Return 2 if the shop executed the request, 1 if it may have executed it, 0 if it rejected it."""
    return 2 * request.succeeded + request.is_uncertain


def _request_of_return(item: Item, asked: Sequence[ObservedRequest]) -> ObservedRequest | None:
    unanswered = [
        one
        for one in asked
        if one.is_uncertain
        and {line["product_id"]: line["quantity"] for line in one.body["lines"]} == item["quantities"]
    ]
    answered = [one for one in asked if one.succeeded and one.answer["return_id"] == item["return_id"]]
    return next(iter([*answered, *unanswered]), None)
