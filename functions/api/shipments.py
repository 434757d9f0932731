"""Shipments: what the warehouse is told and tells, and where a parcel is."""

from collections.abc import Sequence

from pydantic import ConfigDict

from functions.api.context import SignedIn, shop
from functions.api.fields import Answer, Body, Id, Keyable, Listed
from functions.api.order_answers import AddressAnswer, LineAnswer, ShipmentAnswer, lines_shown
from functions.api.problems import refuses
from functions.api.routes import Router
from functions.model.errors import NotAllowed, NotFound, WrongState
from functions.shop import shipments

router = Router()


class Dispatched(Body):
    """Who carries it, and the number to follow it by."""

    carrier: Keyable
    tracking_number: Keyable
    model_config = ConfigDict(json_schema_extra={"examples": [{"carrier": "DHL", "tracking_number": "JD0146000034"}]})


class Parcel(Answer):
    """What to pack, and where it goes."""

    order_id: str
    status: str
    lines: Sequence[LineAnswer]
    address: AddressAnswer


@router.get("/orders/<order_id>/shipments")
def shipments_of_order(caller: SignedIn, order_id: Id) -> Listed[ShipmentAnswer]:
    """The shipments of an order. For who placed it, the warehouse and staff."""
    return Listed(items=[ShipmentAnswer.of(one) for one in shipments.shipments_of_order(shop(), caller, order_id)])


@router.get("/shipments", openapi_extensions=refuses(NotFound))
def shipment_by_tracking(caller: SignedIn, carrier: Keyable, tracking_number: Keyable) -> ShipmentAnswer:
    """Find a shipment by its carrier and tracking number. For whose it is, the warehouse and staff."""
    return ShipmentAnswer.of(shipments.shipment_by_tracking(shop(), caller, carrier, tracking_number))


@router.get("/orders/<order_id>/parcel", openapi_extensions=refuses(NotAllowed))
def parcel(caller: SignedIn, order_id: Id) -> Parcel:
    """What to pack and the address. For the warehouse and staff."""
    order = shipments.parcel(shop(), caller, order_id)
    return Parcel(
        order_id=order.order_id,
        status=order.status,
        lines=lines_shown(order.lines),
        address=AddressAnswer.of(order.address),
    )


@router.post(
    "/orders/<order_id>/shipments/<shipment_id>/dispatched", openapi_extensions=refuses(NotAllowed, WrongState)
)
def shipment_dispatched(caller: SignedIn, order_id: Id, shipment_id: Id, told: Dispatched) -> ShipmentAnswer:
    """The carrier has it. For the warehouse and staff. Repeatable with the same carrier and number."""
    shipment = shipments.dispatch(shop(), caller, order_id, shipment_id, told.carrier, told.tracking_number)
    return ShipmentAnswer.of(shipment)


@router.post("/orders/<order_id>/shipments/<shipment_id>/delivered", openapi_extensions=refuses(NotAllowed, WrongState))
def shipment_delivered(caller: SignedIn, order_id: Id, shipment_id: Id) -> ShipmentAnswer:
    """The customer has it. For the warehouse and staff. Repeatable."""
    return ShipmentAnswer.of(shipments.deliver(shop(), caller, order_id, shipment_id))
