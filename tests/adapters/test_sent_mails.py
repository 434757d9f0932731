import boto3
import pytest
from botocore.stub import Stubber

from functions.adapters.mailer import Mail, Sender, send_mail
from functions.runtime import clients

SENDER = Sender("shop@example.com", "orderstream-mails")


def test_a_mail_names_its_configuration_set_and_what_bounces_are_counted_by(monkeypatch: pytest.MonkeyPatch) -> None:
    client = boto3.client("sesv2", region_name="eu-central-1")
    monkeypatch.setattr(clients, "client", {"sesv2": client}.__getitem__)
    mail = Mail(
        kind="PriceDropped", subject="Less", text="Less.", html="<p>Less.</p>", headers={"List-Unsubscribe": "<a>"}
    )
    content = {
        "Subject": {"Data": "Less", "Charset": "UTF-8"},
        "Body": {"Text": {"Data": "Less.", "Charset": "UTF-8"}, "Html": {"Data": "<p>Less.</p>", "Charset": "UTF-8"}},
        "Headers": [{"Name": "List-Unsubscribe", "Value": "<a>"}],
    }
    tags = {"effect": "evt-1", "configuration-set": "orderstream-mails", "mail": "PriceDropped"}
    expected = {
        "FromEmailAddress": "shop@example.com",
        "Destination": {"ToAddresses": ["ann@example.com"]},
        "Content": {"Simple": content},
        "EmailTags": [{"Name": name, "Value": value} for name, value in tags.items()],
        "ConfigurationSetName": "orderstream-mails",
    }
    with Stubber(client) as stub:
        stub.add_response("send_email", {"MessageId": "m-1"}, expected)
        assert send_mail(SENDER, "ann@example.com", mail, "evt-1") == "m-1"
