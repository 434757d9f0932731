"""Staff read in SES's suppression list why a customer gets no mails, and remove the address from the list."""

import pytest

from functions.adapters import mail_suppression
from proof.support.http_client import STAFF, ApiHarness
from proof.support.suppression_list import SuppressionList

PATH = "/customers/ann/mail-suppression"
NOTHING = {"suppressed": False, "reason": None, "since": None}


@pytest.mark.parametrize("reason", ["BOUNCE", "COMPLAINT"])
def test_staff_see_why_and_since_when_a_customer_gets_no_mails_and_end_it(
    api: ApiHarness, suppressed: SuppressionList, reason: str
) -> None:
    address = api.call("GET", "/customers/ann", STAFF).body["email"]
    suppressed.reasons = {"other@example.com": reason}
    assert api.call("GET", PATH, STAFF).body == NOTHING
    suppressed.reasons[address] = reason
    found = api.call("GET", PATH, STAFF)
    assert found.body == {"suppressed": True, "reason": reason, "since": "2026-11-20T08:30:00.000Z"}
    assert address not in found.text
    for _ in range(2):
        assert api.call("DELETE", PATH, STAFF).body == NOTHING
    assert suppressed.reasons == {"other@example.com": reason}
    assert api.call("GET", PATH, STAFF).body == NOTHING


def test_without_an_answer_of_ses_the_address_does_not_look_fine(api: ApiHarness, suppressed: SuppressionList) -> None:
    suppressed.refuses = "TooManyRequestsException"
    assert api.call("GET", PATH, STAFF).problem_type == "busy"
    assert api.call("DELETE", PATH, STAFF).problem_type == "busy"
    suppressed.refuses = "AccessDeniedException"
    assert api.call("GET", PATH, STAFF).status == 500


def test_the_api_waits_for_ses_no_longer_than_it_may_run() -> None:
    config = mail_suppression.client().meta.config
    attempts = config.retries["total_max_attempts"]
    assert attempts * (config.connect_timeout + config.read_timeout) <= 15
