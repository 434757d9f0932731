"""Render mails as text and HTML, and send them through SES."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from functions.dynamodb.errors import Permanent
from functions.model.metrics import KIND_TAG, SET_TAG
from functions.runtime import clients

PERMANENT_ERROR_CODES = {"BadRequestException", "MessageRejected"}
"""SES error codes for which a retry would fail again (SES API v2 reference, SendEmail)."""


@dataclass(frozen=True)
class Sender:
    """Who sends a mail. `address`: the From address. `configuration_set`: the name of the SES configuration set."""

    address: str
    configuration_set: str


@dataclass(frozen=True)
class Mail:
    """A rendered mail. `kind`: the event that it is about. `headers`: more headers, which SES signs with DKIM."""

    kind: str
    subject: str
    text: str
    html: str
    headers: Mapping[str, str] = field(default_factory=dict)


@cache
def load_templates(folder: Path) -> Environment:
    """Return a Jinja environment for the templates of a folder.

    Values are escaped in HTML templates. Rendering raises an error if a variable has no value.
    """
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def send_mail(sender: Sender, to: str, mail: Mail, effect_id: str) -> str:
    """Send a mail through SES and return the SES message id.

    `effect_id`: the shop's id of the mail. The mail gets it as an SES message tag. Raises Permanent if a retry would
    fail again.
    """
    content: dict[str, Any] = {
        "Subject": {"Data": mail.subject},
        "Body": {"Text": {"Data": mail.text}, "Html": {"Data": mail.html}},
    }
    if mail.headers:
        content["Headers"] = [{"Name": name, "Value": value} for name, value in mail.headers.items()]
    tags = {"effect": effect_id, SET_TAG: sender.configuration_set, KIND_TAG: mail.kind}
    try:
        answer = clients.client("sesv2").send_email(
            FromEmailAddress=sender.address,
            Destination={"ToAddresses": [to]},
            Content={"Simple": content},
            EmailTags=[{"Name": name, "Value": value} for name, value in tags.items()],
            ConfigurationSetName=sender.configuration_set,
        )
    except ClientError as error:
        if (code := error.response["Error"]["Code"]) in PERMANENT_ERROR_CODES:
            raise Permanent(code) from error
        raise
    return str(answer["MessageId"])
