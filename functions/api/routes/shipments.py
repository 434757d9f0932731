"""Shipments: packing lists for the warehouse, reports from the warehouse, and parcel tracking."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Id, KeySafeText, Listed, Quantity, RequestModel, ResponseModel, examples
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.api.routes.order_responses import (
    AddressAnswer,
    ChosenShippingAnswer,
    OrderLineAnswer,
    ShipmentAnswer,
    order_line_answers,
)
from functions.model.errors import NotAllowed, NotFound, TooMuch, WrongState
from functions.shop import shipments
from functions.shop.placing import MAX_PRODUCTS
from functions.shop.shop import ArchiveUnavailable

router = Router()


class Dispatched(RequestModel):
    """The carrier and tracking number of a sent parcel.

    `quantities`: how many pieces of each product are in the parcel. If omitted, the parcel has the whole shipment.
    """

    carrier: KeySafeText
    tracking_number: KeySafeText
    quantities: Annotated[dict[Id, Quantity], Field(min_length=1, max_length=MAX_PRODUCTS)] | None = None
    model_config = examples({"carrier": "DHL", "tracking_number": "JD0146000034", "quantities": {"mug": 1}})


class Parcel(ResponseModel):
    """The lines of an order and the delivery address, for packing.

    The list of the order's shipments shows which pieces go into which parcel. For each line, `quantity - shipped -
    dropped` pieces must still be sent. `dropped`: how many pieces will not be sent, because they were cancelled.
    `backordered`: how many pieces were not in stock when they were ordered. `shipping_method`: null without
    methods. `note`, `reference`: as in the order.
    """

    order_id: str
    status: str
    lines: Sequence[OrderLineAnswer]
    address: AddressAnswer | None
    shipping_method: ChosenShippingAnswer | None
    note: str | None
    reference: str | None


@router.get("/orders/<order_id>/shipments", openapi_extensions=problem_responses(ArchiveUnavailable))
def shipments_of_order(caller: SignedIn, order_id: Id) -> Listed[ShipmentAnswer]:
    """List the shipments of an order. For the customer of the order, the warehouse and staff."""
    return Listed(items=[ShipmentAnswer.of(one) for one in shipments.list_shipments_of_order(shop(), caller, order_id)])


@router.get("/shipments", openapi_extensions=problem_responses(NotFound))
def shipments_by_tracking(
    caller: SignedIn, carrier: KeySafeText, tracking_number: KeySafeText
) -> Listed[ShipmentAnswer]:
    """Find shipments by carrier and tracking number. Upper and lower case of the carrier do not matter.

    The list has several shipments if a carrier used a tracking number twice. Customers see only their own shipments;
    the warehouse and staff see all shipments.
    """
    found = shipments.list_shipments_by_tracking(shop(), caller, carrier, tracking_number)
    return Listed(items=[ShipmentAnswer.of(one) for one in found])


@router.get("/orders/<order_id>/parcel", openapi_extensions=problem_responses(NotAllowed))
def parcel(caller: SignedIn, order_id: Id) -> Parcel:
    """Show which goods to pack for an order, which goods are already sent, and the address. For warehouse and staff."""
    order = shipments.get_order_for_packing(shop(), caller, order_id)
    return Parcel.combine(order, lines=order_line_answers(order))


@router.post(
    "/orders/<order_id>/shipments/<shipment_id>/dispatched",
    openapi_extensions=problem_responses(NotAllowed, WrongState, TooMuch),
)
def shipment_dispatched(caller: SignedIn, order_id: Id, shipment_id: Id, dispatched: Dispatched) -> ShipmentAnswer:
    """Report that the carrier has a shipment or some of its pieces. For the warehouse and staff.

    If `quantities` does not contain all pieces of the shipment, the other pieces become the next shipment of the order.
    Safe to repeat with the same carrier, tracking number and quantities.
    """
    shipment = shipments.dispatch_shipment(
        shop(), caller, order_id, shipment_id, dispatched.carrier, dispatched.tracking_number, dispatched.quantities
    )
    return ShipmentAnswer.of(shipment)


@router.post(
    "/orders/<order_id>/shipments/<shipment_id>/delivered", openapi_extensions=problem_responses(NotAllowed, WrongState)
)
def shipment_delivered(caller: SignedIn, order_id: Id, shipment_id: Id) -> ShipmentAnswer:
    """Report that a shipment was delivered. When all shipments of an order are delivered, the order is delivered.

    For the warehouse and staff. Safe to repeat.
    """
    return ShipmentAnswer.of(shipments.deliver_shipment(shop(), caller, order_id, shipment_id))
