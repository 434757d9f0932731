"""Tests the synthesized template: its resources, their properties and retention, and the differences between stages."""

import importlib
import inspect
import json
import math
import re
import tarfile
from collections import Counter
from dataclasses import fields
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config

from functions.handlers.copies_reader import TOTALS_SECONDS
from functions.model import retention
from functions.model.entities import STATUS_SHARDS
from functions.model.lambdas import lambda_name, resource_prefix
from functions.model.public_routes import PAYMENT_STARTER_ROUTES, ROUTES_WITHOUT_AUTHORIZER
from functions.model.reactions import REACTIONS
from functions.model.retention import MAIL_ATTEMPT_SECONDS
from functions.model.retries import retry_delay_seconds
from functions.model.table import create_table_request
from functions.runtime import environment
from functions.runtime.clients import client_config
from functions.runtime.time_limit import MARGIN_SECONDS
from local.laptop.schedules import transform_event
from proof.support.synthesized import MODULES, SynthesizedTemplate
from stacks import PROJECT

DAY = 24 * 60 * 60


def _environment_of(module: str) -> Any:
    """Return the environment class of a Lambda, which its module imports."""
    if module == "api":  # the API imports its class in functions/api/http/context.py
        return environment.ApiEnvironment
    if module == "payment_starter":  # the module of its routes imports its class
        return environment.PaymentStarterEnvironment
    names = vars(importlib.import_module(f"functions.handlers.{module}")).values()
    found = [it for it in names if inspect.isclass(it) and it.__module__ == environment.__name__]
    if len(found) != 1:
        pytest.fail(
            f"functions/handlers/{module}.py: imports {len(found)} environment classes: add one for it to "
            "functions/runtime/environment.py and read it there",
            pytrace=False,
        )
    return found[0]


HOLDING_DATA = (
    "AWS::DynamoDB::GlobalTable",
    "AWS::S3::Bucket",
    "AWS::KMS::Key",
    "AWS::SecretsManager::Secret",
    "AWS::Cognito::UserPool",
    "AWS::SQS::Queue",
    "AWS::Logs::LogGroup",
)


# the table ------------------------------------------------------------------------------------------------------------
def test_the_table_has_the_keys_indexes_and_expiry_of_the_model(dev: SynthesizedTemplate) -> None:
    table, model = dev.only_properties("AWS::DynamoDB::GlobalTable"), create_table_request("any")
    assert table["KeySchema"] == model["KeySchema"]
    by_name = sorted(model["AttributeDefinitions"], key=lambda attribute: attribute["AttributeName"])
    assert sorted(table["AttributeDefinitions"], key=lambda attribute: attribute["AttributeName"]) == by_name
    assert table["GlobalSecondaryIndexes"] == model["GlobalSecondaryIndexes"]
    assert table["BillingMode"] == model["BillingMode"]
    assert table["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}


# the stream's readers -------------------------------------------------------------------------------------------------
def test_two_functions_read_the_stream_and_no_more(dev: SynthesizedTemplate) -> None:
    mappings = dev.properties("AWS::Lambda::EventSourceMapping").values()
    readers = [it["FunctionName"]["Ref"] for it in mappings if "StreamArn" in it["EventSourceArn"]["Fn::GetAtt"]]
    assert sorted(readers) == sorted([dev.function("copies_reader"), dev.function("event_publisher")])


@pytest.mark.parametrize(("reader", "batch_size"), [("copies_reader", 50), ("event_publisher", 100)])
def test_a_reader_loses_no_record_and_its_batching_window_is_short(
    dev: SynthesizedTemplate, reader: str, batch_size: int
) -> None:
    (table,) = dev.resources("AWS::DynamoDB::GlobalTable")
    failures = _bucket(dev, "Failures")
    mapping = {name: value for name, value in dev.mapping(reader).items() if name not in ("FilterCriteria", "Tags")}
    assert mapping == {
        "FunctionName": {"Ref": dev.function(reader)},
        "EventSourceArn": {"Fn::GetAtt": [table, "StreamArn"]},
        "StartingPosition": "TRIM_HORIZON",
        "BatchSize": batch_size,
        "MaximumBatchingWindowInSeconds": 0,
        "ParallelizationFactor": 1,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "BisectBatchOnFunctionError": True,
        "MaximumRetryAttempts": -1,
        "MetricsConfig": {"Metrics": ["EventCount"]},
        "MaximumRecordAgeInSeconds": 12 * 60 * 60,
        "DestinationConfig": {"OnFailure": {"Destination": {"Fn::GetAtt": [failures, "Arn"]}}},
    }


# the reactions --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reaction", REACTIONS, ids=lambda reaction: reaction.name)
def test_a_reaction_has_a_rule_for_its_events_and_a_queue(dev: SynthesizedTemplate, reaction: Any) -> None:
    rules = dev.properties("AWS::Events::Rule").values()
    (rule,) = [it for it in rules if it["Description"].startswith(f"{reaction.name}: ")]
    by_name = {"detail-type": list(reaction.event_names)}
    by_field = {"detail": {"outbox": {"position": [{"exists": True}]}}}
    assert rule["EventPattern"] == {"source": ["orderstream"]} | (by_field if reaction.only_with else by_name)
    assert rule["EventBusName"] == {"Ref": next(iter(dev.resources("AWS::Events::EventBus")))}
    assert rule["State"] == "ENABLED"
    (target,) = rule["Targets"]
    queue = dev.properties("AWS::SQS::Queue")[target["Arn"]["Fn::GetAtt"][0]]
    assert target["DeadLetterConfig"]["Arn"] == queue["RedrivePolicy"]["deadLetterTargetArn"]


@pytest.mark.parametrize("reaction", REACTIONS, ids=lambda reaction: reaction.name)
def test_a_message_that_fails_is_retried_for_five_times_the_visibility_timeout_of_its_queue(
    dev: SynthesizedTemplate, reaction: Any
) -> None:
    queues = dev.properties("AWS::SQS::Queue")
    (queue,) = [it for id, it in queues.items() if id.startswith(f"{resource_prefix(reaction.name)}ReactionQueue")]
    receives, timeout = queue["RedrivePolicy"]["maxReceiveCount"], queue["VisibilityTimeout"]
    if reaction.function is None:
        assert (receives, timeout) == (5, 300)
        return
    waits = [retry_delay_seconds(attempt) for attempt in range(1, receives + 1)]
    assert 5 * timeout <= sum(waits) < 5 * timeout + 600
    assert receives * timeout < 86_400, "a message whose function is killed each time becomes a dead letter in time"


def test_the_decision_about_retries_shows_the_times_of_each_queue_as_they_are(dev: SynthesizedTemplate) -> None:
    chapter = (PROJECT / "docs" / "decisions" / "failures.md").read_text(encoding="utf-8")
    decision = chapter.partition('<a id="d57"></a>')[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", decision, re.MULTILINE)
    shown = {name: cells for names, cells in rows for name in re.findall("`(.+?)`", names)}

    def in_words(seconds: int) -> str:
        return f"{math.ceil(seconds / 60)} minutes" if seconds < 7200 else f"{math.ceil(seconds / 360) / 10} hours"

    expected = {}
    for reaction in REACTIONS:
        if reaction.function:
            queue = dev.properties("AWS::SQS::Queue")[dev.mapping(reaction.function)["EventSourceArn"]["Fn::GetAtt"][0]]
            receives, timeout = queue["RedrivePolicy"]["maxReceiveCount"], queue["VisibilityTimeout"]
            waits = sum(retry_delay_seconds(attempt) for attempt in range(1, receives + 1))
            cells = f"{timeout:,} s", str(receives), in_words(waits), in_words(receives * timeout)
            expected[reaction.name] = " | ".join(cells)
    assert shown
    assert shown == {name: cells for name, cells in expected.items() if name in shown}, (
        "queues that were added later need not be shown"
    )


@pytest.mark.parametrize("reaction", [it for it in REACTIONS if it.function], ids=lambda reaction: reaction.name)
def test_the_queue_of_a_reaction_has_the_settings_of_the_model(dev: SynthesizedTemplate, reaction: Any) -> None:
    module = reaction.function
    mapping = dev.mapping(module)
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["MetricsConfig"] == {"Metrics": ["EventCount"]}
    assert mapping["BatchSize"] == reaction.batch_size
    assert mapping["MaximumBatchingWindowInSeconds"] == reaction.batch_window_seconds
    assert mapping["ScalingConfig"]["MaximumConcurrency"] == reaction.concurrency
    queue = dev.properties("AWS::SQS::Queue")[mapping["EventSourceArn"]["Fn::GetAtt"][0]]
    function = dev.properties("AWS::Lambda::Function")[dev.function(module)]
    assert queue["VisibilityTimeout"] >= 6 * function["Timeout"] + reaction.batch_window_seconds


@pytest.mark.parametrize(
    ("module", "claim_seconds"),
    [
        ("order_notification_worker", retention.MAIL_CLAIM_SECONDS),
        ("product_alert_worker", retention.PRODUCT_ALERT_CLAIM_SECONDS),
    ],
)
def test_a_claim_on_a_mail_outlives_the_attempt_with_all_its_timeouts(
    dev: SynthesizedTemplate, module: str, claim_seconds: int
) -> None:
    ses: Any = client_config("sesv2")
    runs = dev.properties("AWS::Lambda::Function")[dev.function(module)]["Timeout"]
    queue = dev.properties("AWS::SQS::Queue")[dev.mapping(module)["EventSourceArn"]["Fn::GetAtt"][0]]
    default: Any = Config()
    assert ses.retries["total_max_attempts"] == 1
    assert ses.read_timeout >= default.read_timeout, "SES may accept a mail after an impatient client gave up"
    assert ses.connect_timeout + ses.read_timeout < retention.MAIL_ATTEMPT_SECONDS < runs
    assert runs < claim_seconds < queue["VisibilityTimeout"]


@pytest.mark.parametrize(
    ("module", "rate"),
    [
        ("order_deadlines", "rate(1 minute)"),
        ("customer_erasure", "rate(1 hour)"),
        ("backlog_metrics", "rate(5 minutes)"),
    ],
)
def test_scheduled_functions_run_on_time_and_a_failed_run_is_kept(
    dev: SynthesizedTemplate, module: str, rate: str
) -> None:
    function = dev.function(module)
    rules = [it for it in dev.properties("AWS::Events::Rule").values() if "ScheduleExpression" in it]
    (rule,) = [it for it in rules if it["Targets"][0]["Arn"] == {"Fn::GetAtt": [function, "Arn"]}]
    assert (rule["ScheduleExpression"], rule["State"]) == (rate, "ENABLED")
    invokes = dev.properties("AWS::Lambda::EventInvokeConfig").values()
    (invoke,) = [it for it in invokes if it["FunctionName"] == {"Ref": function}]
    # The next run also does the work of a run that failed or did not start, so a late retry has no use.
    assert (invoke["MaximumEventAgeInSeconds"], invoke["MaximumRetryAttempts"]) == (300, 0)
    assert invoke["Qualifier"] == "$LATEST", "the rule calls the function, not a version of it"
    for target in rule["Targets"]:
        assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 300, "MaximumRetryAttempts": 2}
        assert target["Arn"] == {"Fn::GetAtt": [function, "Arn"]}
        assert target["DeadLetterConfig"]["Arn"] == invoke["DestinationConfig"]["OnFailure"]["Destination"]
        assert "Input" not in target, "the handler reads the time of the event itself"
    if module != "order_deadlines":
        (target,) = rule["Targets"]
        assert "InputTransformer" not in target


def test_the_runs_of_order_deadlines_in_a_minute_have_all_shards_once(dev: SynthesizedTemplate) -> None:
    function = dev.function("order_deadlines")
    rules = [it for it in dev.properties("AWS::Events::Rule").values() if "ScheduleExpression" in it]
    (rule,) = [it for it in rules if it["Targets"][0]["Arn"] == {"Fn::GetAtt": [function, "Arn"]}]
    assert len(rule["Targets"]) <= 5, "the limit of targets in EventBridge"
    scheduled = {"time": "2026-11-21T09:30:00Z", "detail": {}}
    events = [transform_event(target["InputTransformer"], scheduled) for target in rule["Targets"]]
    assert {event["time"] for event in events} == {scheduled["time"]}
    shards = [shard for it in events for shard in range(it["group"], STATUS_SHARDS.read, it["groups"])]
    assert sorted(shards) == list(range(STATUS_SHARDS.read))


@pytest.mark.parametrize("module", [it for it in MODULES if it not in ("api", "payment_starter")])
def test_a_function_has_time_for_work_before_its_margin(dev: SynthesizedTemplate, module: str) -> None:
    others = {"copies_reader": TOTALS_SECONDS, "order_notification_worker": MAIL_ATTEMPT_SECONDS}
    timeout = dev.properties("AWS::Lambda::Function")[dev.function(module)]["Timeout"]
    assert timeout - others.get(module, MARGIN_SECONDS) >= 20


# retention periods ----------------------------------------------------------------------------------------------------
def test_queues_last_4_days_and_dead_letter_queues_and_the_warehouses_14(dev: SynthesizedTemplate) -> None:
    for id, queue in dev.properties("AWS::SQS::Queue").items():
        days = queue["MessageRetentionPeriod"] / DAY
        assert days == (14 if "DeadLetters" in id or "Warehouse" in id else 4), "nobody else reads the warehouse's"


# the functions --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("module", MODULES)
def test_a_function_logs_json_into_the_group_of_its_stage_and_name(dev: SynthesizedTemplate, module: str) -> None:
    function = dev.properties("AWS::Lambda::Function")[dev.function(module)]
    assert (function["Runtime"], function["Architectures"]) == ("python3.13", ["arm64"])
    # A higher level would drop the log lines that runbooks search for and metrics are read from.
    levels = {name: function["LoggingConfig"][f"{name}LogLevel"] for name in ("Application", "System")}
    assert (function["LoggingConfig"]["LogFormat"], levels) == ("JSON", {"Application": "INFO", "System": "WARN"})
    group = dev.properties("AWS::Logs::LogGroup")[function["LoggingConfig"]["LogGroup"]["Ref"]]
    assert (group["LogGroupName"], group["RetentionInDays"]) == (f"/orderstream/dev/{lambda_name(module)}", 14)


@pytest.mark.parametrize(("stage", "days"), [("dev", 14), ("prod", 90)])
def test_every_log_group_has_a_retention(templates: dict[str, SynthesizedTemplate], stage: str, days: int) -> None:
    groups = templates[stage].properties("AWS::Logs::LogGroup")
    assert len(groups) >= len(MODULES) + 1, "a log group for each function, and one for the API's requests"
    assert {id: group.get("RetentionInDays") for id, group in groups.items()} == dict.fromkeys(groups, days)


@pytest.mark.parametrize("module", MODULES)
def test_a_function_gets_the_variables_that_its_environment_reads(dev: SynthesizedTemplate, module: str) -> None:
    cls = _environment_of(module)
    variables = dev.properties("AWS::Lambda::Function")[dev.function(module)]["Environment"]["Variables"]
    assert variables.keys() == {
        field.name.upper() for one in (cls, environment.CommonEnvironment) for field in fields(one)
    }
    assert environment.parse_environment(
        cls, {name: "1" if isinstance(it, dict) else it for name, it in variables.items()}
    )


def test_the_prices_periods_and_limits_of_the_shop_reach_the_functions_that_apply_them(
    dev: SynthesizedTemplate, prod: SynthesizedTemplate
) -> None:
    open_order = {"PAYMENT_WINDOW_MINUTES": "30", "ASSUMED_DELIVERED_DAYS": "30"}
    closed_order = {"CLOSED_ORDER_DAYS": "365", "RETURN_WINDOW_DAYS": "30"}
    for name, template, writes, unpaid, domain in (
        ("dev", dev, "0", "0", "shop.example"),
        ("prod", prod, "60", "20", "shop.test"),
    ):
        limits = {"CUSTOMER_WRITES_PER_MINUTE": writes, "UNPAID_ORDERS_PER_CUSTOMER": unpaid}
        mails = {"SENDER": f"orders@{domain}", "SHOP_NAME": "Orderstream"}
        for module, expected in {
            "api": {**limits, **closed_order, "CUSTOMER_WRITE_BURST": "60"},
            "fulfilment_worker": {"INVOICE_SERIES": "1"},
            "order_notification_worker": {**mails, "ORDER_MAILS_PER_MINUTE": "252"},
            "product_alert_worker": {**mails, "ALERTS_PER_MINUTE": "126", "PAGE_SIZE": "52"},
            "refund_worker": {"PROVIDER_URL": "https://api.stripe.com"},
            "import_worker": {"LINES_PER_SECOND": "50"},
            "order_deadlines": {**open_order, **closed_order, "LAPSE_LANES": "16"},
            "backlog_metrics": open_order,
        }.items():
            variables = template.properties("AWS::Lambda::Function")[template.function(module)]["Environment"]
            assert variables["Variables"].items() >= expected.items(), (name, module)
        links = template.properties("AWS::Lambda::Function")[template.function("product_alert_worker")]["Environment"]
        assert links["Variables"]["PRODUCT_URL"] == f"https://{domain}/products/{{product_id}}"
        for function in template.properties("AWS::Lambda::Function").values():
            namespace = function["Environment"]["Variables"]["METRICS_NAMESPACE"]
            assert namespace == f"orderstream-{name}", "the alarms look only there"


def test_the_functions_are_the_lambda_modules(dev: SynthesizedTemplate) -> None:
    handlers = {it["Handler"] for it in dev.properties("AWS::Lambda::Function").values()}
    assert handlers == {f"functions.handlers.{module}.handler" for module in MODULES}
    modules = {file.stem for file in (PROJECT / "functions" / "handlers").glob("*.py")} - {"__init__"}
    assert modules == {*MODULES, "canary"}, "test_canary.py checks the canary"
    for module in modules:
        assert "\ndef handler(" in (PROJECT / "functions" / "handlers" / f"{module}.py").read_text()


# the API and its users ------------------------------------------------------------------------------------------------
def test_every_route_but_the_public_ones_asks_for_a_token(dev: SynthesizedTemplate) -> None:
    routes = dev.properties("AWS::ApiGatewayV2::Route").values()
    public = {it["RouteKey"] for it in routes if it.get("AuthorizationType") != "JWT"}
    assert public == ROUTES_WITHOUT_AUTHORIZER.keys(), "the function and the stack name the same routes"
    guarded = {it["RouteKey"] for it in routes} - public
    others = {f"{method} /{{proxy+}}" for method in ("GET", "POST", "PUT", "PATCH", "DELETE")}
    assert guarded == {*others, *PAYMENT_STARTER_ROUTES} - ROUTES_WITHOUT_AUTHORIZER.keys()


def test_tokens_are_those_of_the_shops_own_client(dev: SynthesizedTemplate) -> None:
    (pool,), (client,) = dev.resources("AWS::Cognito::UserPool"), dev.resources("AWS::Cognito::UserPoolClient")
    (authorizer,) = dev.resources("AWS::ApiGatewayV2::Authorizer")
    found = dev.properties("AWS::ApiGatewayV2::Route").values()
    routes = [it for it in found if it["RouteKey"] not in ROUTES_WITHOUT_AUTHORIZER]
    assert [it["AuthorizerId"] for it in routes] == [{"Ref": authorizer}] * len(routes)
    api = dev.properties("AWS::Lambda::Function")[dev.function("api")]
    assert api["Environment"]["Variables"]["CLIENT_ID"] == {"Ref": client}, "the function checks the client id again"
    token = dev.only_properties("AWS::ApiGatewayV2::Authorizer")["JwtConfiguration"]
    assert token["Audience"] == [{"Ref": client}]
    made = dev.only_properties("AWS::ApiGatewayV2::Authorizer")
    assert (made["AuthorizerType"], made["IdentitySource"]) == ("JWT", ["$request.header.Authorization"])
    assert {"Ref": pool} in token["Issuer"]["Fn::Join"][1]


def test_the_api_function_answers_requests_except_those_of_the_payment_starter(dev: SynthesizedTemplate) -> None:
    integrations, answering = dev.properties("AWS::ApiGatewayV2::Integration"), {}
    for route in dev.properties("AWS::ApiGatewayV2::Route").values():
        integration = integrations[route["Target"]["Fn::Join"][1][1]["Ref"]]
        form = integration["IntegrationType"], integration["PayloadFormatVersion"]
        assert form == ("AWS_PROXY", "2.0"), "the function reads the claims and the raw path of this form"
        answering[route["RouteKey"]] = integration["IntegrationUri"]["Fn::GetAtt"][0]
    starters = {route for route, function in answering.items() if function == dev.function("payment_starter")}
    assert starters == set(PAYMENT_STARTER_ROUTES)
    assert set(answering.values()) == {dev.function("api"), dev.function("payment_starter")}
    assert {it["Action"] for it in dev.properties("AWS::Lambda::Permission").values()} == {"lambda:InvokeFunction"}


def test_staff_and_warehouse_are_groups(dev: SynthesizedTemplate) -> None:
    groups = {it["GroupName"] for it in dev.properties("AWS::Cognito::UserPoolGroup").values()}
    assert groups == {"staff", "warehouse"}


def test_the_access_log_has_no_personal_data_and_the_api_is_throttled(dev: SynthesizedTemplate) -> None:
    stage = dev.only_properties("AWS::ApiGatewayV2::Stage")
    log = stage["AccessLogSettings"]["Format"]
    assert "$context.requestId" in log
    assert not [word for word in ("sourceIp", "userAgent", "claims", ".path", "principalId") if word in log]
    (log_id, _) = stage["AccessLogSettings"]["DestinationArn"]["Fn::GetAtt"]
    name = dev.properties("AWS::Logs::LogGroup")[log_id]["LogGroupName"]["Fn::Join"][1]
    assert name[0] == "/aws/vendedlogs/apis/orderstream-dev-"
    assert name[1] == {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}


def test_the_throttle_of_the_webhooks_is_made_after_their_route(dev: SynthesizedTemplate) -> None:
    (stage,) = dev.resources("AWS::ApiGatewayV2::Stage").values()
    routes = dev.properties("AWS::ApiGatewayV2::Route").items()
    (webhook,) = [id for id, route in routes if route["RouteKey"] == "POST /payments/events"]
    assert webhook in stage["DependsOn"], "otherwise API Gateway does not know the route yet"


# retained resources ---------------------------------------------------------------------------------------------------
def test_the_webhook_has_two_live_secrets_and_the_pepper_is_one_text(dev: SynthesizedTemplate) -> None:
    made = {id: it["GenerateSecretString"] for id, it in dev.properties("AWS::SecretsManager::Secret").items()}
    (webhook,) = [it for id, it in made.items() if "Webhook" in id]
    (pepper,) = [it for id, it in made.items() if "Pepper" in id]
    assert len(made) == 3, "the third secret is the payment provider's key, which its owner fills in"
    assert (webhook["SecretStringTemplate"], webhook["GenerateStringKey"]) == ('{"previous": ""}', "current")
    assert "SecretStringTemplate" not in pepper
    # Nobody may guess a signature or an order id. Punctuation would have to be escaped in headers and commands.
    assert sorted(it["PasswordLength"] for it in made.values()) == [32, 48, 64]
    assert (webhook["PasswordLength"], pepper["PasswordLength"]) == (48, 64)
    assert [it["ExcludePunctuation"] for it in made.values()] == [True] * 3
    assert not dev.resources("AWS::SecretsManager::RotationSchedule")


@pytest.mark.parametrize(
    ("stage", "deleted", "replaced"), [("dev", "Delete", "Delete"), ("prod", "RetainExceptOnCreate", "Retain")]
)
def test_dev_deletes_its_data_and_prod_retains_it_except_after_a_failed_creation(
    templates: dict[str, SynthesizedTemplate], stage: str, deleted: str, replaced: str
) -> None:
    for resource_type in HOLDING_DATA:
        resources = templates[stage].resources(resource_type)
        assert resources
        for id, resource in resources.items():
            assert resource.get("DeletionPolicy", "Delete") == deleted, id
            assert resource.get("UpdateReplacePolicy", "Delete") == replaced, id


def test_no_resource_of_prod_stays_when_its_creation_fails(prod: SynthesizedTemplate) -> None:
    """A resource that stayed would prevent the next creation."""
    fates = {resource.get("DeletionPolicy", "Delete") for resource in prod.body["Resources"].values()}
    assert fates == {"Delete", "RetainExceptOnCreate"}


def test_stages_differ_in_settings_alone(dev: SynthesizedTemplate, prod: SynthesizedTemplate) -> None:
    one, more = (Counter(it["Type"] for it in template.body["Resources"].values()) for template in (dev, prod))
    assert not one - more
    assert {name.split("::")[1] for name in more - one} == {
        "Backup", "Budgets", "CodeDeploy", "IAM", "Lambda", "S3", "SNS",
    }, "test_settings.py checks backups, archive copies, the budget, gradual releases, and alarms by mail"  # fmt: skip


# all resources --------------------------------------------------------------------------------------------------------
def test_the_stack_outputs_all_addresses(dev: SynthesizedTemplate) -> None:
    functions = {f"{resource_prefix(lambda_name(module))}Function" for module in MODULES}
    called = {it["FunctionName"]["Ref"] for it in dev.properties("AWS::Lambda::EventSourceMapping").values()}
    named = {resource_prefix(lambda_name(module)): dev.function(module) for module in MODULES}
    switches = {f"{name}Mapping" for name, id in named.items() if id in called}
    switches |= {f"{resource_prefix(reaction.name)}Rule" for reaction in REACTIONS}
    switches |= {
        f"{name}{what}"
        for name in ("OrderDeadlines", "CustomerErasure", "BacklogMetrics", "WebhookRetries")
        for what in ("Rule", "DeadLetters")
    }
    assert len(called) == 2 + sum(1 for reaction in REACTIONS if reaction.function)
    assert dev.body["Outputs"].keys() == functions | switches | {
        "ApiUrl", "UserPoolId", "UserPoolClientId", "OperatorsRole", "AlarmsTopic", "TableName", "BusName", "KeyArn",
        "MailConfigurationSet", "FailuresBucket", "ArchiveBucket", "WarehouseQueueUrl", "PepperSecret", "WebhookSecret",
        "ProviderSecret", "PaymentWindowMinutes", "ClosedOrderDays", "ReturnWindowDays",
        "AuditDays",
    }  # fmt: skip


def test_the_feature_flags_of_the_cdk_are_set_as_its_version_recommends() -> None:
    (package,) = [one for one in files("aws-cdk-lib") or () if one.name.endswith(".jsii.tgz")]
    with tarfile.open(Path(package.locate())) as archive:
        found = next(one for one in archive if one.name.endswith("/recommended-feature-flags.json"))
        recommended = json.load(archive.extractfile(found))  # type: ignore[arg-type]
    context = json.loads((PROJECT / "cdk.json").read_text())["context"]
    assert {name: value for name, value in context.items() if name.startswith("@aws-cdk")} == recommended


def test_functions_queues_rules_and_mappings_are_named_after_their_lambda_or_reaction(dev: SynthesizedTemplate) -> None:
    names = {*map(lambda_name, MODULES), *(reaction.name for reaction in REACTIONS)}
    parts = ("Function", "Stream", "Schedule", "Reaction")
    named = tuple(f"{resource_prefix(name)}{part}" for name in names for part in parts)
    kinds = ("Lambda::Function", "Lambda::EventSourceMapping", "SQS::Queue", "Events::Rule")
    ids = [id for kind in kinds for id in dev.resources(f"AWS::{kind}")]
    assert [id for id in ids if not id.startswith(named)] == []


def test_nothing_in_the_stack_runs_code_that_is_not_ours(dev: SynthesizedTemplate) -> None:
    # A custom resource would add a Lambda of the CDK with its own permissions, which the local AWS cannot run.
    assert not [
        it for it in dev.body["Resources"].values() if it["Type"].startswith(("Custom::", "AWS::CloudFormation"))
    ]


def _bucket(template: SynthesizedTemplate, construct: str) -> str:
    (id,) = [id for id in template.resources("AWS::S3::Bucket") if id.startswith(construct)]
    return id
