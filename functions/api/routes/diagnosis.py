"""The diagnosis of an order: what it waits for, why, and what a person can do."""

from collections.abc import Sequence

from functions.adapters import event_bus
from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Id, ResponseModel
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.model.errors import NotAllowed
from functions.runtime import clients
from functions.runtime.environment import ApiEnvironment, load_environment
from functions.shop import diagnosis, republishing

router = Router()


class FindingAnswer(ResponseModel):
    """Something that an order waits for, since a time. `name`: its short name. `text`: what it waits for, and why.

    `subject`: the id of the payment, refund, shipment, dispute or kept event, or the event that a mail is about.
    `next_at`: when the shop tries again or goes on, if that is known. `reason`: the recorded reason of a failure.
    `action`: a short name of what a person can do, which `advice` says.
    """

    name: str
    text: str
    since: str
    subject: str | None
    next_at: str | None
    reason: str | None
    action: str
    advice: str


class DiagnosisAnswer(ResponseModel):
    """What an order waits for. `causes`: what holds it up; empty if nothing is wrong. `next_step`: what comes next."""

    order_id: str
    status: str
    checked_at: str
    next_step: FindingAnswer
    causes: Sequence[FindingAnswer]


@router.get("/orders/<order_id>/diagnosis", openapi_extensions=problem_responses(NotAllowed))
def diagnosis_of_order(caller: SignedIn, order_id: Id) -> DiagnosisAnswer:
    """Show what an order waits for, since when, why, and what a person can do. For staff.

    Failed records and suppressed addresses are not in the table, so the answer does not have them.
    """
    return DiagnosisAnswer.of(diagnosis.diagnose_order(shop(), caller, order_id))


class Republished(ResponseModel):
    """The number of events that were published again."""

    events: int


@router.post("/orders/<order_id>/republish", openapi_extensions=problem_responses(NotAllowed))
def republish_order(caller: SignedIn, order_id: Id) -> Republished:
    """Publish the events of an order again, so that what failed is done, such as a missing mail. For staff.

    Safe to repeat: consumers ignore an event that they have handled. Only events of recent days are published.
    """
    publish = event_bus.make_publisher(
        shop().table.new_backoff, clients.client("events"), load_environment(ApiEnvironment).bus_name
    )
    return Republished(events=republishing.republish_order(shop(), caller, order_id, publish))
