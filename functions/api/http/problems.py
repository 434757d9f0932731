"""Convert exceptions to error responses in the format problem+json (RFC 9457).

The table `PROBLEM_TYPES` maps each exception class to its response. The problem document has `type` (a link to the
documentation page), `title`, `status`, `detail` and `instance` (the request id in the log). It also has fields of the
exception, such as `errors`, `short` or `changed`.

The document repeats no content of the request except field names. After an internal error it gives no details.
"""

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NotConnected

from functions.dynamodb.cursors import InvalidCursor
from functions.dynamodb.errors import TableBusy, Unreadable
from functions.dynamodb.keys import InvalidKeyValue
from functions.dynamodb.retry import RETRYABLE_ERROR_CODES
from functions.model import errors

CONTENT_TYPE = "application/problem+json"
DOCS_URL_PREFIX = "/docs#"
MAX_ERRORS = 20
"""How many errors of one request the answer lists at most. The limit keeps the answer to a bad request small."""
MAX_FIELD_LENGTH = 100


# Errors of the API itself ---------------------------------------------------------------------------------------------
class MalformedRequest(Exception):
    """The request is malformed. `errors`: for each error, the field and the reason."""

    def __init__(self, *errors: tuple[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {why}" for field, why in errors))
        self.errors = errors


class BodyTooLarge(Exception):
    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"a body may have {most_bytes} bytes")
        self.most_bytes = most_bytes


class UnsupportedMediaType(Exception):
    def __init__(self, *taken: str) -> None:
        super().__init__(f"a body must come with Content-Type: {' or '.join(taken)}")


class Unauthenticated(Exception):
    """The caller's access token is missing, or the token is not valid for this API."""


class BadSignature(Exception):
    """The signature of a webhook is not from the payment provider, or the signature is too old."""


class EmailNotVerified(Exception):
    def __init__(self) -> None:
        super().__init__("verify your e-mail address with the identity provider first")


class RouteNotFound(Exception):
    def __init__(self) -> None:
        super().__init__("nothing answers at this path")


class MethodNotAllowed(Exception):
    """The path does not support the method. `allowed`: the methods that it supports."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(f"this path knows {', '.join(allowed)}")
        self.allowed = allowed


# The table ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ProblemType:
    """The error response for one kind of exception.

    `extensions`: the attributes of the exception that are copied to the problem document.
    """

    status: int
    slug: str
    title: str
    extensions: tuple[str, ...] = ()
    errors: Callable[[Any], Sequence[tuple[str, str]]] | None = None
    headers: Callable[[Any], dict[str, str]] = lambda _: {}
    detail: Callable[[Any], str] = str


def _malformed_type(errors: Callable[[Any], Sequence[tuple[str, str]]]) -> ProblemType:
    return ProblemType(400, "malformed", "The request is not as it should be", errors=errors)


def _validation_errors(error: RequestValidationError) -> list[tuple[str, str]]:
    return [
        (field_path(found["loc"][1:]) or str(found["loc"][0]), validation_message(found)) for found in error.errors()
    ]


def field_path(location: Sequence[str | int]) -> str:
    """Return the path of a field as text, such as lines.0.quantity."""
    return ".".join(map(str, location))


def validation_message(found: Mapping[str, Any]) -> str:
    """Return the message of a pydantic error. The message does not contain the value that the caller sent."""
    plain = {"missing": "is required", "extra_forbidden": "is not known here"}
    return plain.get(found["type"]) or str(found["msg"]).removeprefix("Value error, ")


def _bearer_header(_: Exception) -> dict[str, str]:
    return {"WWW-Authenticate": "Bearer"}


def _allow_header(error: MethodNotAllowed) -> dict[str, str]:
    return {"Allow": ", ".join(error.allowed)}


def _retry_after_header(error: Exception) -> dict[str, str]:
    return {"Retry-After": str(getattr(error, "retry_after_seconds", 2))}


# These texts replace the texts of exceptions from libraries, because such texts may quote sent or stored data.
def _retry_detail(_: Exception) -> str:
    return "a request with an Idempotency-Key is safe to repeat"


def _logged_detail(_: Exception) -> str:
    return "it is logged under this request's id"


_UNREACHABLE = ProblemType(
    503, "unreachable", "No answer: try again", headers=_retry_after_header, detail=_retry_detail
)

# fmt: off
PROBLEM_TYPES: Mapping[type[Exception], ProblemType] = {
    MalformedRequest:               _malformed_type(lambda e: e.errors),
    RequestValidationError:  _malformed_type(_validation_errors),
    errors.InvalidInput:          _malformed_type(lambda e: [(e.field, e.why)]),
    InvalidKeyValue:                  _malformed_type(lambda e: [(e.name, "is empty, or holds '#' or what cannot be printed")]),
    InvalidCursor:           _malformed_type(lambda e: [("cursor", str(e))]),
    BadSignature:            ProblemType(400, "bad-signature", "The webhook is not signed as it should be"),
    Unauthenticated:         ProblemType(401, "unauthenticated", "An access token is needed", headers=_bearer_header),
    errors.NotAllowed:       ProblemType(403, "not-allowed", "This is not for you"),
    EmailNotVerified:        ProblemType(403, "email-not-verified", "The e-mail address is not verified"),
    errors.NotFound:         ProblemType(404, "not-found", "There is none", ("what",)),
    RouteNotFound:             ProblemType(404, "no-such-route", "Nothing answers here"),
    MethodNotAllowed:             ProblemType(405, "wrong-method", "Not with this method", headers=_allow_header),
    errors.CommandRejected:          ProblemType(409, "refused", "Not as things stand"),
    errors.NotRegistered:    ProblemType(409, "not-registered", "You are no customer yet"),
    errors.AlreadyExists:    ProblemType(409, "already-exists", "It exists already", ("what",)),
    errors.EmailTaken:       ProblemType(409, "email-taken", "Another customer has this e-mail address"),
    errors.InAnotherCompany: ProblemType(409, "in-another-company", "They are in another company", ("company_id",)),
    errors.UnknownProducts:  ProblemType(409, "unknown-products", "Not everything is for sale here", ("product_ids",)),
    errors.UnknownCategory:  ProblemType(409, "unknown-category", "There is no such category to put it into", ("path",)),
    errors.NotBought:        ProblemType(409, "not-bought", "Who has bought it, and has it, may say something of it"),
    errors.MixedCurrencies:  ProblemType(409, "mixed-currencies", "One order is in one currency", ("currencies",)),
    errors.OutOfStock:       ProblemType(409, "out-of-stock", "There is not enough in stock", ("short",)),
    errors.PriceChanged:     ProblemType(409, "price-changed", "The price changed since you saw it", ("changed",)),
    errors.DiscountNotValid: ProblemType(409, "discount-not-valid", "Not with this discount code", ("code", "why")),
    errors.InsufficientFunds: ProblemType(409, "insufficient-funds", "The account holds less", ("balance",)),
    errors.SelfTransfer:     ProblemType(409, "self-transfer", "From an account to itself"),
    errors.WrongCurrency:    ProblemType(409, "wrong-currency", "Not in this currency", ("wanted", "got")),
    errors.TooManyPayments:  ProblemType(409, "too-many-payments", "Not in so many parts", ("most",)),
    errors.TooMuch:          ProblemType(409, "too-much", "More than there is", ("field", "most")),
    errors.ReturnWindowOver: ProblemType(409, "return-window-over", "The time to return it is over", ("ended_at",)),
    errors.TooEarly:         ProblemType(409, "too-early", "Not before what it is about: tell it again", headers=_retry_after_header),
    errors.WrongState:       ProblemType(409, "wrong-state", "Not in the state it is in", ("what", "state", "command")),
    BodyTooLarge:                ProblemType(413, "too-large", "The body is too large", ("most_bytes",)),
    UnsupportedMediaType:          ProblemType(415, "wrong-media-type", "The body is not declared as what is taken here"),
    errors.IdempotencyKeyReused:        ProblemType(422, "key-reused", "The Idempotency-Key stands for another request"),
    TableBusy:                    ProblemType(503, "busy", "Too many at once: try again", headers=_retry_after_header),
    HTTPClientError:         _UNREACHABLE,
    NotConnected:            _UNREACHABLE,
    Unreadable:              ProblemType(500, "unreadable", "This version cannot read it", detail=_logged_detail),
    Exception:               ProblemType(500, "fault", "A fault of ours", detail=_logged_detail),
}
# fmt: on


def problem_type_of(error: Exception) -> ProblemType:
    """Return the problem type of an exception. If its class is not in the table, use its nearest base class.

    A transient error of an AWS service has the type "unreachable" (503) and not the type "fault" (500).
    """
    if isinstance(error, ClientError) and _is_transient(error):
        return _UNREACHABLE
    return PROBLEM_TYPES[next(cls for cls in type(error).__mro__ if cls in PROBLEM_TYPES)]


def _is_transient(error: ClientError) -> bool:
    """Return whether a later retry may succeed: the AWS service failed or throttled the call."""
    status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status >= 500 or error.response["Error"]["Code"] in RETRYABLE_ERROR_CODES


def to_problem_response(error: Exception, instance: str) -> tuple[ProblemType, dict[str, Any]]:
    """Return the problem type of an exception, and the Lambda response. `instance`: the request id."""
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
    """Return the OpenAPI extension that declares additional problems of a route. It is only for the documentation.

    Do not declare problems that follow from the route's method, path and parameters. They are documented automatically.
    """
    return {"x-problems": tuple(PROBLEM_TYPES[kind].slug for kind in exceptions)}


ERRORS_SAFE_TO_LOG = (ClientError, Unreadable, KeyError)
"""Errors whose text is safe to log, because it names only a missing or denied resource.

The texts of other errors are not logged, because they may quote sent or stored data.
"""


def describe_fault(error: Exception) -> dict[str, Any]:
    """Return the log fields of an internal error: type, last stack frames, and the text if it is safe to log."""
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    says = str(error) if isinstance(error, ERRORS_SAFE_TO_LOG) else ""
    return {"error": type(error).__name__, "says": says, "at": frames[-8:]}
