"""The audit trail: who of the staff and the operators did what to an item, or what one person did."""

from collections.abc import Mapping
from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Listed, ResponseModel, text_matching
from functions.api.http.paging import Cursor, Limit, Since, Until, list_answer
from functions.api.http.problems import MalformedRequest, problem_responses
from functions.api.http.router import Router
from functions.model.errors import NotAllowed
from functions.shop import audit
from functions.shop.lists import ListRequest

router = Router()

Subject = Annotated[str, text_matching(r"^[^#\x00-\x1f\x7f-\x9f]{1,200}$", "must be 1 to 200 characters without #")]


class AuditAnswer(ResponseModel):
    """A command of staff or of an operator. `by`: such as staff:ann. `command`: the route, or the operators' tool.

    `item` and `sort_key`: what it changed first. `values_before`, `values_after`: the attributes that it changed there,
    without personal data; null if the item did not exist, or does not exist any more.
    """

    at: str
    by: str
    command: str
    item: str
    sort_key: str | None
    reason: str | None
    values_before: Mapping[str, str] | None
    values_after: Mapping[str, str] | None


@router.get("/audit", openapi_extensions=problem_responses(NotAllowed))
def audit_trail(
    caller: SignedIn,
    item: Annotated[Subject | None, Query(description="Such as ORDER:o1, PRODUCT:mug or CUSTOMER:c1.")] = None,
    person: Annotated[Subject | None, Query(description="Such as staff: with a user id, or ops: with a name.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[AuditAnswer]:
    """List who did what to an item, or what a person did, newest first. For staff. Send either `item` or `person`.

    An entry appears after a moment.
    """
    request = ListRequest(caller, limit, cursor, since, until)
    if item and person:
        raise MalformedRequest(("person", "cannot be combined with item"))
    if item:
        return list_answer(audit.list_audit_of_item(shop(), request, item), AuditAnswer.of)
    if person:
        return list_answer(audit.list_audit_of_person(shop(), request, person), AuditAnswer.of)
    raise MalformedRequest(("item", "is required without a person"))
