"""Tests the mails of a stage: their configuration set, and the metrics of SES."""

from proof.support.synthesized import SynthesizedTemplate


def test_ses_sends_nothing_to_an_address_that_bounced_or_complained_and_measures_the_reputation(
    dev: SynthesizedTemplate,
) -> None:
    made = dev.only_properties("AWS::SES::ConfigurationSet")
    assert made == {
        "ReputationOptions": {"ReputationMetricsEnabled": True},
        "SuppressionOptions": {"SuppressedReasons": ["BOUNCE", "COMPLAINT"]},
    }, "a name could collide with another stage"


def test_bounces_and_complaints_are_counted_by_the_tags_that_each_mail_has(dev: SynthesizedTemplate) -> None:
    (mails,) = dev.resources("AWS::SES::ConfigurationSet")
    made = dev.only_properties("AWS::SES::ConfigurationSetEventDestination")
    assert made["ConfigurationSetName"] == {"Ref": mails}
    destination = made["EventDestination"]
    assert destination["Enabled"]
    assert destination["MatchingEventTypes"] == ["bounce", "complaint"]
    read = destination["CloudWatchDestination"]["DimensionConfigurations"]
    assert [one["DimensionName"] for one in read] == ["configuration-set", "mail"]
    assert {one["DimensionValueSource"] for one in read} == {"messageTag"}


def test_both_functions_that_send_mails_know_the_configuration_set(dev: SynthesizedTemplate) -> None:
    (mails,) = dev.resources("AWS::SES::ConfigurationSet")
    functions = [one["Environment"]["Variables"] for one in dev.properties("AWS::Lambda::Function").values()]
    assert [one["CONFIGURATION_SET"] for one in functions if "SENDER" in one] == [{"Ref": mails}] * 2
