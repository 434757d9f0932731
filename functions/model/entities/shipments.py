"""Shipments of an order."""

from collections.abc import Mapping
from typing import Literal

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant

ShipmentStatus = Literal["REQUESTED", "DISPATCHED", "DELIVERED", "CANCELLED"]


@entity
class Shipment:
    """A parcel of an order. After dispatch it can be found by `carrier` and `tracking_number`.

    `quantities`: the pieces in the parcel by product. `backordered`: the pieces that were out of stock when ordered, by
    product. It is None if no piece was out of stock, or if the parcel is dispatched.
    `shipping_method`: the id of the order's method. `pickup`: whether the customer collects the goods.
    """

    order_id: str
    shipment_id: str
    customer_id: str
    status: ShipmentStatus
    quantities: Mapping[str, int]
    created_at: Instant
    updated_at: Instant
    backordered: Mapping[str, int] | None = None
    carrier: str | None = None
    tracking_number: str | None = None
    shipping_method: str | None = None
    pickup: bool = False
    version: int = 1
