"""Send mails through SES."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from botocore.exceptions import ClientError

from functions.dynamodb.errors import Permanent
from functions.model.metrics import KIND_TAG, SET_TAG
from functions.runtime import clients
from functions.shop.order_notifications import MailRefused, RefusalKind


@dataclass(frozen=True)
class Refusal:
    """A rule that classifies an error of SES. `code`: the error code. `text`: a part of the message, or "" for any.

    `kind`: as in MailRefused, or "permanent" if a retry would fail again, because of the mail or its address.
    """

    kind: Literal["permanent"] | RefusalKind
    code: str = ""
    text: str = ""


REFUSALS = (
    Refusal("rate", text="Maximum sending rate exceeded"),
    Refusal("quota", text="Daily message quota exceeded"),
    Refusal("quota", text="Daily sending quota exceeded"),
    Refusal("sandbox", text="Email address is not verified"),
    Refusal("paused", text="Sending paused for this account"),
    Refusal("paused", text="Sending suspended for this account"),
    Refusal("paused", code="SendingPausedException"),
    Refusal("paused", code="AccountSuspendedException"),
    Refusal("paused", code="MailFromDomainNotVerifiedException"),
    Refusal("rate", code="TooManyRequestsException"),
    Refusal("rate", code="ThrottlingException"),
    Refusal("rate", code="Throttling"),
    Refusal("permanent", code="BadRequestException"),
    Refusal("permanent", code="MessageRejected"),
)
"""The errors of SES with a status of 4xx. The first entry that matches decides.

Entries with a text come first, because SES uses one code for several causes: "the API produces a ThrottlingException
error. The error message includes one of the following messages: Daily message quota exceeded, Maximum sending rate
exceeded" (https://docs.aws.amazon.com/ses/latest/dg/manage-sending-quotas-errors.html). In API v2 the code is
TooManyRequestsException or LimitExceededException. The codes:
https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html#API_SendEmail_Errors. In the sandbox, SES
rejects mails to unverified addresses: https://docs.aws.amazon.com/ses/latest/dg/request-production-access.html.
"""
FIRST_SERVER_ERROR = 500
"""From this HTTP status on, SES may have accepted the mail although it answered with an error."""


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


def send_mail(sender: Sender, to: str, mail: Mail, effect_id: str) -> str:
    """Send a mail through SES and return the SES message id.

    `effect_id`: the shop's id of the mail. The mail gets it as an SES message tag. Raises Permanent if a retry would
    fail again, and MailRefused if SES refused the mail for another reason. After any other error, such as a timeout,
    SES may have accepted the mail.
    """
    content: dict[str, Any] = {
        "Subject": _text(mail.subject),
        "Body": {"Text": _text(mail.text), "Html": _text(mail.html)},
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
        if error.response["ResponseMetadata"]["HTTPStatusCode"] >= FIRST_SERVER_ERROR:
            raise
        code = error.response["Error"]["Code"]
        if (kind := classify_refusal(code, error.response["Error"]["Message"])) == "permanent":
            raise Permanent(code) from error
        raise MailRefused(kind, code) from error
    return str(answer["MessageId"])


def _text(text: str) -> dict[str, str]:
    # Without a charset, SES takes a text for ASCII: https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_Content.html
    return {"Data": text, "Charset": "UTF-8"}


def classify_refusal(code: str, message: str) -> Literal["permanent"] | RefusalKind:
    """Return the kind of a refusal, from the error code and the error message of SES."""
    for one in REFUSALS:
        if one.code in ("", code) and one.text.lower() in message.lower():
            return one.kind
    return "unknown"
