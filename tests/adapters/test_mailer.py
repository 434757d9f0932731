"""Tests the request of a mail, the classes of SES's refusals, and that an invocation limits its rate of mails."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from functions.adapters.mail_pace import MailPace
from functions.adapters.mailer import Mail, Sender, classify_refusal, send_mail
from functions.runtime import clients
from functions.shop.order_notifications import MailRefused
from proof.support.tapped_client import ManualClock

NOT_VERIFIED = (
    "Email address is not verified. The following identities failed the check in region EU-CENTRAL-1: ann@example.com"
)


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("TooManyRequestsException", "Maximum sending rate exceeded.", "rate"),
        ("LimitExceededException", "Maximum sending rate exceeded.", "rate"),
        ("TooManyRequestsException", "Too many requests", "rate"),
        ("ThrottlingException", "Rate exceeded", "rate"),
        ("TooManyRequestsException", "Daily message quota exceeded.", "quota"),
        ("LimitExceededException", "Daily message quota exceeded", "quota"),
        ("ThrottlingException", "Daily sending quota exceeded", "quota"),
        ("LimitExceededException", "There are too many instances of the resource.", "unknown"),
        ("AccountSuspendedException", "The account's ability to send email is restricted.", "paused"),
        ("SendingPausedException", "Sending is paused for this account.", "paused"),
        ("MailFromDomainNotVerifiedException", "The sending domain isn't verified.", "paused"),
        ("MessageRejected", "Sending paused for this account. For more information, see the console.", "paused"),
        ("MessageRejected", NOT_VERIFIED, "sandbox"),
        ("MessageRejected", "The message can't be sent because it contains invalid content.", "permanent"),
        ("BadRequestException", "Missing final '@domain'", "permanent"),
        ("AccessDeniedException", "is not authorized to perform: ses:SendEmail", "unknown"),
        ("NotFoundException", "The configuration set does not exist.", "unknown"),
        ("NewException", "", "unknown"),
    ],
)
def test_a_refusal_is_classified_by_its_code_and_its_message(code: str, message: str, kind: str) -> None:
    assert classify_refusal(code, message) == kind


def pace_of(clock: ManualClock, per_minute: int, seconds: float) -> MailPace:
    """Return the pace of an invocation that may start mails for this number of seconds."""
    shop: Any = SimpleNamespace(table=SimpleNamespace(clock=clock, sleep=clock.sleep), now=clock)
    return MailPace(shop, per_minute, clock.now + timedelta(seconds=seconds))


def refusing(*refusals: MailRefused) -> Any:
    """Return an attempt to send a mail that fails with each refusal once, and then succeeds."""
    left = iter(refusals)

    def attempt() -> str:
        for refused in left:
            raise refused
        return "m-1"

    return attempt


RATE = MailRefused("rate", "TooManyRequestsException")


def test_a_mail_above_the_rate_is_sent_again_in_place_after_growing_pauses() -> None:
    clock = ManualClock()
    pace = pace_of(clock, 600, 20)
    assert pace.send(refusing(RATE, RATE, RATE)) == "m-1"
    assert (clock.pauses, pace.refused_all_by) == ([1, 2, 4], None)


def test_a_mail_above_the_rate_is_refused_if_no_time_is_left() -> None:
    clock = ManualClock()
    pace = pace_of(clock, 600, 5)
    with pytest.raises(MailRefused):
        pace.send(refusing(*[RATE] * 9))
    assert (clock.pauses, pace.refused_all_by) == ([1, 2], RATE)


def test_a_slow_pace_also_holds_for_repeated_mails() -> None:
    clock = ManualClock()
    assert pace_of(clock, 10, 20).send(refusing(RATE)) == "m-1"
    assert clock.pauses == [6]


@pytest.mark.parametrize(
    ("kind", "all_mails"), [("quota", True), ("paused", True), ("sandbox", False), ("unknown", False)]
)
def test_another_refusal_is_not_repeated_in_place(kind: Any, *, all_mails: bool) -> None:
    clock = ManualClock()
    pace = pace_of(clock, 600, 20)
    with pytest.raises(MailRefused):
        pace.send(refusing(MailRefused(kind, "any")))
    assert (clock.pauses, pace.refused_all_by is not None) == ([], all_mails)


def test_mails_are_a_share_of_a_minute_apart_and_the_last_one_waits_for_the_next_invocation() -> None:
    clock = ManualClock()
    pace = pace_of(clock, 12, 90)
    for _ in range(3):
        pace.acquire()
    pace.wait()
    assert clock.pauses == [5, 5, 5]


def test_a_mail_names_its_configuration_set_and_what_bounces_are_counted_by(monkeypatch: pytest.MonkeyPatch) -> None:
    ses = Mock(send_email=Mock(return_value={"MessageId": "m-1"}))
    monkeypatch.setattr(clients, "client", {"sesv2": ses}.__getitem__)
    mail = Mail(kind="PriceDropped", subject="Less", text="", html="", headers={"List-Unsubscribe": "<a>"})
    assert send_mail(Sender("shop@example.com", "orderstream-mails"), "ann@example.com", mail, "evt-1") == "m-1"
    sent = ses.send_email.call_args.kwargs
    tags = {"effect": "evt-1", "configuration-set": "orderstream-mails", "mail": "PriceDropped"}
    assert sent["EmailTags"] == [{"Name": name, "Value": value} for name, value in tags.items()]
    assert sent["ConfigurationSetName"] == "orderstream-mails"
    assert sent["Content"]["Simple"]["Headers"] == [{"Name": "List-Unsubscribe", "Value": "<a>"}]
