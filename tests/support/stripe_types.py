"""Compares what the local payment provider receives and sends with the types of Stripe's own client.

Stripe generates these types from its OpenAPI document of one API version. Unlike that document, they do not say which
optional fields are always present. So only the fields that are never null are required.
"""

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import stripe
from stripe._request_options import RequestOptions
from stripe._stripe_object import StripeObject, UntypedStripeObject

OBJECTS: Mapping[str, Any] = {
    "dispute": stripe.Dispute,
    "event": stripe.Event,
    "payment_intent": stripe.PaymentIntent,
    "refund": stripe.Refund,
}
LIST_FIELDS = {"list": {"object", "url", "has_more", "data"}}
LIST_FIELDS["search_result"] = {*LIST_FIELDS["list"], "next_page"}
PARAMETERS = {
    ("POST", "payment_intents"): "PaymentIntentCreateParams",
    ("GET", "payment_intents", "ID"): "PaymentIntentRetrieveParams",
    ("GET", "payment_intents", "search"): "PaymentIntentSearchParams",
    ("POST", "payment_intents", "ID", "confirm"): "PaymentIntentConfirmParams",
    ("POST", "payment_intents", "ID", "cancel"): "PaymentIntentCancelParams",
    ("POST", "refunds"): "RefundCreateParams",
    ("GET", "refunds"): "RefundListParams",
}
"""The type of the parameters of each request that the shop or its docs send."""


class _Names(dict[str, Any]):
    """The names in the types of Stripe's client, which imports many of them only while it is type-checked."""

    def __missing__(self, name: str) -> Any:
        name = name.removesuffix("Resource")  # some modules import, for example, Dispute as DisputeResource
        if hasattr(stripe, name):
            return getattr(stripe, name)
        if name[0].islower() or hasattr(typing, name):
            raise KeyError(name)
        return Any  # an object of a product that the shop does not use, such as Issuing


def check_request(method: str, path: str, form: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the parameters of a request. `path`: without /v1/."""
    parts = [("ID" if part.startswith("pi_") else part) for part in path.split("/")]
    name = PARAMETERS.get((method, *parts))
    if name is None:
        yield f"{method} {path} is not a request that the shop or its docs send"
        return
    known = getattr(stripe.params, name).__annotations__.keys() - RequestOptions.__annotations__.keys()
    yield from (f"{method} {path} has no parameter {field}" for field in form if field.partition("[")[0] not in known)


def check_answer(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield how an object, a list, an error or an event differs from its type."""
    if "error" in answer:
        yield from check_type("error", answer["error"], stripe.ErrorObject)
    elif answer["object"] in LIST_FIELDS:
        if answer.keys() != LIST_FIELDS[answer["object"]]:
            yield f"a {answer['object']} has the fields {sorted(answer)}"
        for one in answer["data"]:
            yield from check_answer(one)
    else:
        yield from check_type(answer["object"], answer, OBJECTS[answer["object"]])
        if answer["object"] == "event":
            yield from check_answer(answer["data"]["object"])


def check_type(path: str, value: Any, expected: Any) -> Iterator[str]:
    """Yield how a JSON value differs from a type of Stripe's client. `path`: the name of the value in the messages."""
    origin, parts = get_origin(expected), get_args(expected)
    if origin in (Union, types.UnionType):
        yield from _check_union(path, value, parts)
    elif origin is Literal:
        if value not in parts:
            yield f"{path} is {value!r}"
    elif origin is list and isinstance(value, list):
        for one in value:
            yield from check_type(f"{path}[]", one, parts[0])
    elif origin in (dict, UntypedStripeObject) and isinstance(value, dict):
        for name, one in value.items():
            yield from check_type(f"{path}.{name}", one, parts[-1])
    elif isinstance(expected, type) and issubclass(expected, StripeObject) and isinstance(value, dict):
        yield from _check_fields(path, value, expected)
    elif expected is not Any and not isinstance(expected, TypeVar) and type(value) is not expected:
        yield f"{path} is {value!r}, but must be {expected}"


def _check_union(path: str, value: Any, parts: tuple[Any, ...]) -> Iterator[str]:
    """Check a value with alternative types. Where Stripe adds `str` for its future words, accept only today's words."""
    if any(get_origin(part) is Literal for part in parts):
        parts = tuple(part for part in parts if part is not str)
    differences = [list(check_type(path, value, part)) for part in parts]
    if all(differences):
        yield from max(differences, key=len) if isinstance(value, dict) else differences[0]


def _check_fields(path: str, value: Mapping[str, Any], expected: type[StripeObject]) -> Iterator[str]:
    hints = get_type_hints(expected, localns=_Names())
    fields = {name: hint for name, hint in hints.items() if name.islower() and not name.startswith("_")}
    yield from (f"{path} has no field {name}" for name in value.keys() - fields.keys())
    for name, hint in fields.items():
        if name in value:
            yield from check_type(f"{path}.{name}", value[name], hint)
        elif type(None) not in get_args(hint):
            yield f"{path} lacks {name}"
