"""Makes the local SES refuse mails, as SES on AWS does above its rate, above its daily quota, or in its sandbox.

This code runs in the process of the local AWS, in ministack (the emulator of AWS), whose SES accepts every mail. For
each mail, this code reads the fault from a file, which a chaos switch of the shop's web page writes.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
SEND_PATH = "/v2/email/outbound-emails"


def refuse_mails(directory: Path) -> None:
    """Make SES refuse mails with the fault in the file REFUSED_MAILS of `directory`. Deletes this file first."""
    file = directory / REFUSED_MAILS
    file.unlink(missing_ok=True)
    handle, last_at = ses_v2.handle_request, [0.0]

    async def handle_or_refuse(method: str, path: str, *request: Any) -> Any:
        if method != "POST" or path.rstrip("/") != SEND_PATH or not file.exists():
            return await handle(method, path, *request)
        kind = file.read_text()
        if kind == "suppressed":  # SES accepts a mail to a suppressed address, but does not send it
            return 200, {"Content-Type": "application/json"}, json.dumps({"MessageId": str(uuid.uuid4())}).encode()
        if kind == "rate" and time.monotonic() - last_at[0] >= 1:
            last_at[0] = time.monotonic()
            return await handle(method, path, *request)
        status, code, message = REFUSALS[kind]
        return ses_v2._json_err(code, message, status)

    ses_v2.handle_request = handle_or_refuse
