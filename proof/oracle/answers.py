"""The oracle's rules for answers: equal answers to equal keys, no data of other customers, complete exports."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from proof.oracle.books import PLACING_PATHS, Books, Item, placed_order
from proof.oracle.observations import ObservedRequest

FIXED_FIELDS = ("order_id", "customer_id", "placed_at", "currency", "total")
"""The fields that each answer to the request that placed an order repeats. The other fields show the current state."""
SHARED_PATHS = (
    "/companies/",
)  # fmt: skip
"""The beginnings of the paths whose answers contain names and ids of other customers."""
OF_A_CUSTOMER = {
    "Customer", "ErasedCustomer", "Settings", "EmailClaim", "Review", "Follow", "Account", "Activity", "Notification",
    "OrderSummary", "Order", "ArchivedOrder", "ExpiryMarker", "Return", "Shipment", "Invoice",
}  # fmt: skip
"""The types of the items that have the id of the customer to whom they belong."""
OF_AN_ORDER = {"EarlierTimeline", "Payment", "StartedPayment", "KeptEvent", "Refund"}
"""The types of the items that belong to the customer of their order."""
NOT_EXPORTED = ("PK", "SK", "type", "schema", "restored_at")
"""The attributes of an item that an export leaves out, beside the keys of indexes."""
EXPORTED_AS_OBJECTS = ("shipping_method",)
"""The attributes that are stored as one text. An export shows them as objects, so that no text is compared."""


def the_same_key_gets_the_same_answer(books: Books) -> Iterator[str]:
    """Check that successful requests with the same caller, method, path and key have the same body and the same answer.

    If the answer is an order, only FIXED_FIELDS must be equal. Also check that no order was placed with two keys.
    """
    by_key: dict[tuple[str, str, str, str], list[ObservedRequest]] = defaultdict(list)
    for request in books.seen.requests:
        if request.key and request.succeeded:
            by_key[request.caller, request.method, request.path, request.key].append(request)
    for (caller, method, path, key), (first, *others) in by_key.items():
        for other in others:
            books.count_premise("an idempotency key was used again")
            if other.body != first.body:
                yield f"{method} {path} of {caller} accepted the key {key} with two different bodies"
            if _fixed(path, other.answer) != _fixed(path, first.answer):
                yield f"{method} {path} of {caller} with the key {key} got {first.answer} and {other.answer}"
    orders = [placed_order(group[0])["order_id"] for (_, _, path, _), group in by_key.items() if path in PLACING_PATHS]
    yield from (f"order {id} was placed with two keys" for id in {id for id in orders if orders.count(id) > 1})


def _fixed(path: str, answer: Any) -> Any:
    if path == "/guest/orders":
        return {"token": answer["token"], **_fixed("/orders", answer["order"])}
    return {name: answer[name] for name in FIXED_FIELDS} if path == "/orders" else answer


def nobody_sees_another_customer(books: Books) -> Iterator[str]:
    """Check that no answer to a customer contains another customer's id, order id, name, street or mail address.

    A guest, who has the link to an order, is a customer. The order may move to another customer later.

    The answers of SHARED_PATHS contain the names and the ids of others, but not their mail addresses.
    """
    customers = {order.customer for order in books.orders.values()}
    customers |= {one.caller for one in books.seen.requests if one.is_customer}
    for request in books.seen.requests:
        if not request.is_customer or request.status is None:
            continue
        books.count_premise(f"an answer to a customer was read: {'success' if request.succeeded else 'problem'}")
        if any(f"/{other}/" in request.path for other in customers - {request.caller}):
            books.count_premise("a customer asked for data of another customer")
        sent = _texts([request.path, request.body])
        texts = [text for text in _texts(request.answer) if text not in sent]
        for other in customers - {request.caller}:
            if found := [secret for secret in _secrets(books, request, other) if any(secret in it for it in texts)]:
                yield f"{request.method} {request.path} shows {request.caller} {found} of {other}"
            if other in texts:
                yield from books.violation_unless(
                    f"{request.method} {request.path} shows {request.caller} the id of {other}",
                    {
                        "members of a company see each other": request.path.startswith(SHARED_PATHS),
                        "the order of a guest moved to the caller": _was_placed_by(books, request, other),
                    },
                )


def _was_placed_by(books: Books, request: ObservedRequest, guest: str) -> bool:
    """Return whether a guest placed an order that has moved to the account of the caller."""
    return any(
        guest in order.owners and request.caller in order.owners_between(request.asked_at, request.answered_at)
        for order in books.orders.values()
    )


def _secrets(books: Books, request: ObservedRequest, other: str) -> list[str]:
    """Return the texts about another customer that an answer must not contain."""
    words = () if _was_placed_by(books, request, other) else books.seen.personal_words.get(other, ())
    orders = [
        order.id
        for order in books.orders.values()
        if order.customer == other and request.caller not in order.owners_between(request.asked_at, request.answered_at)
    ]
    return [*(words[1:] if request.path.startswith(SHARED_PATHS) else words), *orders]


def _texts(value: Any) -> list[str]:
    """Return all texts in a JSON value."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for one in value.values() for text in _texts(one)]
        case list():
            return [text for one in value for text in _texts(one)]
    return []


def an_export_has_each_item_of_its_customer_once(books: Books) -> Iterator[str]:
    """Check that the pages of an export together have all items of the customer, each one once."""
    pages: dict[str, list[Any]] = defaultdict(list)
    for request in books.seen.requests:
        customer = request.caller
        if request.path != f"/customers/{customer}/export" or not request.succeeded:
            continue
        pages[customer] += request.answer["items"]
        if request.answer["cursor"] is None:
            exported = Counter(_identity(one["type"], one["data"]) for one in pages.pop(customer))
            own = Counter(
                _identity(item["type"], item)
                for item in _items_of(books, customer)
                if not item["ttl"] or item["ttl"] > request.asked_at  # an expired item is shown to nobody
            )
            books.count_premise("a customer's data was exported", len(own) > 0)
            for it, times in (own - exported).items():
                yield f"the export of {customer} lacks {times} of {it}"
            for it, times in (exported - own).items():
                yield f"the export of {customer} has {times} too many of {it}"


def _items_of(books: Books, customer: str) -> Iterator[Item]:
    """Yield each item that belongs to a customer, from the table and from the archive objects of their orders."""
    orders = {order.id: order for order in books.orders.values() if order.customer == customer}
    accounts = {item["account_id"] for item in books.of_type("Account") if item["customer_id"] == customer}
    stored = {(item["PK"], item["SK"], item["type"]) for item in books.current}
    archived = [item for order in orders.values() for item in order.items]
    for item in [*books.current, *(it for it in archived if (it["PK"], it["SK"], it["type"]) not in stored)]:
        is_own = (
            (item["type"] in OF_A_CUSTOMER and item["customer_id"] == customer)
            or (item["type"] in OF_AN_ORDER and item["order_id"] in orders)
            or (item["type"] == "Entry" and item["account_id"] in accounts)
        )
        if is_own and item["order_id"] not in books.seen.ignored_orders:
            yield item


def _identity(kind: str, item: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the type of an item and its texts and numbers: an export shows them as they are stored."""
    hidden = NOT_EXPORTED + EXPORTED_AS_OBJECTS
    shown = {name: value for name, value in item.items() if name not in hidden and not name.startswith("GSI")}
    return kind, *sorted((name, one) for name, one in shown.items() if one and isinstance(one, (str, int)))
