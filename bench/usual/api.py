"""The API of the usual shop: a Powertools resolver with validation, and one function for each route.

Powertools' idempotency makes sure that an order and its payment are created once, like the payment in its
documentation. One transaction changes the state of an order under a condition, together with its other items.
"""

import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Mapping
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response, content_types
from aws_lambda_powertools.event_handler.exceptions import BadRequestError, ServiceError
from aws_lambda_powertools.event_handler.openapi.params import Header, Path
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.idempotency import idempotent_function
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import BaseModel, Field

from bench.usual.items import ORDER_RETENTION, item_ttl, key, now, shard_key, ttl_after
from bench.usual.log import logger, metrics
from bench.usual.once import config, persistence
from bench.usual.promises import SAME_PROMISES, fetch_webhook_secret
from bench.usual.table import client, dynamodb, put, table, update

MAX_WRITES = 100
"""The maximum of TransactWriteItems. An order of 50 products needs 101: a header, 50 lines and 50 stock items."""

ORDER_ID_NAMESPACE = uuid.UUID("6f1cf8f4-5a0e-4b06-9a3c-3a4a3f0b5f43")
"""The UUID namespace of order ids that are derived from idempotency keys."""
TOLERANCE_SECONDS = 300

app = APIGatewayHttpResolver(enable_validation=True)
placing = config(event_key_jmespath="[customer_id, key]", payload_validation_jmespath="body")
paying = config(event_key_jmespath="id")
secret = fetch_webhook_secret() if SAME_PROMISES else ""


class OrderLineModel(BaseModel):
    product_id: str = Field(min_length=1, max_length=64)
    quantity: int = Field(ge=1, le=10_000)


class AddressModel(BaseModel):
    name: str = Field(min_length=1, max_length=200)
    street: str = Field(min_length=1, max_length=200)
    postcode: str = Field(min_length=1, max_length=20)
    city: str = Field(min_length=1, max_length=100)
    country: str = Field(pattern="^[A-Z]{2}$")


class NewOrderModel(BaseModel):
    lines: list[OrderLineModel] = Field(min_length=1, max_length=90)
    address: AddressModel


class PaymentIntentModel(BaseModel):
    id: str
    amount: int
    currency: str
    metadata: dict[str, str]


class EventDataModel(BaseModel):
    object: PaymentIntentModel


class PaymentEvent(BaseModel):
    """A webhook of the payment provider."""

    id: str
    type: str
    data: EventDataModel


class DispatchModel(BaseModel):
    carrier: str = Field(min_length=1, max_length=50)
    tracking_number: str = Field(min_length=1, max_length=50)


@app.post("/orders")
def post_order(
    order: NewOrderModel, idempotency_key: Annotated[str, Header(min_length=1, max_length=200)]
) -> Response[dict[str, Any]]:
    customer_id = app.current_event.request_context.authorizer.jwt_claim["sub"]
    body = order.model_dump()
    placed = place(request={"customer_id": customer_id, "key": idempotency_key, "body": body})
    metrics.add_metric(name="OrdersPlaced", unit=MetricUnit.Count, value=1)
    return Response(status_code=201, content_type=content_types.APPLICATION_JSON, body=placed)


@idempotent_function(data_keyword_argument="request", config=placing, persistence_store=persistence())
def place(request: dict[str, Any]) -> dict[str, Any]:
    """Place an order: read customer and products, write header, lines and stock. A repeat gets the stored answer."""
    wanted = {line["product_id"]: line["quantity"] for line in request["body"]["lines"]}
    customer_id = request["customer_id"]
    keys = [key(f"c#{customer_id}"), *(key(f"p#{id}") for id in wanted)]
    found = dynamodb.batch_get_item(RequestItems={table.name: {"Keys": keys}})["Responses"][table.name]
    products = {item["product_id"]: item for item in found if item["entity"] == "product"}
    if len(products) < len(wanted) or len(found) == len(products):
        raise BadRequestError("a product does not exist, or the customer is not registered")
    id = uuid.uuid5(ORDER_ID_NAMESPACE, f"{customer_id} {request['key']}") if SAME_PROMISES else uuid.uuid4()
    order_id, at = id.hex, now()
    priced = {id: {"name": products[id]["name"], "price": int(products[id]["price"])} for id in wanted}
    header = {
        **key(f"o#{order_id}"),
        "entity": "order",
        "GSI1PK": f"c#{customer_id}",
        "GSI1SK": f"o#{at}#{order_id}",
        "GSI2PK": shard_key("PENDING", order_id),
        "GSI2SK": f"{at}#{order_id}",
        "order_id": order_id,
        "customer_id": customer_id,
        "status": "PENDING",
        "placed_at": at,
        "updated_at": at,
        "currency": next(iter(products.values()))["currency"],
        "total": sum(priced[id]["price"] * quantity for id, quantity in wanted.items()),
        "items": sum(wanted.values()),
        "address": request["body"]["address"],
    }
    lines = [
        {
            **key(f"o#{order_id}", f"p#{id}"),
            "entity": "orderItem",
            "order_id": order_id,
            "customer_id": customer_id,
            "product_id": id,
            "placed_at": at,
            **item_ttl(),
            "quantity": quantity,
            **priced[id],
        }
        for id, quantity in wanted.items()
    ]
    _write(header, lines)
    shown = {name: value for name, value in header.items() if name not in ("PK", "SK", "entity")}
    answer = {name: value for name, value in shown.items() if not name.startswith("GSI")}
    return {**answer, "lines": [{"product_id": id, "quantity": wanted[id], **line} for id, line in priced.items()]}


def _write(header: Mapping[str, Any], lines: list[dict[str, Any]]) -> None:
    """Write the order in one transaction. Lines beyond MAX_WRITES are written before; no reader finds them without a
    header."""
    stock = [
        update(
            key(f"p#{line['product_id']}", "w#1"),
            "SET available = available - :quantity",
            "available >= :quantity",
            quantity=line["quantity"],
        )
        for line in lines
    ]
    room = MAX_WRITES - 1 - len(stock)
    if lines[room:]:
        with table.batch_writer() as batch:
            for line in lines[room:]:
                batch.put_item(Item=line)
    _transact([put(dict(header)), *map(put, lines[:room]), *stock])


@app.post("/payments/events")
def post_payment(event: PaymentEvent) -> dict[str, Any]:
    paid = event.data.object
    metrics.add_metric(name="PaymentsTaken", unit=MetricUnit.Count, value=1)
    if SAME_PROMISES:
        check_signature(app.current_event.headers.get("stripe-signature", ""), app.current_event.body or "")
    return dict(take_payment(event={"id": event.id, "paid": paid.model_dump()}))


def check_signature(header: str, body: str) -> None:
    """Raise BadRequestError if the header does not sign the body, or is older than TOLERANCE_SECONDS."""
    given = dict(part.partition("=")[::2] for part in header.split(","))
    signed = hmac.new(secret.encode(), f"{given.get('t')}.{body}".encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(signed, given.get("v1", "")) or abs(time.time() - int(given["t"])) > TOLERANCE_SECONDS:
        raise BadRequestError("the signature is invalid or too old")


@idempotent_function(data_keyword_argument="event", config=paying, persistence_store=persistence())
def take_payment(event: dict[str, Any]) -> dict[str, Any]:
    """Write the payment and mark the order as paid in one transaction, if amount and currency match. With
    SAME_PROMISES, a payment that does not match is stored as UNMATCHED."""
    paid = event["paid"]
    order_id, at = paid["metadata"]["order_id"], now()
    payment = {
        **key(f"o#{order_id}", f"pay#{paid['id']}"),
        "entity": "payment",
        "order_id": order_id,
        "payment_id": paid["id"],
        "status": "CAPTURED",
        "amount": paid["amount"],
        "currency": paid["currency"].upper(),
        "created_at": at,
        **item_ttl(),
    }
    expected = "#status = :before AND #total = :amount AND currency = :currency"
    more = {"paid_at": at, "amount": paid["amount"], "currency": payment["currency"]}
    moved = _change_status(order_id, "PENDING", "PAID", at, also=", paid_at = :paid_at", expected=expected, **more)
    try:
        _transact([put(payment), moved])
    except CancelledError as error:
        if not SAME_PROMISES or set(error.codes) - {"None", "ConditionalCheckFailed"}:
            raise
        payment |= {"status": "UNMATCHED", "GSI2PK": shard_key("UNMATCHED", order_id), "GSI2SK": at}
        try:
            table.put_item(Item=payment, ConditionExpression="attribute_not_exists(PK)")
        except client.exceptions.ConditionalCheckFailedException:  # stored by an attempt that crashed afterwards
            payment = table.get_item(Key=key(payment["PK"], payment["SK"]), ConsistentRead=True)["Item"]
    return {"payment_id": paid["id"], "status": payment["status"]}


@app.post("/orders/<order_id>/shipments/<shipment_id>/dispatch")
def post_dispatch(
    order_id: Annotated[str, Path(max_length=64)],
    shipment_id: Annotated[str, Path(max_length=80)],
    parcel: DispatchModel,
) -> dict[str, Any]:
    at = now()
    sent = update(
        key(f"o#{order_id}", f"sh#{shipment_id}"),
        "SET #status = :after, updated_at = :at, carrier = :carrier, tracking_number = :number, GSI1PK = :track,"
        " GSI1SK = :shipment",
        "#status = :before",
        before="REQUESTED",
        after="DISPATCHED",
        at=at,
        carrier=parcel.carrier,
        number=parcel.tracking_number,
        track=f"track#{parcel.carrier}#{parcel.tracking_number}",
        shipment=f"sh#{shipment_id}",
    )
    _transact([sent, _change_status(order_id, "FULFILLING", "SHIPPED", at)])
    metrics.add_metric(name="OrdersShipped", unit=MetricUnit.Count, value=1)
    return {"shipment_id": shipment_id, "status": "DISPATCHED"}


@app.post("/orders/<order_id>/shipments/<shipment_id>/deliver")
def post_delivery(
    order_id: Annotated[str, Path(max_length=64)], shipment_id: Annotated[str, Path(max_length=80)]
) -> dict[str, Any]:
    """Mark the shipment as delivered, and close its order."""
    at = now()
    there = update(
        key(f"o#{order_id}", f"sh#{shipment_id}"),
        "SET #status = :after, updated_at = :at",
        "#status = :before",
        before="DISPATCHED",
        after="DELIVERED",
        at=at,
    )
    _transact([there, *_close_order(order_id, "SHIPPED", "DELIVERED", at)])
    metrics.add_metric(name="OrdersDelivered", unit=MetricUnit.Count, value=1)
    return {"shipment_id": shipment_id, "status": "DELIVERED"}


@app.post("/orders/<order_id>/cancel")
def post_cancel(order_id: Annotated[str, Path(max_length=64)]) -> dict[str, Any]:
    """Cancel an unpaid order, and return its goods to stock."""
    lines = table.query(
        KeyConditionExpression="PK = :order AND begins_with(SK, :lines)",
        ExpressionAttributeValues={":order": f"o#{order_id}", ":lines": "p#"},
    )["Items"]
    back = [
        update(key(f"p#{line['product_id']}", "w#1"), "SET available = available + :back", None, back=line["quantity"])
        for line in lines
    ]
    _transact([*_close_order(order_id, "PENDING", "CANCELLED", now()), *back])
    metrics.add_metric(name="OrdersCancelled", unit=MetricUnit.Count, value=1)
    return {"order_id": order_id, "status": "CANCELLED"}


def _change_status(
    order_id: str, before: str, after: str, at: str, also: str = "", expected: str = "#status = :before", **more: Any
) -> dict[str, Any]:
    """Return the transaction's write that changes the status of an order and moves it to the list of that status."""
    there = shard_key(after, order_id)
    expression = f"SET #status = :after, updated_at = :at, GSI2PK = :queue{also}"
    return update(key(f"o#{order_id}"), expression, expected, before=before, after=after, at=at, queue=there, **more)


def _close_order(order_id: str, before: str, after: str, at: str) -> list[dict[str, Any]]:
    """Return the writes that close an order: it leaves its list, and it or an expiry item gets a `ttl`."""
    ends = {"ttl": ttl_after(ORDER_RETENTION)}
    set_ttl = "" if SAME_PROMISES else ", #ttl = :ttl"
    expression = f"SET #status = :after, updated_at = :at{set_ttl} REMOVE GSI2PK, GSI2SK"
    values = {"before": before, "after": after, "at": at, **({} if SAME_PROMISES else ends)}
    closed = update(key(f"o#{order_id}"), expression, "#status = :before", **values)
    expiry = put({**key(f"o#{order_id}", "expiry"), "entity": "expiry", "order_id": order_id, **ends})
    return [closed, expiry] if SAME_PROMISES else [closed]


class CancelledError(ServiceError):
    """DynamoDB cancelled a transaction. `codes`: the reason for each of its writes."""

    def __init__(self, codes: list[str]) -> None:
        super().__init__(409, f"the transaction was cancelled: {json.dumps(codes)}")
        self.codes = codes


def _transact(writes: list[dict[str, Any]]) -> None:
    try:
        client.transact_write_items(TransactItems=writes)
    except client.exceptions.TransactionCanceledException as error:
        raise CancelledError([reason["Code"] for reason in error.response["CancellationReasons"]]) from error


@logger.inject_lambda_context(correlation_id_path=correlation_paths.API_GATEWAY_HTTP)
@metrics.log_metrics(capture_cold_start_metric=True)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Lambda entry point: answer a request of an HTTP API (payload format 2.0)."""
    placing.register_lambda_context(context)
    paying.register_lambda_context(context)
    return app.resolve(event, context)
