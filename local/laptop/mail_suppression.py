"""Gives the local SES a suppression list, which ministack (the emulator of AWS) lacks.

SES accepts a mail to a suppressed address, but does not send it. The local SES never bounces a mail, so it adds no
address by itself: use `aws sesv2 put-suppressed-destination`.

https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_PutSuppressedDestination.html
"""

import json
import time
from typing import Any
from urllib.parse import unquote

from ministack.core.responses import json_response, new_uuid  # type: ignore[import-untyped]
from ministack.services import ses_v2  # type: ignore[import-untyped]

LIST = "/v2/email/suppression/addresses"
SEND = "/v2/email/outbound-emails"
Answer = Any
"""An answer of ministack: the status, the headers and the body."""


def add_suppression_list() -> None:
    """Make ministack's SES answer requests for a suppression list, and send no mails to the addresses on this list."""
    handle = ses_v2.handle_request

    async def handle_with_list(method: str, path: str, headers: Any, body: bytes, query: Any) -> Answer:
        answer = _answer(method, path.rstrip("/"), body)
        if answer is None:
            answer = await handle(method, path, headers, body, query)
        return answer

    ses_v2.handle_request = handle_with_list


def _answer(method: str, path: str, body: bytes) -> Answer | None:
    """Return the answer to a request that is about the list or sends to a suppressed address, else None."""
    # ministack saves and restores this dictionary with the state of the account.
    suppressed: dict[str, dict[str, Any]] = ses_v2._account_details.setdefault("suppressed", {})
    address = unquote(path.removeprefix(f"{LIST}/"))
    match method:
        case "PUT" if path == LIST:
            entry = json.loads(body)
            suppressed[entry["EmailAddress"]] = {**entry, "LastUpdateTime": time.time()}
            return json_response({})
        case "GET" if path == LIST:
            return json_response({"SuppressedDestinationSummaries": [*suppressed.values()]})
        case "GET" | "DELETE" if path.startswith(f"{LIST}/"):
            if address not in suppressed:
                return ses_v2._json_err("NotFoundException", f"Email address {address} does not exist.", 404)
            entry = suppressed.pop(address) if method == "DELETE" else suppressed[address]
            return json_response({} if method == "DELETE" else {"SuppressedDestination": entry})
        case "POST" if path == SEND:
            to = json.loads(body)["Destination"].get("ToAddresses", [])
            if to and all(one in suppressed for one in to):
                return json_response({"MessageId": f"{new_uuid()}@email.amazonses.com"})
    return None
