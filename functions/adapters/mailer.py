"""Render mails as text and HTML, and send them through SES."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from botocore.exceptions import ClientError
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from functions.dynamodb.errors import Permanent
from functions.runtime import clients

PERMANENT_ERROR_CODES = {"BadRequestException", "MessageRejected"}
"""SES error codes for which a retry would fail again (SES API v2 reference, SendEmail)."""


@dataclass(frozen=True)
class Mail:
    subject: str
    text: str
    html: str


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


def send_mail(sender: str, to: str, mail: Mail, effect_id: str) -> str:
    """Send a mail through SES and return the SES message id.

    `effect_id`: the shop's id of the mail. The mail gets it as an SES message tag. Raises Permanent if a retry would
    fail again.
    """
    content = {
        "Simple": {
            "Subject": {"Data": mail.subject},
            "Body": {"Text": {"Data": mail.text}, "Html": {"Data": mail.html}},
        }
    }
    try:
        answer = clients.client("sesv2").send_email(
            FromEmailAddress=sender,
            Destination={"ToAddresses": [to]},
            Content=content,
            EmailTags=[{"Name": "effect", "Value": effect_id}],
        )
    except ClientError as error:
        if (code := error.response["Error"]["Code"]) in PERMANENT_ERROR_CODES:
            raise Permanent(code) from error
        raise
    return str(answer["MessageId"])
