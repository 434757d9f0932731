"""Mail suppression: after a bounce or a complaint, SES sends no mails to an address until staff end the suppression."""

from functions.adapters import mail_suppression
from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Id, ResponseModel
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.dynamodb.actors import acting
from functions.model.errors import NotAllowed
from functions.shop import audit, customers
from functions.shop.shop import Caller

router = Router()


class MailSuppression(ResponseModel):
    """Whether SES sends no mails to the customer. `reason`: BOUNCE or COMPLAINT. `since`: when SES noted it."""

    suppressed: bool
    reason: str | None
    since: str | None


@router.get("/customers/<customer_id>/mail-suppression", openapi_extensions=problem_responses(NotAllowed))
def suppression_of_customer(caller: SignedIn, customer_id: Id) -> MailSuppression:
    """Show whether SES sends no mails to a customer's address, after a bounce or a complaint. For staff."""
    found = mail_suppression.get_suppression(_get_address(caller, customer_id))
    if found is None:
        return MailSuppression(suppressed=False, reason=None, since=None)
    return MailSuppression(suppressed=True, reason=found.reason, since=found.since)


@router.delete("/customers/<customer_id>/mail-suppression", openapi_extensions=problem_responses(NotAllowed))
def remove_suppression_of_customer(caller: SignedIn, customer_id: Id) -> MailSuppression:
    """End the suppression of a customer's address, for example because it works again. For staff. Safe to repeat."""
    address = _get_address(caller, customer_id)
    if actor := acting.get():
        audit.record_action(shop(), actor, f"CUSTOMER:{customer_id}")
    mail_suppression.remove_suppression(address)
    return MailSuppression(suppressed=False, reason=None, since=None)


def _get_address(caller: Caller, customer_id: str) -> str:
    """Return the customer's e-mail address. Raises NotAllowed if the caller is not staff, and NotFound."""
    caller.require_group("staff")
    return customers.get_customer(shop(), caller, customer_id).email
