"""Creates fast botocore clients for the simulation.

Each client is created once per process, because creating a client takes as long as 1,000 calls. The clients skip steps
that a request inside the process does not need: signatures, the user agent, tracing and endpoint resolution. Botocore
still does everything that decides the result of a call: hooks, retries and their quota, checksums, serializing and
parsing. Only the conversion of item attributes is replaced by faster code.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, cached_property
from io import BytesIO
from typing import Any, cast

import boto3
import orjson
from botocore import UNSIGNED
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.endpoint import Endpoint
from botocore.handlers import add_recursion_detection_header
from botocore.hooks import first_non_none_response
from botocore.parsers import JSONParser, ResponseParserFactory
from botocore.retries.quota import RetryQuota
from botocore.retries.standard import register_retry_handler
from botocore.serialize import JSONSerializer
from botocore.utils import parse_timestamp

from functions.runtime import clients
from local.world.dynamodb_engine import CREDENTIALS, REGION

FAST_CONFIG = Config(
    parameter_validation=False, signature_version=UNSIGNED, user_agent="simulation", s3={"addressing_style": "path"}
)
ENDPOINT_URL = "http://aws.invalid"
"""No connection is opened. HTTPS could bring a body in chunks with a checksum after it, which nothing here reads."""
ATTRIBUTE = "AttributeValue"
PARSED_BODY = "asked"
UNCHANGED_KINDS = {"S", "N", "BOOL", "NULL", "SS", "NS"}
"""The DynamoDB attribute types whose values are the same in Python and in JSON."""


class UnsignedRequest(AWSPreparedRequest):
    """A botocore request without a signature. `parsed_body`: the JSON body of the request as Python values."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params["method"], params["url"], params["headers"], params["body"], False, params["context"])
        if PARSED_BODY in params:
            self.parsed_body = params[PARSED_BODY]

    @cached_property
    def parsed_body(self) -> Any:
        return orjson.loads(cast(bytes, self.body))

    def copy_sent(self) -> "UnsignedRequest":
        """Return a copy of the sent request. Its body is bytes, because botocore rewinds a file for each attempt."""
        body: Any = self.body
        if hasattr(body, "read"):
            at = body.tell()
            body = body.read()
            cast(Any, self.body).seek(at)
        sent = {"method": self.method, "url": self.url, "headers": self.headers, "body": body, "context": {}}
        return UnsignedRequest(sent)


class Response(AWSResponse):
    """A botocore response whose body is already in memory as bytes."""

    def __init__(self, url: str, status_code: int, headers: Mapping[str, str], body: bytes) -> None:
        self.url, self.status_code, self.headers = url, status_code, cast(Any, headers)
        self.raw, self._content = cast(Any, BytesIO(body)), body


Transport = Callable[[str, str, UnsignedRequest], Response]
"""A function that gets (service, operation, request) and returns the response, or raises a botocore network error."""
_transport: list[Transport] = []
_quotas: list[RetryQuota] = []


def set_transport(answering: Transport) -> None:
    """Set the function that answers all clients' requests, and reset the retry quotas, which an earlier run used."""
    _transport[:] = [answering]
    for quota in _quotas:
        quota.release(quota.INITIAL_CAPACITY)


@cache
def client(service: str) -> Any:
    """Return the fast botocore client of a service, for example "dynamodb". It is created at the first call."""
    config = clients.client_config(service).merge(FAST_CONFIG)
    made = boto3.client(service, endpoint_url=ENDPOINT_URL, region_name=REGION, config=config, **CREDENTIALS)  # type: ignore[call-overload]
    model, events = made.meta.service_model, made.meta.events
    id = model.service_id.hyphenize()
    endpoint = _JsonEndpoint if model.resolved_protocol == "json" else _Endpoint
    made._endpoint = endpoint(ENDPOINT_URL, id, events, PARSERS, made._endpoint.http_session)
    # Skip the wrapper of this method, because the wrapper only sets the user agent.
    made._make_api_call = type(made)._make_api_call.__wrapped__.__get__(made)
    made._ruleset_resolver = _BucketEndpoints(made._ruleset_resolver) if service == "s3" else None
    if endpoint is _JsonEndpoint:
        made._serializer = SERIALIZER
    events.unregister("before-call", add_recursion_detection_header)
    events.unregister(f"needs-retry.{id}", unique_id=f"retry-config-{id}")
    handler: Any = register_retry_handler(made, made.meta.config.retries["total_max_attempts"])
    _quotas.append(handler._retry_quota._quota)

    def answer(request: UnsignedRequest, event_name: str, **_: Any) -> Response:
        return _transport[0](service, event_name.rpartition(".")[2], request)

    events.register(f"before-send.{id}", answer)
    return made


def _parse_time(told: Any) -> datetime:
    """Parse a timestamp of the simulated S3 (ISO 8601 with Z) fast, and others with botocore's slow parser."""
    return datetime.fromisoformat(told) if str(told).endswith("Z") else parse_timestamp(told)


PARSERS = ResponseParserFactory()
PARSERS.set_parser_defaults(timestamp_parser=_parse_time)


class _BucketEndpoints:
    """Caches the S3 endpoint of each bucket, because botocore computes it again for each request."""

    def __init__(self, resolver: Any) -> None:
        self._resolver = resolver
        self._found: dict[str, Any] = {}

    def construct_endpoint(self, operation_model: Any, call_args: Any, request_context: Any) -> Any:
        bucket = call_args["Bucket"]
        if bucket not in self._found:
            found = self._resolver.construct_endpoint(operation_model, call_args, request_context)
            self._found[bucket] = found._replace(properties={})  # drop the signing properties: requests are unsigned
        return self._found[bucket]


class _Endpoint(Endpoint):
    def create_request(self, params: Any, operation_model: Any = None) -> UnsignedRequest:
        return UnsignedRequest(params)

    def _update_retries_context(self, context: Any, attempt: int, success_response: Any = None) -> None:
        """Do nothing. botocore's own method sets headers with the number of retries. The simulation ignores them."""

    def _needs_retry(
        self: Any,
        attempts: int,
        operation_model: Any,
        request_dict: Any,
        response: Any = None,
        caught_exception: Any = None,
    ) -> Any:
        """Return whether to retry a request. After status 200 never retry. In all other cases, botocore decides."""
        if response is not None and response[0].status_code == 200:
            return False
        return cast(Any, super())._needs_retry(attempts, operation_model, request_dict, response, caught_exception)


class _JsonEndpoint(_Endpoint):
    """The endpoint of services with a JSON protocol. It skips botocore's conversion and recording of each response."""

    def _get_response(self: Any, request: Any, operation_model: Any, context: Any) -> Any:
        try:
            event = f"before-send.{self._endpoint_prefix}.{operation_model.name}"
            answer = first_non_none_response(self._event_emitter.emit(event, request=request))
        except Exception as error:  # noqa: BLE001  like botocore, return each error of sending
            return None, error
        told = {"headers": answer.headers, "status_code": answer.status_code, "context": {}, "body": answer.content}
        parsed = PARSER.parse(told, operation_model.output_shape)
        if answer.status_code >= 300:
            self._add_modeled_error_fields(told, parsed, operation_model, PARSER)
        return (answer, parsed), None


class _Parser(JSONParser):
    """Parses JSON responses, and sorts the attributes of each item, which the engine returns in no stable order."""

    def _parse_body_as_json(self: Any, body_contents: bytes) -> Any:
        return orjson.loads(body_contents)

    def _handle_map(self: Any, shape: Any, value: Any) -> Any:
        within = shape.value
        if within.name != ATTRIBUTE:
            return cast(Any, super())._handle_map(shape, value)
        return {
            name: one if next(iter(one)) in UNCHANGED_KINDS else self._handle_structure(within, one)
            for name, one in sorted(value.items())
        }

    def _handle_structure(self: Any, shape: Any, value: Any) -> Any:
        if shape.name != ATTRIBUTE:
            return cast(Any, super())._handle_structure(shape, value)
        ((kind, held),) = value.items()
        return {kind: self._parse_shape(shape.members[kind], held)}


PARSER = _Parser()


class _Serializer(JSONSerializer):
    """Serializes requests to JSON. Keeps the parameters too, so that the simulation need not parse the JSON again."""

    def serialize_to_request(self: Any, parameters: Any, operation_model: Any) -> Any:
        asked: dict[str, Any] = {}
        self._serialize(asked, parameters, operation_model.input_shape)
        told = operation_model.metadata
        headers = {
            "X-Amz-Target": f"{told['targetPrefix']}.{operation_model.name}",
            "Content-Type": f"application/x-amz-json-{told['jsonVersion']}",
        }
        request = self._create_default_request()
        return {**request, "headers": headers, "body": orjson.dumps(asked), PARSED_BODY: asked}

    def _serialize_type_map(self: Any, serialized: Any, value: Any, shape: Any, key: Any) -> None:
        within = shape.value
        if within.name != ATTRIBUTE:
            cast(Any, super())._serialize_type_map(serialized, value, shape, key)
            return
        serialized[key] = into = {}
        for name, one in value.items():
            if next(iter(one)) in UNCHANGED_KINDS:
                into[name] = one
            else:
                self._serialize_type_structure(into, one, within, name)


SERIALIZER = _Serializer()
