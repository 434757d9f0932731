"""Makes the local SES refuse mails, as SES on AWS does above its rate, above its daily quota, or in its sandbox.

This code runs in the process of the local AWS, in ministack (the emulator of AWS), whose SES accepts every mail. For
each mail, this code reads the fault from a file, which a chaos switch of the shop's web page writes.

It also adds the suppression list, which ministack lacks. SES accepts a mail to an address on this list, but does not
send it. The local SES bounces no mail, so it adds no address by itself: use `aws sesv2 put-suppressed-destination`.

https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_PutSuppressedDestination.html
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ministack.core.responses import json_response, new_uuid  # type: ignore[import-untyped]
from ministack.services import ses_v2  # type: ignore[import-untyped]

from local.laptop.aws_process import REFUSED_MAILS

REFUSALS: Mapping[str, tuple[int, str, str]] = {
    "rate": (429, "TooManyRequestsException", "Maximum sending rate exceeded."),
    "quota": (400, "LimitExceededException", "Daily message quota exceeded."),
    "paused": (400, "SendingPausedException", "The account's ability to send email is currently paused."),
    "sandbox": (400, "MessageRejected", "Email address is not verified. The following identities failed the check"),
    "unknown": (400, "NotFoundException", "Configuration set <shop> does not exist."),
}
"""The HTTP status, the code and the message of each refusal. "rate" refuses a second mail within a second.

https://docs.aws.amazon.com/ses/latest/dg/manage-sending-quotas-errors.html
https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html#API_SendEmail_Errors
"""
SEND_PATH, LIST_PATH = "/v2/email/outbound-emails", "/v2/email/suppression/addresses"
Answer = Any
"""An answer of ministack: the status, the headers and the body."""


def refuse_mails(directory: Path) -> None:
    """Make SES refuse mails with the fault in the file REFUSED_MAILS of `directory`. Deletes this file first.

    Also make SES answer requests for a suppression list, and send no mails to the addresses on this list.
    """
    file = directory / REFUSED_MAILS
    file.unlink(missing_ok=True)
    handle, last_at = ses_v2.handle_request, [0.0]

    def refuse(body: bytes) -> Answer | None:
        """Return the answer to a mail that is refused or not sent, else None."""
        kind = file.read_text() if file.exists() else ""
        to = json.loads(body)["Destination"].get("ToAddresses", [])
        if kind == "suppressed" or (to and all(one in _suppressed() for one in to)):
            return json_response({"MessageId": f"{new_uuid()}@email.amazonses.com"})
        if kind == "rate" and time.monotonic() - last_at[0] >= 1:
            last_at[0] = time.monotonic()
        elif kind:
            status, code, message = REFUSALS[kind]
            return ses_v2._json_err(code, message, status)
        return None

    async def handle_or_refuse(method: str, path: str, headers: Any, body: bytes, query: Any) -> Answer:
        is_mail = method == "POST" and path.rstrip("/") == SEND_PATH
        answer = refuse(body) if is_mail else _answer_for_list(method, path.rstrip("/"), body)
        return answer or await handle(method, path, headers, body, query)

    ses_v2.handle_request = handle_or_refuse


def _suppressed() -> dict[str, dict[str, Any]]:
    """Return the suppressed addresses. ministack saves and restores them with the state of the account."""
    found: dict[str, dict[str, Any]] = ses_v2._account_details.setdefault("suppressed", {})
    return found


def _answer_for_list(method: str, path: str, body: bytes) -> Answer | None:
    """Return the answer to a request that is about the suppression list, else None."""
    suppressed, address = _suppressed(), unquote(path.removeprefix(f"{LIST_PATH}/"))
    match method:
        case "PUT" if path == LIST_PATH:
            entry = json.loads(body)
            suppressed[entry["EmailAddress"]] = {**entry, "LastUpdateTime": time.time()}
            return json_response({})
        case "GET" if path == LIST_PATH:
            return json_response({"SuppressedDestinationSummaries": [*suppressed.values()]})
        case "GET" | "DELETE" if path.startswith(f"{LIST_PATH}/"):
            if address not in suppressed:
                return ses_v2._json_err("NotFoundException", f"Email address {address} does not exist.", 404)
            entry = suppressed.pop(address) if method == "DELETE" else suppressed[address]
            return json_response({} if method == "DELETE" else {"SuppressedDestination": entry})
    return None
