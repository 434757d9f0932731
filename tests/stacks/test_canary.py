"""Tests the canary of a stage with `canary_minutes`: its schedule, its alarm, its user's secret and its permissions."""

from proof.support.permissions import allowed
from proof.support.synthesized import SynthesizedTemplate


def alarm_of(template: SynthesizedTemplate) -> list[dict[str, object]]:
    alarms = template.properties("AWS::CloudWatch::Alarm").values()
    return [it for it in alarms if it["AlarmName"] == "orderstream-dev-canary-failing"]


def test_its_alarm_is_raised_if_no_run_succeeded_for_15_minutes(extended: SynthesizedTemplate) -> None:
    (alarm,) = alarm_of(extended)
    assert (alarm["Namespace"], alarm["MetricName"], alarm["Statistic"]) == (
        "orderstream-dev",
        "CanarySucceeded",
        "Sum",
    )
    assert (alarm["Period"], alarm["EvaluationPeriods"]) == (300, 3)
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)
    assert alarm["TreatMissingData"] == "breaching", "runs may be missing"


def test_it_runs_by_its_schedule_at_the_public_address(extended: SynthesizedTemplate) -> None:
    function = extended.function("canary")
    rules = extended.properties("AWS::Events::Rule").values()
    (rule,) = [it for it in rules if "Targets" in it and it["Targets"][0]["Arn"] == {"Fn::GetAtt": [function, "Arn"]}]
    assert rule["ScheduleExpression"] == "rate(5 minutes)"
    variables = extended.properties("AWS::Lambda::Function")[function]["Environment"]["Variables"]
    assert variables["PUBLIC_URL"] == extended.body["Outputs"]["ApiUrl"]["Value"]


def test_it_may_only_read_its_secret_and_log_and_report_failed_runs(extended: SynthesizedTemplate) -> None:
    may = allowed(extended, "canary")
    assert {action for action in may if not action.startswith(("logs:", "kms:"))} == {
        "secretsmanager:GetSecretValue",
        "sqs:SendMessage",
    }
    assert may["secretsmanager:GetSecretValue"] == [extended.body["Outputs"]["CanarySecret"]["Value"]]


def test_its_password_is_generated_with_all_kinds_of_characters_that_the_user_pool_wants(
    extended: SynthesizedTemplate,
) -> None:
    secrets = extended.properties("AWS::SecretsManager::Secret")
    generated = secrets[extended.body["Outputs"]["CanarySecret"]["Value"]["Ref"]]["GenerateSecretString"]
    assert generated["GenerateStringKey"] == "password"
    assert generated["PasswordLength"] >= 12
    assert not generated.keys() & {"ExcludePunctuation", "ExcludeNumbers", "ExcludeLowercase", "ExcludeUppercase"}
    assert '"username": "success+canary@simulator.amazonses.com"' in generated["SecretStringTemplate"]


def test_a_release_of_the_api_does_not_wait_for_the_function_that_calls_it(extended: SynthesizedTemplate) -> None:
    (alias,) = extended.resources("AWS::Lambda::Alias").values()
    assert not [id for id in alias.get("DependsOn", ()) if id.startswith("Canary")]
