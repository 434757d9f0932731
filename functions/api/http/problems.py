"""Convert exceptions to error responses in the format problem+json (RFC 9457), by the table `PROBLEM_TYPES`.

A problem document has the fields `type` (a link to the documentation page), `title`, `status`, `detail` and `instance`
(the request id in the log), and perhaps more, such as `changed` (the current prices). For a malformed request, `errors`
lists the invalid fields and the reasons. The details of an internal error are only in the log.
"""

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NotConnected

from functions.api.http.fields import PATTERN_RULES
from functions.dynamodb.cursors import InvalidCursor
from functions.dynamodb.errors import TableBusy, Unreadable
from functions.dynamodb.keys import InvalidKeyValue
from functions.dynamodb.retry import RETRYABLE_ERROR_CODES
from functions.model import errors
from functions.shop.payment_provider import BadSignature, InvalidProviderEvent, PaymentProviderUnavailable
from functions.shop.shop import ArchiveUnavailable

CONTENT_TYPE = "application/problem+json"
DOCS_URL_PREFIX = "/docs#"
MAX_ERRORS = 20
"""The maximum number of errors in one answer. The limit keeps the answer to a malformed request small."""
MAX_FIELD_LENGTH = 100


# The API itself raises the exceptions below. The business rules raise the exceptions of functions/model/errors.py.
class MalformedRequest(Exception):
    """The request is malformed. `errors`: a pair for each error, (field, reason)."""

    def __init__(self, *errors: tuple[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {why}" for field, why in errors))
        self.errors = errors


class BodyTooLarge(Exception):
    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"the body may have at most {most_bytes} bytes")
        self.most_bytes = most_bytes


class UnsupportedMediaType(Exception):
    def __init__(self, *taken: str) -> None:
        super().__init__(f"set the Content-Type to {' or '.join(taken)}")


class Unauthenticated(Exception):
    """The caller's access token is missing, or the token is not valid for this API."""


class EmailNotVerified(Exception):
    def __init__(self) -> None:
        super().__init__("verify your e-mail address with the identity provider first")


class RouteNotFound(Exception):
    def __init__(self) -> None:
        super().__init__("no route has this path")


class MethodNotAllowed(Exception):
    """The path exists but not with this method. `allowed`: the methods that the path supports."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(f"this path allows {', '.join(allowed)}")
        self.allowed = allowed


# The code below defines the table PROBLEM_TYPES, which maps each exception class to its error response.
@dataclass(frozen=True)
class ProblemType:
    """The error response for one kind of exception.

    `slug`: the id of the problem, which is the last part of the link in `type`. `extensions`: the attributes of the
    exception that become fields. `errors` returns the (field, reason) pairs, `headers` additional HTTP headers, and
    `detail` the text, each from the exception.
    """

    status: int
    slug: str
    title: str
    extensions: tuple[str, ...] = ()
    errors: Callable[[Any], Sequence[tuple[str, str]]] | None = None
    headers: Callable[[Any], dict[str, str]] = lambda _: {}
    detail: Callable[[Any], str] = str


def _malformed_type(errors: Callable[[Any], Sequence[tuple[str, str]]]) -> ProblemType:
    return ProblemType(400, "malformed", "The request is malformed", errors=errors)


def _validation_errors(error: RequestValidationError) -> list[tuple[str, str]]:
    return [
        (field_path(found["loc"][1:]) or str(found["loc"][0]), validation_message(found)) for found in error.errors()
    ]


def field_path(location: Sequence[str | int]) -> str:
    """Return the path of a field as text, such as lines.0.quantity."""
    return ".".join(map(str, location))


def validation_message(found: Mapping[str, Any]) -> str:
    """Return the message of a pydantic error. The message does not contain the value that the caller sent."""
    if found["type"] == "string_pattern_mismatch":
        return PATTERN_RULES[found["ctx"]["pattern"]]
    plain = {"missing": "is required", "extra_forbidden": "is not a known field"}
    return plain.get(found["type"]) or str(found["msg"]).removeprefix("Value error, ")


def _bearer_header(_: Exception) -> dict[str, str]:
    return {"WWW-Authenticate": "Bearer"}


def _allow_header(error: MethodNotAllowed) -> dict[str, str]:
    return {"Allow": ", ".join(error.allowed)}


def _retry_after_header(error: Exception) -> dict[str, str]:
    return {"Retry-After": str(getattr(error, "retry_after_seconds", 2))}


# The next functions return fixed texts. The texts of library exceptions are not sent to the client, because they may
# quote data from the request or from the table.
def _retry_detail(_: Exception) -> str:
    return "a request with an Idempotency-Key is safe to repeat"


def _logged_detail(_: Exception) -> str:
    return "the error is logged under the request id in `instance`"


_UNREACHABLE = ProblemType(
    503, "unreachable", "A service did not answer: try again", headers=_retry_after_header, detail=_retry_detail
)

# fmt: off
PROBLEM_TYPES: Mapping[type[Exception], ProblemType] = {
    MalformedRequest:               _malformed_type(lambda e: e.errors),
    InvalidProviderEvent:           _malformed_type(lambda e: e.errors),
    RequestValidationError:  _malformed_type(_validation_errors),
    errors.InvalidInput:          _malformed_type(lambda e: [(e.field, e.why)]),
    InvalidKeyValue:                  _malformed_type(lambda e: [(e.name, "must not be empty, too long, or contain '#' or unprintable characters")]),
    InvalidCursor:           _malformed_type(lambda e: [("cursor", str(e))]),
    BadSignature:            ProblemType(400, "bad-signature", "The signature of the webhook is invalid"),
    Unauthenticated:         ProblemType(401, "unauthenticated", "An access token is required", headers=_bearer_header),
    errors.GuestLinkInvalid: ProblemType(401, "guest-link-invalid", "The link to the order is not accepted", headers=_bearer_header),
    errors.NotAllowed:       ProblemType(403, "not-allowed", "You are not allowed to do this"),
    EmailNotVerified:        ProblemType(403, "email-not-verified", "The e-mail address is not verified"),
    errors.NotFound:         ProblemType(404, "not-found", "The resource was not found", ("what",)),
    RouteNotFound:             ProblemType(404, "no-such-route", "No route has this path"),
    MethodNotAllowed:             ProblemType(405, "wrong-method", "The method is not allowed", headers=_allow_header),
    errors.CommandRejected:          ProblemType(409, "refused", "The current state does not allow this request"),
    errors.NotRegistered:    ProblemType(409, "not-registered", "You are not registered as a customer"),
    errors.AlreadyExists:    ProblemType(409, "already-exists", "The resource already exists", ("what",)),
    errors.EmailTaken:       ProblemType(409, "email-taken", "Another customer has this e-mail address"),
    errors.InAnotherCompany: ProblemType(409, "in-another-company", "The customer is in another company", ("company_id",)),
    errors.UnknownProducts:  ProblemType(409, "unknown-products", "Some products do not exist", ("product_ids",)),
    errors.UnknownCategory:  ProblemType(409, "unknown-category", "The category does not exist", ("field", "path")),
    errors.NotBought:        ProblemType(409, "not-bought", "Only customers who received the product can review it"),
    errors.MixedCurrencies:  ProblemType(409, "mixed-currencies", "All products of an order must have the same currency", ("currencies",)),
    errors.NotEmpty:         ProblemType(409, "not-empty", "Move or remove what it contains first", ("what",)),
    errors.Discontinued:     ProblemType(409, "discontinued", "Some products are not sold any more", ("product_ids",)),
    errors.OutOfStock:       ProblemType(409, "out-of-stock", "There is not enough stock", ("short",)),
    errors.PriceChanged:     ProblemType(409, "price-changed", "A price changed", ("changed",)),
    errors.TotalChanged:     ProblemType(409, "total-changed", "The total changed", ("total",)),
    errors.NoTaxRate:        ProblemType(409, "no-tax-rate", "The shop has no tax rate for this destination", ("country", "tax_class")),
    errors.ShippingMethodNotAvailable: ProblemType(409, "shipping-method-not-available", "The shipping method is not available for this order", ("shipping_method", "available")),
    errors.DiscountNotValid: ProblemType(409, "discount-not-valid", "The discount code is not valid for this order", ("code", "why")),
    errors.InsufficientFunds: ProblemType(409, "insufficient-funds", "The account balance is too low", ("balance",)),
    errors.SelfTransfer:     ProblemType(409, "self-transfer", "The source and the destination are the same account"),
    errors.WrongCurrency:    ProblemType(409, "wrong-currency", "The currency is wrong", ("wanted", "got")),
    errors.TooManyPayments:  ProblemType(409, "too-many-payments", "The order has the maximum number of payments", ("most",)),
    errors.PaymentInProgress: ProblemType(409, "payment-in-progress", "An earlier payment is in progress", ("amount", "currency")),
    errors.PaymentNotPossible: ProblemType(409, "payment-not-possible", "The payment provider does not take this payment", ("code",)),
    errors.TooMuch:          ProblemType(409, "too-much", "The amount or quantity is too large", ("field", "most")),
    errors.TooManyUnpaidOrders: ProblemType(409, "too-many-unpaid-orders", "You have too many unpaid orders", ("most",)),
    errors.ReturnWindowOver: ProblemType(409, "return-window-over", "The return period has ended", ("ended_at",)),
    errors.WrongState:       ProblemType(409, "wrong-state", "The current state does not allow this command", ("what", "state", "command")),
    BodyTooLarge:                ProblemType(413, "too-large", "The request body is too large", ("most_bytes",)),
    UnsupportedMediaType:          ProblemType(415, "wrong-media-type", "The Content-Type is not supported"),
    errors.IdempotencyKeyReused:        ProblemType(422, "key-reused", "The Idempotency-Key was used with a different request"),
    errors.TooManyWrites:    ProblemType(429, "too-many-writes", "You sent too many writes", headers=_retry_after_header),
    TableBusy:                    ProblemType(503, "busy", "The service is busy: try again", headers=_retry_after_header),
    PaymentProviderUnavailable: ProblemType(503, "provider-unavailable", "The payment provider does not answer: try again", headers=_retry_after_header),
    ArchiveUnavailable:      ProblemType(503, "archive-unavailable", "The archived order cannot be read now", headers=_retry_after_header),
    HTTPClientError:         _UNREACHABLE,
    NotConnected:            _UNREACHABLE,
    Unreadable:              ProblemType(500, "unreadable", "This version cannot read the stored data", detail=_logged_detail),
    Exception:               ProblemType(500, "fault", "Internal error", detail=_logged_detail),
}
# fmt: on


def problem_type_of(error: Exception) -> ProblemType:
    """Return the problem type of an exception: the entry of its class or of the nearest base class in PROBLEM_TYPES.

    If an AWS service returned an error and a later retry may succeed, the type is "unreachable" (503), not "fault" (500).
    """
    if isinstance(error, ClientError) and _is_transient(error):
        return _UNREACHABLE
    return PROBLEM_TYPES[next(cls for cls in type(error).__mro__ if cls in PROBLEM_TYPES)]


def _is_transient(error: ClientError) -> bool:
    """Return whether a later retry may succeed, because the AWS service failed or throttled the call."""
    status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= 500 or error.response["Error"]["Code"] in RETRYABLE_ERROR_CODES


def to_problem_response(error: Exception, instance: str) -> tuple[ProblemType, dict[str, Any]]:
    """Return the problem type of an exception, and the Lambda's response for API Gateway. `instance`: the request id."""
    problem_type = problem_type_of(error)
    said: dict[str, Any] = {name: getattr(error, name) for name in problem_type.extensions}
    if problem_type.errors:
        wrong = [(field[:MAX_FIELD_LENGTH], why) for field, why in problem_type.errors(error)[:MAX_ERRORS]]
        said["detail"] = "; ".join(f"{field}: {why}" for field, why in wrong[:3])
        said["errors"] = [{"field": field, "why": why} for field, why in wrong]
    else:
        said["detail"] = problem_type.detail(error)
    document = {
        "type": DOCS_URL_PREFIX + problem_type.slug,
        "title": problem_type.title,
        "status": problem_type.status,
        "instance": instance,
    }
    headers = {"Content-Type": CONTENT_TYPE, **problem_type.headers(error)}
    body = json.dumps({**document, **said})
    return problem_type, {"statusCode": problem_type.status, "headers": headers, "body": body, "isBase64Encoded": False}


def problem_responses(*exceptions: type[Exception]) -> dict[str, Any]:
    """Return the OpenAPI extension that documents which exceptions, specific to it, a route may raise.

    openapi.py adds those that follow from the route. Raises TypeError if an exception has no row in PROBLEM_TYPES.
    """
    if unknown := [kind.__name__ for kind in exceptions if kind not in PROBLEM_TYPES]:
        raise TypeError(
            f"{', '.join(unknown)} has no problem type: add a row to PROBLEM_TYPES in functions/api/http/problems.py"
        )
    return {"x-problems": tuple(PROBLEM_TYPES[kind].slug for kind in exceptions)}


ERRORS_SAFE_TO_LOG = (Unreadable, KeyError)
"""The exceptions whose text names an item or key, and is logged. Others may quote a request or the table."""


def describe_fault(error: Exception) -> dict[str, Any]:
    """Return the log fields of an internal error: its class, its last stack frames, and its text if safe to log.

    For an error of an AWS service, the text is its code, the operation and the request id. Its message is left out,
    because it may quote data, such as an e-mail address.
    """
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    says = str(error) if isinstance(error, ERRORS_SAFE_TO_LOG) else ""
    if isinstance(error, ClientError):
        response: Any = error.response
        request_id = response.get("ResponseMetadata", {}).get("RequestId")
        says = f"{response.get('Error', {}).get('Code')} ({error.operation_name}, request {request_id})"
    return {"error": type(error).__name__, "says": says, "at": frames[-8:]}
