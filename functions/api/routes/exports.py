"""List exports: request the files of a list, and show their progress and their links."""

from collections.abc import Sequence
from typing import Annotated, cast

from aws_lambda_powertools.event_handler import Response
from pydantic import Field

from functions.adapters import object_store
from functions.api.http.context import SignedIn, shop
from functions.api.http.fields import Id, IdempotencyKey, RequestModel, ResponseModel, examples
from functions.api.http.paging import Timestamp
from functions.api.http.problems import problem_responses
from functions.api.http.router import Router
from functions.dynamodb.keys import Instant, instant_from_epoch
from functions.model.entities import ListExportStatus, ListName
from functions.model.errors import NotAllowed
from functions.runtime import environment
from functions.shop import list_exports

router = Router()
LINK_SECONDS = 15 * 60


class NewExport(RequestModel):
    """A list to export: the rows from `from` (included) to `to` (excluded), each a day or a time (UTC)."""

    list: ListName
    from_: Annotated[Timestamp, Field(alias="from")]
    to: Timestamp
    model_config = examples({"list": "orders", "from": "2026-11-01", "to": "2026-12-01"})


class ExportRequested(ResponseModel):
    """The id of a requested export."""

    export_id: str


class ExportPart(ResponseModel):
    """Links to the two files of a part, which have the same rows. The links work for 15 minutes."""

    csv: str
    ndjson: str


class ExportAnswer(ResponseModel):
    """The progress of an export. `rows`: how many rows its parts have. `reached`: the time of the last row so far.

    `status`: REQUESTED, RUNNING, then DONE. FAILED: the range has too many rows, so request a shorter one.
    """

    export_id: str
    list: ListName
    from_: Annotated[str, Field(serialization_alias="from")]
    to: str
    status: ListExportStatus
    rows: int
    reached: str | None
    parts: Sequence[ExportPart]
    created_at: str
    updated_at: str
    expires_at: str


@router.post("/exports", status_code=202, openapi_extensions=problem_responses(NotAllowed))
def request_export(caller: SignedIn, key: IdempotencyKey, new: NewExport) -> Response[ExportRequested]:
    """Export all orders, invoices, payments or refunds of a time range to files. For staff.

    The range has at most 366 days. The files are written after the answer, in parts of about 10,000 rows, as CSV and as
    NDJSON. They have ids, amounts, states and times, and no names or addresses. The `Location` header has the address
    of the export's progress. A new row may be missing in the list for a moment.
    """
    since, until = cast(Instant, new.from_), cast(Instant, new.to)
    done = list_exports.request_export(shop(), caller, key, new.list, since, until)
    headers = {"Location": f"/exports/{done.result['export_id']}"}
    if done.replayed:
        headers["Idempotent-Replayed"] = "true"
    return Response(202, "application/json", ExportRequested(**done.result), headers=headers)


@router.get("/exports/<export_id>", openapi_extensions=problem_responses(NotAllowed))
def export(caller: SignedIn, export_id: Id) -> ExportAnswer:
    """Show the progress of an export, with links to the files that exist. For staff.

    Each answer has new links. Exports and their files are kept for 7 days.
    """
    found = list_exports.get_export(shop(), caller, export_id)
    bucket = environment.load_environment(environment.ApiEnvironment).exports_bucket
    parts = [
        ExportPart(
            csv=object_store.create_link(bucket, f"{name}.csv", LINK_SECONDS),
            ndjson=object_store.create_link(bucket, f"{name}.ndjson", LINK_SECONDS),
        )
        for name in found.object_names
    ]
    return ExportAnswer.combine(
        found, from_=found.since, to=found.until, parts=parts, expires_at=instant_from_epoch(found.ttl)
    )
