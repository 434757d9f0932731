"""A suppression list of SES, which moto lacks."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

OPERATIONS = ("GetSuppressedDestination", "DeleteSuppressedDestination")
SINCE = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)


@dataclass
class SuppressionList:
    """`reasons`: why each address is on the list. `refuses`: the error code with which each request fails, or ""."""

    reasons: dict[str, str] = field(default_factory=dict)
    refuses: str = ""

    def attach(self, client: Any) -> None:
        """Answer the requests of this client instead of SES."""
        for operation in OPERATIONS:
            client.meta.events.register(f"before-call.sesv2.{operation}", self._answer)

    def _answer(self, model: Any, params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
        address = unquote(params["url_path"].rpartition("/")[2])
        code = self.refuses or ("" if address in self.reasons else "NotFoundException")
        if code:
            return SimpleNamespace(status_code=400), {"Error": {"Code": code, "Message": f"of {address}"}}
        if model.name == "DeleteSuppressedDestination":
            del self.reasons[address]
            return SimpleNamespace(status_code=200), {}
        entry = {"EmailAddress": address, "Reason": self.reasons[address], "LastUpdateTime": SINCE}
        return SimpleNamespace(status_code=200), {"SuppressedDestination": entry}
