"""Shipments: what the warehouse is told and tells, and where a parcel is."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import ConfigDict, Field

from functions.api.context import SignedIn, shop
from functions.api.fields import Id, KeySafeText, Listed, Quantity, RequestModel, ResponseModel
from functions.api.order_answers import AddressAnswer, OrderLineAnswer, ShipmentAnswer, order_line_answers
from functions.api.problems import problem_responses
from functions.api.routes import Router
from functions.model.errors import NotAllowed, NotFound, TooMuch, WrongState
from functions.shop import shipments
from functions.shop.placing import MAX_PRODUCTS

router = Router()


class Dispatched(RequestModel):
    """Who carries it, and the number to follow it by. `quantities`: how many of each product, if not all of it."""

    carrier: KeySafeText
    tracking_number: KeySafeText
    quantities: Annotated[dict[Id, Quantity], Field(min_length=1, max_length=MAX_PRODUCTS)] | None = None
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"carrier": "DHL", "tracking_number": "JD0146000034", "quantities": {"mug": 1}}]
        }
    )


class Parcel(ResponseModel):
    """What was ordered, what has become of it, and where it goes; what goes into which parcel, the shipments say.

    Of each line `quantity - shipped - dropped` is still to be sent; `backordered` were not there when it was ordered.
    """

    order_id: str
    status: str
    lines: Sequence[OrderLineAnswer]
    address: AddressAnswer | None


@router.get("/orders/<order_id>/shipments")
def shipments_of_order(caller: SignedIn, order_id: Id) -> Listed[ShipmentAnswer]:
    """The shipments of an order. For who placed it, the warehouse and staff."""
    return Listed(items=[ShipmentAnswer.of(one) for one in shipments.list_shipments_of_order(shop(), caller, order_id)])


@router.get("/shipments", openapi_extensions=problem_responses(NotFound))
def shipments_by_tracking(
    caller: SignedIn, carrier: KeySafeText, tracking_number: KeySafeText
) -> Listed[ShipmentAnswer]:
    """Find shipments by carrier, in any case, and tracking number; several, where a carrier gave a number twice.

    For whose they are, the warehouse and staff.
    """
    found = shipments.list_shipments_by_tracking(shop(), caller, carrier, tracking_number)
    return Listed(items=[ShipmentAnswer.of(one) for one in found])


@router.get("/orders/<order_id>/parcel", openapi_extensions=problem_responses(NotAllowed))
def parcel(caller: SignedIn, order_id: Id) -> Parcel:
    """What to pack, what of it is sent already, and the address. For the warehouse and staff."""
    order = shipments.get_order_for_packing(shop(), caller, order_id)
    return Parcel(
        order_id=order.order_id,
        status=order.status,
        lines=order_line_answers(order.lines),
        address=AddressAnswer.of(order.address) if order.address else None,
    )


@router.post(
    "/orders/<order_id>/shipments/<shipment_id>/dispatched",
    openapi_extensions=problem_responses(NotAllowed, WrongState, TooMuch),
)
def shipment_dispatched(caller: SignedIn, order_id: Id, shipment_id: Id, dispatched: Dispatched) -> ShipmentAnswer:
    """The carrier has it, or the `quantities` of it; what is left is requested as the order's next shipment.

    For the warehouse and staff. Repeatable with the same carrier, number and quantities.
    """
    shipment = shipments.dispatch_shipment(
        shop(), caller, order_id, shipment_id, dispatched.carrier, dispatched.tracking_number, dispatched.quantities
    )
    return ShipmentAnswer.of(shipment)


@router.post(
    "/orders/<order_id>/shipments/<shipment_id>/delivered", openapi_extensions=problem_responses(NotAllowed, WrongState)
)
def shipment_delivered(caller: SignedIn, order_id: Id, shipment_id: Id) -> ShipmentAnswer:
    """The customer has it; with its last shipment the order is delivered. For the warehouse and staff. Repeatable."""
    return ShipmentAnswer.of(shipments.deliver_shipment(shop(), caller, order_id, shipment_id))
