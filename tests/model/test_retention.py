"""Tests that markers that prevent repeats are kept longer than a repeat is possible."""

import pytest

from functions.model import retention


def test_the_declared_retentions_are_consistent() -> None:
    retention.validate_retention()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"effect_days": 58}, "effects are kept for 58 d, but their events can be delivered again for 58 d"),
        ({"command_days": 30}, "commands are kept for 30 d"),
        ({"import_days": 58}, "imports are kept for 58 d, but their events can be delivered again for 58 d"),
        (
            {"notification_days": 67},
            "notifications are kept for 67 d, but their events can be delivered again for 67 d",
        ),
        ({"mail_deferral_days": 41}, "notifications are kept for 180 d, but .* can be delivered again for 181 d"),
        ({"failure_days": 90}, "effects are kept for 90 d, but their events can be delivered again for 118 d"),
        ({"bus_archive_days": 365}, "effects are kept for 90 d"),
        ({"queue_days": 14}, r"dead-letter queues keep messages for 14 d, but must outlive the queues \(14 d\)"),
        ({"dlq_days": 15}, "SQS allows 14"),
        ({"mail_sender_timeout_seconds": 100}, "the claim on a mail lasts 100 s, but its sender may run for 100 s"),
        ({"product_alerts_timeout_seconds": 150}, "the claim on a mail lasts 130 s, but its sender may run for 150 s"),
        ({"mail_sender_timeout_seconds": 15}, "the sender of a mail runs for 15 s, but one attempt may take 70 s"),
        ({"product_alerts_timeout_seconds": 70}, "the sender of a mail runs for 70 s, but one attempt may take 70 s"),
        ({"mail_read_timeout_seconds": 70}, "an attempt to send a mail takes at most 70 s, but SES may take 70 s"),
    ],
)
def test_a_retention_that_is_too_short_fails_with_a_sentence(wrong: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        retention.validate_retention(**wrong)


def test_every_inconsistent_retention_is_named() -> None:
    with pytest.raises(ValueError, match=r"effects .*; commands "):
        retention.validate_retention(effect_days=1, command_days=1)
