"""The oracle's rules for answers: equal answers to equal idempotency keys, and no data of other customers."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from proof.oracle.books import Books
from proof.oracle.observations import ObservedRequest

FIXED_FIELDS = ("order_id", "customer_id", "placed_at", "currency", "total")
"""The fields that each answer to the request that placed an order repeats. The other fields show the current state."""
SHARED_PATHS = (
    "/companies/",
)  # fmt: skip
"""The beginnings of the paths whose answers contain names and ids of other customers."""


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
    orders = [group[0].answer["order_id"] for (_, _, path, _), group in by_key.items() if path == "/orders"]
    yield from (f"order {id} was placed with two keys" for id in {id for id in orders if orders.count(id) > 1})


def _fixed(path: str, answer: Any) -> Any:
    return {name: answer[name] for name in FIXED_FIELDS} if path == "/orders" else answer


def nobody_sees_another_customer(books: Books) -> Iterator[str]:
    """Check that no answer to a customer contains another customer's id, order id, name, street or mail address.

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
            if other in texts and not request.path.startswith(SHARED_PATHS):
                yield f"{request.method} {request.path} shows {request.caller} the id of {other}"


def _secrets(books: Books, request: ObservedRequest, other: str) -> list[str]:
    """Return the texts about another customer that an answer must not contain."""
    words = books.seen.personal_words.get(other, ())
    orders = [order.id for order in books.orders.values() if order.customer == other]
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
