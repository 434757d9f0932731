"""Tests the effect of settings on the template: billing, backups, releases of the API, and so on."""

import base64
import json
import subprocess
from dataclasses import replace
from datetime import timedelta
from os import environ
from typing import Any

import pytest

from functions.model.archive_columns import archive_columns, archive_views
from functions.model.events import WEBHOOK_EVENTS
from functions.model.public_routes import ORIGIN_SECRET_HEADER, PUBLIC_ROUTES
from functions.model.retention import EXPORT_DAYS
from functions.model.table import INDEX_PROJECTIONS
from functions.shop.erasure import SETTLE_PERIOD
from proof.support.synthesized import VALIDATED, SynthesizedTemplate, as_list, synthesize
from stacks import PROJECT
from stacks.analytics import RESULT_DAYS
from stacks.stage import EXAMPLE_STAGES, STAGES, read_settings
from tests.stacks.conftest import ANOTHER_PROVIDER, CERTIFICATE
from tests.stacks.test_permissions import all_policies
from tests.stacks.test_template import HOLDING_DATA

TABLE = "AWS::DynamoDB::GlobalTable"
SETTINGS: dict[str, object] = {
    "stage": "prod",
    "stages": EXAMPLE_STAGES,
    "billing": "provisioned",
    "read_units": ["table:10-400", "*:5-100"],
    "write_units": ["*:5-50", "GSI2:1-20"],
    "utilization": 60,
    "memory_mb": ["copies_reader:1769", "api:2048"],
    "batch_size": ["copies_reader:200", "fulfilment:24"],
    "mails_per_second": 500,
    "batch_window_seconds": ["fulfilment:1"],
    "concurrency": ["fulfilment:8"],
    "reserved_concurrency": ["api:100", "fulfilment:8"],
    "table_class": "STANDARD_INFREQUENT_ACCESS",
    "tracing": True,
    "invocation_reports": True,
    "daily_backup_days": 35,
    "monthly_backup_days": 0,
    "backup_lock_days": 14,
    "monthly_budget": 500,
    "permissions_boundary": "arn:aws:iam::111122223333:policy/boundary",
    "bootstrap_qualifier": "prod1",
    "deploy_from": "owner@123456/shop@456789",
    "domain": "shop.test",
    "certificate": "arn:aws:acm:us-east-1:111122223333:certificate/front",
    "backup_copy_vault": "arn:aws:backup:eu-west-1:111122223333:backup-vault:copies",
    "snap_start": True,
    "first_deploy": True,
    "mail_domain": "shop.test",
    "feature_plan": "plus",
    "firewall": True,
    "rate_limit_exempt_networks": ["203.0.113.0/24", "2001:db8::/32", "198.51.100.7/32"],
    "web_acl": "arn:aws:wafv2:us-east-1:111122223333:global/webacl/name/id",
    "sign_in_prefix": "my-shop",
    "origin_secret_version": "2f6b5c0e-9f0e-4a54-8f0a-5d1c1f3f7b11",
    "analytics": True,
    "analytics_limit_mb": 250,
}
OTHER = read_settings(SETTINGS)
"""A stage with all settings that dev and prod do not have."""


@pytest.fixture(scope="module")
def others(paged: SynthesizedTemplate) -> dict[str, SynthesizedTemplate]:
    """The templates of the stage OTHER, and of a stage with a page and another identity provider."""
    return {
        "orders": synthesize("orderstream-prod", **SETTINGS, **VALIDATED),
        "firewall": synthesize("orderstream-prod-firewall", **SETTINGS, **VALIDATED),
        "mail": synthesize("orderstream-prod-mail", **SETTINGS, **VALIDATED),
        "deploy": synthesize("orderstream-prod-deploy", **SETTINGS, **VALIDATED),
        "page": paged,
        "old repository": synthesize("orderstream-dev-deploy", **ANOTHER_PROVIDER),
    }


@pytest.fixture(scope="module")
def other(others: dict[str, SynthesizedTemplate]) -> SynthesizedTemplate:
    return others["orders"]


# single properties ----------------------------------------------------------------------------------------------------
def throttle(rate: int, burst: int) -> dict[str, int]:
    return {"ThrottlingRateLimit": rate, "ThrottlingBurstLimit": burst}


REPLICA, RULE = "DynamoDB::GlobalTable.Replicas.0", "Backup::BackupPlan.BackupPlan.BackupPlanRule.0"
POOL, CLIENT, THROTTLES = "Cognito::UserPool", "Cognito::UserPoolClient", "ApiGatewayV2::Stage"
ARCHIVED = "S3::Bucket[Archived]"
PASSWORD = {"MinimumLength": 12, "TemporaryPasswordValidityDays": 3} | {
    f"Require{kind}": True for kind in ("Lowercase", "Uppercase", "Numbers", "Symbols")
}
FLOWS = ["ALLOW_USER_PASSWORD_AUTH", "ALLOW_USER_SRP_AUTH", "ALLOW_REFRESH_TOKEN_AUTH"]
KEYS = {"Enabled": True, "Mode": "THROTTLED_KEYS"}
COPIED_TO = "arn:aws:backup:eu-west-1:111122223333:backup-vault:copies"
PROPERTIES: list[tuple[str, str, object]] = [
    ("dev", f"{REPLICA}.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled", True),
    ("dev", "DynamoDB::GlobalTable.SSESpecification", {"SSEEnabled": True, "SSEType": "KMS"}),
    ("dev", "KMS::Key.EnableKeyRotation", True),
    ("dev", f"{REPLICA}.DeletionProtectionEnabled", False),
    ("prod", f"{REPLICA}.DeletionProtectionEnabled", True),
    ("dev", f"{POOL}.DeletionProtection", "INACTIVE"),
    ("prod", f"{POOL}.DeletionProtection", "ACTIVE"),
    ("dev", "S3::Bucket[Failures].LifecycleConfiguration.Rules", [{"ExpirationInDays": 30, "Status": "Enabled"}]),
    ("dev", "Events::Archive.RetentionDays", 30),
    ("dev", "Events::EventBus.LogConfig", {"IncludeDetail": "NONE", "Level": "ERROR"}),
    ("dev", "Logs::DeliverySource.LogType", "ERROR_LOGS"),
    ("dev", "Events::Archive.EventPattern", {"source": ["orderstream"]}),
    ("dev", f"{ARCHIVED}.VersioningConfiguration.Status", "Enabled"),
    ("dev", f"{ARCHIVED}.LifecycleConfiguration.Rules", [
        {
            "Transitions": [{"StorageClass": "GLACIER_IR", "TransitionInDays": 90}],
            "ObjectSizeGreaterThan": 128 * 1024,
            "Status": "Enabled",
        },
        # An erasure replaces objects, and the personal data in their old versions stays this long.
        {
            "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
            "Status": "Enabled",
        },
    ]),
    ("dev", f"{POOL}.UsernameAttributes", ["email"]),
    ("dev", f"{POOL}.UsernameConfiguration.CaseSensitive", False),  # Ann@shop.test and ann@shop.test are one
    ("dev", f"{POOL}.AutoVerifiedAttributes", ["email"]),
    ("dev", f"{POOL}.AdminCreateUserConfig.AllowAdminCreateUserOnly", False),
    ("dev", f"{POOL}.Policies.PasswordPolicy", PASSWORD),
    ("dev", f"{POOL}.MfaConfiguration", "OPTIONAL"),
    ("dev", f"{POOL}.EnabledMfas", ["SOFTWARE_TOKEN_MFA"]),  # text messages can be diverted
    ("dev", f"{POOL}.AccountRecoverySetting.RecoveryMechanisms", [{"Name": "verified_email", "Priority": 1}]),
    ("dev", f"{POOL}.Schema", [{"Name": "email", "Required": True, "Mutable": True}]),
    # Otherwise a mistyped or foreign address would replace the address that can recover the account.
    ("dev", f"{POOL}.UserAttributeUpdateSettings.AttributesRequireVerificationBeforeUpdate", ["email"]),
    ("dev", f"{POOL}.VerificationMessageTemplate.DefaultEmailOption", "CONFIRM_WITH_CODE"),
    ("dev", f"{CLIENT}.ExplicitAuthFlows", FLOWS),  # no flow without a secret that only the user has
    ("dev", f"{CLIENT}.SupportedIdentityProviders", ["COGNITO"]),
    ("dev", f"{CLIENT}.PreventUserExistenceErrors", "ENABLED"),
    ("dev", f"{CLIENT}.TokenValidityUnits", dict.fromkeys(("AccessToken", "IdToken", "RefreshToken"), "minutes")),
    ("dev", f"{CLIENT}.AccessTokenValidity", 60),
    ("dev", f"{CLIENT}.IdTokenValidity", 60),
    ("dev", f"{CLIENT}.RefreshTokenValidity", 30 * 24 * 60),
    ("dev", f"{CLIENT}.EnableTokenRevocation", True),  # signing out ends the refresh token
    ("dev", f"{THROTTLES}.DefaultRouteSettings", throttle(50, 100)),
    ("dev", f"{THROTTLES}.RouteSettings", {"POST /payments/events": throttle(50, 100)}),
    ("prod", f"{THROTTLES}.DefaultRouteSettings", throttle(2_000, 2_000)),
    ("prod", f"{THROTTLES}.RouteSettings", {"POST /payments/events": throttle(1_000, 1_000)}),
    ("prod", f"{RULE}.RuleName", "Monthly"),
    ("prod", f"{RULE}.ScheduleExpression", "cron(0 3 1 * ? *)"),
    ("prod", f"{RULE}.Lifecycle.DeleteAfterDays", 95),
    ("other", f"{POOL}.EmailConfiguration.EmailSendingAccount", "DEVELOPER"),
    ("other", f"{POOL}.EmailConfiguration.From", "orders@shop.test"),
    ("dev", f"{POOL}.EmailConfiguration", None),  # Cognito mails 50 a day
    ("other", "Athena::WorkGroup.Name", "orderstream-prod"),
    ("other", "Athena::WorkGroup.WorkGroupConfiguration.BytesScannedCutoffPerQuery", 250_000_000),
    ("other", "Athena::WorkGroup.WorkGroupConfiguration.EnforceWorkGroupConfiguration", True),
    ("dev", f"{CLIENT}.AllowedOAuthFlowsUserPoolClient", False),
    ("dev", f"{CLIENT}.CallbackURLs", None),
    ("other", f"{CLIENT}.AllowedOAuthFlowsUserPoolClient", True),
    ("other", f"{CLIENT}.AllowedOAuthFlows", ["code"]),
    ("other", f"{CLIENT}.AllowedOAuthScopes", ["openid", "aws.cognito.signin.user.admin"]),
    ("other", f"{CLIENT}.GenerateSecret", None),  # a web page cannot keep a secret
    ("other", "Cognito::UserPoolDomain.Domain", "my-shop"),
    ("other", "Cognito::UserPoolDomain.ManagedLoginVersion", 2),
    ("other", "Cognito::ManagedLoginBranding.UseCognitoProvidedValues", True),
    ("dev", f"{REPLICA}.TableClass", "STANDARD"),
    ("other", f"{REPLICA}.TableClass", "STANDARD_INFREQUENT_ACCESS"),
    ("other", f"{REPLICA}.DeletionProtectionEnabled", False),  # a first deploy
    ("other", f"{POOL}.DeletionProtection", "INACTIVE"),
    ("dev", f"{REPLICA}.ContributorInsightsSpecification", None),
    ("prod", f"{REPLICA}.ContributorInsightsSpecification", KEYS),
    *(("prod", f"{REPLICA}.GlobalSecondaryIndexes.{n}.ContributorInsightsSpecification", KEYS) for n in range(3)),
    ("dev", "DynamoDB::GlobalTable.WriteOnDemandThroughputSettings", None),
    ("prod", "DynamoDB::GlobalTable.WriteOnDemandThroughputSettings", {"MaxWriteRequestUnits": 40_000}),
    ("other", f"{POOL}.UserPoolTier", "PLUS"),
    ("prod", "Backup::BackupVault.LockConfiguration", None),
    ("other", "Backup::BackupVault.LockConfiguration", {"MinRetentionDays": 14}),
    ("other", f"{RULE}.ScheduleExpression", "cron(0 3 * * ? *)"),
    ("other", f"{RULE}.Lifecycle.DeleteAfterDays", 35),
    ("other", f"{RULE}.CopyActions.0.DestinationBackupVaultArn", COPIED_TO),
    ("other", f"{RULE}.CopyActions.0.Lifecycle.DeleteAfterDays", 35),
    ("extended", "ApiGatewayV2::Api.CorsConfiguration.AllowOrigins", ["https://shop.test"]),
    ("paged", "CloudFront::Distribution.DistributionConfig.WebACLId", None),
    ("paged", "CloudFront::Distribution.DistributionConfig.Origins.0.OriginCustomHeaders", None),
    ("paged", "api.Environment.Variables.ORIGIN_SECRET", ""),  # the API's own address still answers
    ("other", "api.MemorySize", 2048),
    ("other", "copies_reader.MemorySize", 1769),
    ("other", "event_publisher.MemorySize", 512),
    ("other", "api.ReservedConcurrentExecutions", 100),
    ("other", "fulfilment_worker.ReservedConcurrentExecutions", 8),
    ("other", "copies_reader.ReservedConcurrentExecutions", None),
    ("other", "api.LoggingConfig.SystemLogLevel", "INFO"),  # WARN drops Init Duration and memory
    ("dev", "api.TracingConfig", None),
    ("other", "api.TracingConfig.Mode", "Active"),
    ("prod", "api.SnapStart", None),
    ("other", "api.SnapStart.ApplyOn", "PublishedVersions"),
    ("other", "mapping copies_reader.BatchSize", 200),
    ("other", "mapping fulfilment_worker.BatchSize", 24),
    ("other", "mapping archive_worker.BatchSize", 100),
    ("other", "mapping fulfilment_worker.MaximumBatchingWindowInSeconds", 1),
    ("other", "mapping fulfilment_worker.ScalingConfig.MaximumConcurrency", 8),
]  # fmt: skip
"""A stage, the path of a property, and its value; None if the template lacks it. In brackets: the start of an id."""


@pytest.mark.parametrize(("stage", "path", "value"), PROPERTIES, ids=lambda part: part if isinstance(part, str) else "")
def test_a_setting_is_a_property_of_its_resource(
    request: pytest.FixtureRequest, stage: str, path: str, value: object
) -> None:
    template: SynthesizedTemplate = request.getfixturevalue(stage)
    kind, *names = path.split(".")
    if "::" in kind:
        of_type, _, start = kind.rstrip("]").partition("[")
        (found,) = [it for id, it in template.properties(f"AWS::{of_type}").items() if id.startswith(start)]
    elif kind.startswith("mapping "):
        found = template.mapping(kind.removeprefix("mapping "))
    else:
        found = template.properties("AWS::Lambda::Function")[template.function(kind)]
    for name in names:
        found = found[int(name)] if name.isdigit() else found.get(name)
    assert found == value


# billing --------------------------------------------------------------------------------------------------------------
def test_provisioned_capacity_scales_between_its_limits_in_the_table_and_each_index(other: SynthesizedTemplate) -> None:
    table = other.only_properties(TABLE)
    (replica,) = table["Replicas"]
    assert table["BillingMode"] == "PROVISIONED"
    assert reading(replica) == (10, 400, 60)
    assert writing(table) == (5, 50, 60)
    assert {index["IndexName"]: writing(index) for index in table["GlobalSecondaryIndexes"]} == {
        "GSI1": (5, 50, 60),
        "GSI2": (1, 20, 60),
        "GSI3": (5, 50, 60),
    }
    assert {index["IndexName"]: reading(index) for index in replica["GlobalSecondaryIndexes"]} == dict.fromkeys(
        INDEX_PROJECTIONS, (5, 100, 60)
    )


@pytest.mark.parametrize("stack", ["dev", "other"])
def test_the_rates_of_all_invocations_leave_a_share_to_cognito(request: Any, stack: str) -> None:
    template = request.getfixturevalue(stack)
    a_minute = {}
    for module, variable in (
        ("order_notification_worker", "ORDER_MAILS_PER_MINUTE"),
        ("product_alert_worker", "ALERTS_PER_MINUTE"),
    ):
        variables = template.properties("AWS::Lambda::Function")[template.function(module)]["Environment"]["Variables"]
        running = template.mapping(module)["ScalingConfig"]["MaximumConcurrency"]
        a_minute[module] = int(variables[variable]) * running
    account = {"dev": 14, "other": 500}[stack] * 60
    assert 0.85 * account < sum(a_minute.values()) <= 0.9 * account
    assert a_minute["order_notification_worker"] > a_minute["product_alert_worker"]


def reading(of: Any) -> tuple[int, int, int]:
    return scaled(of["ReadProvisionedThroughputSettings"]["ReadCapacityAutoScalingSettings"])


def writing(of: Any) -> tuple[int, int, int]:
    return scaled(of["WriteProvisionedThroughputSettings"]["WriteCapacityAutoScalingSettings"])


def scaled(settings: Any) -> tuple[int, int, int]:
    target = settings["TargetTrackingScalingPolicyConfiguration"]["TargetValue"]
    assert settings["SeedCapacity"] == settings["MinCapacity"], "needed when the billing mode changes"
    return settings["MinCapacity"], settings["MaxCapacity"], target


# mails and users ------------------------------------------------------------------------------------------------------
def test_a_mail_domain_is_signed_with_dkim_and_has_its_own_mail_from_domain(
    dev: SynthesizedTemplate, prod: SynthesizedTemplate, others: dict[str, SynthesizedTemplate]
) -> None:
    for template in (dev, prod, others["orders"]):
        assert not template.resources("AWS::SES::EmailIdentity"), "Cognito needs it before it creates the pool"
    ((id, identity),) = others["mail"].resources("AWS::SES::EmailIdentity").items()
    assert identity["DeletionPolicy"] == "RetainExceptOnCreate", "its DNS records name its keys"
    assert identity["Properties"]["EmailIdentity"] == "shop.test"
    assert identity["Properties"]["DkimAttributes"] == {"SigningEnabled": True}
    assert identity["Properties"]["MailFromAttributes"] == {
        "MailFromDomain": "bounce.shop.test",
        "BehaviorOnMxFailure": "USE_DEFAULT_VALUE",
    }
    outputs = {name: it["Value"] for name, it in others["mail"].body["Outputs"].items()}
    for number in ("1", "2", "3"):
        name, value = ({"Fn::GetAtt": [id, f"DkimDNSToken{part}{number}"]} for part in ("Name", "Value"))
        assert outputs.pop(f"DnsDkim{number}") == {"Fn::Join": ["", [name, " CNAME ", value]]}
    mx = ["bounce.shop.test MX 10 feedback-smtp.", {"Ref": "AWS::Region"}, ".amazonses.com"]
    assert outputs == {
        "DnsMailFrom": {"Fn::Join": ["", mx]},
        "DnsMailFromSpf": 'bounce.shop.test TXT "v=spf1 include:amazonses.com ~all"',
        "DnsDmarc": '_dmarc.shop.test TXT "v=DMARC1; p=none"',
    }


def test_ses_sends_the_mails_of_cognito_in_prod_and_where_the_mail_domain_is_set(
    dev: SynthesizedTemplate, prod: SynthesizedTemplate, other: SynthesizedTemplate
) -> None:
    for template in (prod, other):
        (mails,) = template.resources("AWS::SES::ConfigurationSet")
        sent = template.only_properties("AWS::Cognito::UserPool")["EmailConfiguration"]
        assert sent["ConfigurationSet"] == {"Ref": mails}
        assert sent["SourceArn"]["Fn::Join"][1][-1] == ":identity/shop.test"
    assert read_settings({"sender": "a@shop.test", "mail_domain": "shop.test"}).has_cognito_mails_from_ses
    assert not read_settings({"sender": "a@shop.test"}).has_cognito_mails_from_ses


# backups --------------------------------------------------------------------------------------------------------------
def test_the_table_of_prod_is_backed_up_and_that_of_dev_is_not(
    dev: SynthesizedTemplate, prod: SynthesizedTemplate
) -> None:
    assert not [id for id, it in dev.body["Resources"].items() if it["Type"].startswith("AWS::Backup::")]
    (table,), (key,) = prod.resources(TABLE), prod.resources("AWS::KMS::Key")
    chosen = prod.only_properties("AWS::Backup::BackupSelection")["BackupSelection"]
    assert chosen["Resources"] == [{"Fn::GetAtt": [table, "Arn"]}]
    (role,) = (it for id, it in prod.properties("AWS::IAM::Role").items() if id.startswith("BackupsRole"))
    policies = [str(one).rpartition("/")[2].rstrip("]}'") for one in role["ManagedPolicyArns"]]
    assert policies == ["AWSBackupServiceRolePolicyForBackup", "AWSBackupServiceRolePolicyForRestores"]
    (vault,) = prod.resources("AWS::Backup::BackupVault").values()
    assert vault["DeletionPolicy"] == "RetainExceptOnCreate"
    assert vault["Properties"]["EncryptionKeyArn"] == {"Fn::GetAtt": [key, "Arn"]}


def test_s3_copies_archived_orders_but_not_their_deletions_if_there_are_backups(
    dev: SynthesizedTemplate, prod: SynthesizedTemplate
) -> None:
    assert not [id for id, it in dev.properties("AWS::S3::Bucket").items() if "ReplicationConfiguration" in it]
    buckets = prod.properties("AWS::S3::Bucket")
    (copy,) = (id for id in buckets if id.startswith("ArchivedCopy"))
    ((id, replication),) = (
        (id, it["ReplicationConfiguration"]) for id, it in buckets.items() if "ReplicationConfiguration" in it
    )
    assert id.startswith("ArchivedBucket")
    (rule,) = replication["Rules"]
    assert (rule["Status"], rule["Filter"], rule["DeleteMarkerReplication"]) == (
        "Enabled", {"Prefix": "orders/"}, {"Status": "Disabled"},
    )  # fmt: skip
    assert rule["Destination"]["Bucket"] == {"Fn::GetAtt": [copy, "Arn"]}
    assert buckets[copy]["VersioningConfiguration"] == buckets[id]["VersioningConfiguration"] == {"Status": "Enabled"}
    kept = [it["LifecycleConfiguration"]["Rules"] for it in (buckets[copy], buckets[id])]
    assert kept[0] == kept[1], "the copy keeps an erased name for 30 days"


# encryption -----------------------------------------------------------------------------------------------------------
def test_data_is_encrypted_with_the_shops_key_and_queues_and_logs_with_keys_of_aws(
    dev: SynthesizedTemplate, prod: SynthesizedTemplate, other: SynthesizedTemplate, paged: SynthesizedTemplate
) -> None:
    for template in (dev, prod, other, paged):
        (key_id,) = template.resources("AWS::KMS::Key")
        key = {"Fn::GetAtt": [key_id, "Arn"]}
        buckets = {
            id: rule
            for id, bucket in template.properties("AWS::S3::Bucket").items()
            for rule in bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        }
        page = [buckets.pop(id) for id in list(buckets) if id.startswith("Page")]
        assert page in ([], [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]), "its files are public"
        own_key = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
        rule = {"ServerSideEncryptionByDefault": own_key, "BucketKeyEnabled": True}
        assert buckets == dict.fromkeys(buckets, rule), "one KMS call for many"
        keys = {
            **{id: it.get("KmsKeyId") for id, it in template.properties("AWS::SecretsManager::Secret").items()},
            **{id: it.get("EncryptionKeyArn") for id, it in template.properties("AWS::Backup::BackupVault").items()},
            **{id: it.get("KmsMasterKeyId") for id, it in template.properties("AWS::SNS::Topic").items()},
            **{
                id: replica["SSESpecification"]["KMSMasterKeyId"]
                for id, table in template.properties(TABLE).items()
                for replica in table["Replicas"]
            },
        }
        assert (len(buckets) >= 2, len(keys) >= 3 + 1 + 1) == (True, True), "secrets, the alarm topic, the table"
        assert keys == dict.fromkeys(keys, key)
        queues = template.properties("AWS::SQS::Queue")
        assert {id: it.get("SqsManagedSseEnabled") for id, it in queues.items()} == dict.fromkeys(queues, True)
        others = ("AWS::Logs::LogGroup", "AWS::Events::EventBus", "AWS::Events::Archive")
        own = [
            it for kind in others for it in template.properties(kind).values() if any(it[n] for n in it if "Kms" in n)
        ]
        assert own == [], "these are encrypted with keys of AWS, as docs/threat-model.md says"


def test_every_bucket_denies_all_requests_without_tls_1_2(
    dev: SynthesizedTemplate, prod: SynthesizedTemplate, other: SynthesizedTemplate, paged: SynthesizedTemplate
) -> None:
    """cdk-nag checks that the buckets are closed to the public and need TLS."""
    for template in (dev, prod, other, paged):
        policies = {it["Bucket"]["Ref"]: it for it in template.properties("AWS::S3::BucketPolicy").values()}
        for id in template.resources("AWS::S3::Bucket"):
            arn = {"Fn::GetAtt": [id, "Arn"]}
            assert {
                "Effect": "Deny",
                "Principal": {"AWS": "*"},
                "Action": "s3:*",
                "Resource": [arn, {"Fn::Join": ["", [arn, "/*"]]}],
                "Condition": {"NumericLessThan": {"s3:TlsVersion": 1.2}},
            } in policies[id]["PolicyDocument"]["Statement"], id


def test_data_that_a_setting_adds_also_stays_when_it_is_replaced_or_the_stack_is_deleted(
    others: dict[str, SynthesizedTemplate],
) -> None:
    kinds = {*HOLDING_DATA, "AWS::Backup::BackupVault", "AWS::SES::EmailIdentity"}
    found = {**others["orders"].body["Resources"], **others["mail"].body["Resources"]}
    found = {id: it for id, it in found.items() if it["Type"] in kinds and not id.startswith("PageBucket")}
    assert {it["Type"] for it in found.values()} == kinds
    for id, it in found.items():
        assert (it["DeletionPolicy"], it["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain"), id


# the account ----------------------------------------------------------------------------------------------------------
def test_the_budget_mails_the_alarm_address_before_and_when_it_is_used_up(
    dev: SynthesizedTemplate, other: SynthesizedTemplate
) -> None:
    assert not dev.resources("AWS::Budgets::Budget")
    budget = other.only_properties("AWS::Budgets::Budget")
    assert budget["Budget"]["BudgetLimit"] == {"Amount": 500, "Unit": "USD"}
    said = [
        (it["Notification"]["NotificationType"], it["Notification"]["Threshold"], it["Subscribers"])
        for it in budget["NotificationsWithSubscribers"]
    ]
    people = [{"Address": "oncall@shop.test", "SubscriptionType": "EMAIL"}]
    assert said == [("ACTUAL", 80, people), ("FORECASTED", 100, people)]
    kinds = {it["Notification"]["ThresholdType"] for it in budget["NotificationsWithSubscribers"]}
    assert (kinds, budget["Budget"]["TimeUnit"]) == ({"PERCENTAGE"}, "MONTHLY"), "80 and 100 are not dollars"


def test_all_roles_have_the_permissions_boundary(prod: SynthesizedTemplate, other: SynthesizedTemplate) -> None:
    assert not [it for it in prod.properties("AWS::IAM::Role").values() if "PermissionsBoundary" in it]
    boundaries = [it.get("PermissionsBoundary") for it in other.properties("AWS::IAM::Role").values()]
    assert boundaries == [SETTINGS["permissions_boundary"]] * len(boundaries)


def test_only_jobs_of_the_stages_environment_in_its_repository_may_deploy(
    others: dict[str, SynthesizedTemplate],
) -> None:
    for name, subject in (
        ("deploy", "repo:owner@123456/shop@456789:environment:prod"),
        ("old repository", "repo:owner/shop:environment:dev"),
    ):
        role = others[name].only_properties("AWS::IAM::Role")
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Action"] == "sts:AssumeRoleWithWebIdentity"
        assert trust["Condition"] == {
            "StringEquals": {
                "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
                "token.actions.githubusercontent.com:sub": subject,
            }
        }, "exactly the form that GitHub's tokens have"
    role = others["deploy"].only_properties("AWS::IAM::Role")
    assert role["PermissionsBoundary"] == SETTINGS["permissions_boundary"]
    allowed = others["deploy"].only_properties("AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    actions = [one["Action"] for one in allowed]
    assert actions == [
        "sts:AssumeRole",
        ["cloudformation:DescribeStacks", "cloudformation:GetTemplate"],
        "dynamodb:DescribeTable",
    ]
    names = [one["Resource"]["Fn::Join"][1][-1] for one in allowed]
    assert names == [":role/cdk-prod1-*", ":stack/orderstream-*", ":table/orderstream-*"]
    for name, qualifier in (("deploy", "prod1"), ("old repository", "hnb659fds")):
        assert others[name].body["Parameters"]["BootstrapVersion"]["Default"] == f"/cdk-bootstrap/{qualifier}/version"
        assert f":role/cdk-{qualifier}-*" in str(others[name].only_properties("AWS::IAM::Policy"))
    assert others["deploy"].body["Outputs"]["DeployRole"]


def test_all_resources_of_a_stage_have_its_cost_tag(others: dict[str, SynthesizedTemplate]) -> None:
    for name, template in others.items():
        artifacts = json.loads((template.file.parent / "manifest.json").read_text())["artifacts"]
        tags = artifacts[template.file.name.removesuffix(".template.json")]["properties"]["tags"]
        assert tags == {"orderstream-stage": "dev" if name in ("page", "old repository") else "prod"}


def test_a_domain_is_of_cloudfront_if_it_is_in_front_and_else_of_the_api(
    other: SynthesizedTemplate, extended: SynthesizedTemplate
) -> None:
    config = other.only_properties("AWS::CloudFront::Distribution")["DistributionConfig"]
    assert config["Aliases"] == ["shop.test"]
    assert config["ViewerCertificate"]["AcmCertificateArn"] == SETTINGS["certificate"]
    assert config["ViewerCertificate"]["MinimumProtocolVersion"] == "TLSv1.2_2021"
    assert other.body["Outputs"]["CloudFrontUrl"]["Value"] == "https://shop.test"
    assert not other.resources("AWS::ApiGatewayV2::DomainName")
    ((id, name),) = extended.properties("AWS::ApiGatewayV2::DomainName").items()
    assert name["DomainName"] == "api.shop.test"
    (wanted,) = name["DomainNameConfigurations"]
    assert (wanted["CertificateArn"], wanted["SecurityPolicy"]) == (CERTIFICATE, "TLS_1_2")
    assert extended.only_properties("AWS::ApiGatewayV2::ApiMapping")["DomainName"] == {"Ref": id}
    outputs = {name: extended.body["Outputs"][name]["Value"] for name in ("ApiUrl", "DomainTarget")}
    assert outputs == {"ApiUrl": "https://api.shop.test", "DomainTarget": {"Fn::GetAtt": [id, "RegionalDomainName"]}}


@pytest.mark.slow
def test_a_deploy_that_must_fail_fails_at_its_last_resource_and_only_that_is_added() -> None:
    usual, failing = synthesize("orderstream-dev"), synthesize("orderstream-dev", fail_deploy=True)
    added = failing.body["Resources"].keys() - usual.body["Resources"].keys()
    kinds = {failing.body["Resources"][id]["Type"]: failing.body["Resources"][id] for id in added}
    assert kinds.keys() == {"AWS::CloudFormation::WaitCondition", "AWS::CloudFormation::WaitConditionHandle"}
    last = kinds["AWS::CloudFormation::WaitCondition"]
    assert last["Properties"]["Timeout"] == "1", "no resource sends the signal of this wait condition"
    assert set(last["DependsOn"]) == set(usual.body["Resources"])


# analytics ------------------------------------------------------------------------------------------------------------
def glue_tables(other: SynthesizedTemplate) -> dict[str, Any]:
    return {it["TableInput"]["Name"]: it["TableInput"] for it in other.properties("AWS::Glue::Table").values()}


def analytics_columns(other: SynthesizedTemplate, table: str) -> dict[str, str]:
    return {it["Name"]: it["Type"] for it in glue_tables(other)[table]["StorageDescriptor"]["Columns"]}


def test_the_archive_has_tables_for_sql_only_if_the_stage_wants_it(
    dev: SynthesizedTemplate, prod: SynthesizedTemplate, other: SynthesizedTemplate
) -> None:
    for template in (dev, prod):
        types = {it["Type"].split("::")[1] for it in template.body["Resources"].values()}
        assert not types & {"Glue", "Athena"}
    assert other.only_properties("AWS::Glue::Database")["DatabaseInput"] == {"Name": "orderstream_prod_archive"}
    assert glue_tables(other).keys() == {*archive_columns(), *archive_views()}


def test_the_days_of_the_archive_are_projected_from_its_keys(other: SynthesizedTemplate) -> None:
    (bucket,) = [id for id in other.resources("AWS::S3::Bucket") if id.startswith("ArchivedBucket")]
    for name in archive_columns():
        read = glue_tables(other)[name]
        assert read["PartitionKeys"] == [{"Name": "day", "Type": "string"}]
        parameters = dict(read["Parameters"])
        location = parameters.pop("storage.location.template")["Fn::Join"][1]
        assert location == ["s3://", {"Ref": bucket}, f"/{read['Name']}/day=${{day}}/"]
        assert parameters == {
            "EXTERNAL": "TRUE",
            "projection.enabled": "true",
            "projection.day.type": "date",
            "projection.day.format": "yyyy-MM-dd",
            "projection.day.range": "2020-01-01,NOW",
            "projection.day.interval": "1",
            "projection.day.interval.unit": "DAYS",
        }
        reader = read["StorageDescriptor"]["SerdeInfo"]["SerializationLibrary"]
        assert reader == "org.apache.hive.hcatalog.data.JsonSerDe", "another one changes the case of product ids"


def test_the_columns_of_the_archive_have_the_type_tags_of_its_objects(other: SynthesizedTemplate) -> None:
    columns = analytics_columns(other, "orders")
    items = columns.pop("items")
    assert columns == {"format": "int", "order_id": "string", "version": "int"}
    assert items.startswith("array<struct<type:struct<s:string>,")
    nested = "lines:struct<m:map<string,struct<m:struct<name:struct<s:string>,price:struct<n:string>,"
    for part in (
        nested,
        "shipping_refunded:struct<bool:boolean>",
        "archived_versions:struct<l:array<struct<n:string>>>",
    ):
        assert part in items
    assert items == items.lower()


def test_a_view_has_the_query_that_is_tested_in_duckdb(other: SynthesizedTemplate) -> None:
    for name, view in archive_views().items():
        found = glue_tables(other)[name]
        assert (found["TableType"], found["Parameters"]["presto_view"]) == ("VIRTUAL_VIEW", "true")
        text = found["ViewOriginalText"].removeprefix("/* Presto View: ").removesuffix(" */")
        stored = json.loads(base64.b64decode(text))
        assert (stored["originalSql"], stored["schema"]) == (view.query, "orderstream_prod_archive")
        assert {one["name"]: one["type"] for one in stored["columns"]} == view.columns
        hive = {column: kind.replace("varchar", "string") for column, kind in view.columns.items()}
        assert analytics_columns(other, name) == hive


def test_the_results_of_queries_are_encrypted_with_the_shops_key(other: SynthesizedTemplate) -> None:
    ((results, bucket),) = [it for it in other.resources("AWS::S3::Bucket").items() if it[0].startswith("Analytics")]
    (key,) = other.resources("AWS::KMS::Key")
    (rule,) = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}, "its parts never expire"
    workgroup = other.only_properties("AWS::Athena::WorkGroup")
    assert workgroup["WorkGroupConfiguration"]["ResultConfiguration"] == {
        "OutputLocation": {"Fn::Join": ["", ["s3://", {"Ref": results}, "/"]]},
        "EncryptionConfiguration": {"EncryptionOption": "SSE_KMS", "KmsKey": {"Fn::GetAtt": [key, "Arn"]}},
    }


@pytest.mark.parametrize(("start", "days"), [("Analytics", RESULT_DAYS), ("ListExports", EXPORT_DAYS)])
def test_results_and_exports_are_deleted_before_an_erasure_is_finished(
    other: SynthesizedTemplate, start: str, days: int
) -> None:
    (bucket,) = [it for id, it in other.properties("AWS::S3::Bucket").items() if id.startswith(start)]
    (rule,) = bucket["LifecycleConfiguration"]["Rules"]
    assert (rule["ExpirationInDays"], rule["Status"]) == (days, "Enabled")
    assert "VersioningConfiguration" not in bucket, "a version would outlive its object"
    assert timedelta(days=days) < SETTLE_PERIOD


def test_only_operators_may_query_the_archive(other: SynthesizedTemplate) -> None:
    (results,) = [id for id in other.resources("AWS::S3::Bucket") if id.startswith("Analytics")]
    may: dict[str, dict[str, Any]] = {}
    for policy in all_policies(other):
        for statement in policy["PolicyDocument"]["Statement"]:
            resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
            actions = [*as_list(statement["Action"])]
            if {it.partition(":")[0] for it in actions} & {"athena", "glue"} or results in str(resources):
                assert statement["Effect"] == "Allow"
                (role,) = policy["Roles"]
                may.setdefault(role["Ref"], {}).update(dict.fromkeys(actions, resources))
    ((role, allowed),) = may.items()
    assert role.startswith("Operators")
    assert allowed.keys() == {
        "athena:StartQueryExecution", "athena:StopQueryExecution", "athena:GetQueryExecution", "athena:GetQueryResults",
        "athena:ListQueryExecutions", "athena:GetWorkGroup", "glue:GetDatabase", "glue:GetTable", "glue:GetTables",
        "s3:GetBucketLocation", "s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts", "s3:ListBucketMultipartUploads",
    }  # fmt: skip
    shown = "athena:GetWorkGroup", "glue:GetTable"
    assert {action: [it["Fn::Join"][1][-1] for it in allowed[action]] for action in shown} == {
        "athena:GetWorkGroup": [":workgroup/orderstream-prod"],
        "glue:GetTable": [
            ":catalog",
            ":database/orderstream_prod_archive",
            *(f":table/orderstream_prod_archive/{name}" for name in sorted({*archive_columns(), *archive_views()})),
        ],
    }


def test_dev_calls_the_api_as_it_was_deployed_last(dev: SynthesizedTemplate) -> None:
    assert not dev.resources("AWS::Lambda::Alias")
    called = [it["IntegrationUri"] for it in dev.properties("AWS::ApiGatewayV2::Integration").values()]
    assert {"Fn::GetAtt": [dev.function("api"), "Arn"]} in called


# releases -------------------------------------------------------------------------------------------------------------
def test_prod_shifts_the_api_to_a_new_version_bit_by_bit_and_back_when_it_answers_5xx_or_nothing(
    prod: SynthesizedTemplate,
) -> None:
    ((alias_id, alias),) = prod.resources("AWS::Lambda::Alias").items()
    (group_id,), (application,) = (
        prod.resources("AWS::CodeDeploy::DeploymentGroup"),
        prod.resources("AWS::CodeDeploy::Application"),
    )
    starter = {"Fn::GetAtt": [prod.function("payment_starter"), "Arn"]}
    called = [it["IntegrationUri"] for it in prod.properties("AWS::ApiGatewayV2::Integration").values()]
    assert sorted(called, key=str) == sorted([{"Ref": alias_id}, starter], key=str)
    callers = [
        it["FunctionName"]
        for it in prod.properties("AWS::Lambda::Permission").values()
        if it["Principal"] == "apigateway.amazonaws.com"
    ]
    assert callers
    assert all(caller in ({"Ref": alias_id}, starter) for caller in callers), "every caller uses the alias"
    assert alias["UpdatePolicy"] == {
        "CodeDeployLambdaAliasUpdate": {
            "ApplicationName": {"Ref": application},
            "DeploymentGroupName": {"Ref": group_id},
        }
    }
    group = prod.only_properties("AWS::CodeDeploy::DeploymentGroup")
    assert group["DeploymentConfigName"] == "CodeDeployDefault.LambdaLinear10PercentEvery1Minute"
    assert group["AlarmConfiguration"]["Enabled"] is True
    assert "DEPLOYMENT_STOP_ON_ALARM" in group["AutoRollbackConfiguration"]["Events"]
    assert group_id in alias["DependsOn"], "the alarms that stop it exist before it begins"
    role = {"Ref": deploy_role(prod)}
    (policy,) = [id for id, it in prod.properties("AWS::IAM::Policy").items() if role in it["Roles"]]
    assert policy in prod.resources("AWS::CodeDeploy::DeploymentGroup")[group_id]["DependsOn"]
    alarms = prod.properties("AWS::CloudWatch::Alarm")
    brakes = [alarms[it["Name"]["Ref"]] for it in group["AlarmConfiguration"]["Alarms"]]
    (api,) = prod.resources("AWS::ApiGatewayV2::Api")
    function = prod.function("api")
    errors = [one["MetricStat"]["Metric"] for it in brakes for one in it["Metrics"] if one["Id"] == "errors"]
    assert [(it["MetricName"], it["Dimensions"][0]["Value"]["Ref"]) for it in errors] == [
        ("5xx", api),
        ("Errors", function),
    ], "answers 5xx count, and so do requests without an answer"


def deploy_role(template: SynthesizedTemplate) -> str:
    (id,) = [id for id, it in template.resources("AWS::IAM::Role").items() if "codedeploy" in str(it)]
    return id


def test_the_api_alias_shifts_after_all_readers_of_its_writes(prod: SynthesizedTemplate) -> None:
    (alias,) = prod.resources("AWS::Lambda::Alias").values()
    others = {
        prod.function(module)
        for module in ("copies_reader", "event_publisher", "fulfilment_worker", "archive_worker", "order_deadlines")
    }
    assert others <= set(alias["DependsOn"])
    assert prod.function("api") not in alias["DependsOn"]


def test_the_deploy_role_may_move_only_the_alias_of_the_api(prod: SynthesizedTemplate) -> None:
    role_id = deploy_role(prod)
    assert "ManagedPolicyArns" not in prod.properties("AWS::IAM::Role")[role_id]
    (policy,) = [it for it in prod.properties("AWS::IAM::Policy").values() if it["Roles"] == [{"Ref": role_id}]]
    may = {tuple(it["Action"]) if isinstance(it["Action"], list) else it["Action"]: it["Resource"]
           for it in policy["PolicyDocument"]["Statement"]}  # fmt: skip
    assert may.pop("cloudwatch:DescribeAlarms") == "*"
    ((actions, resources),) = may.items()
    assert actions == ("lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias")
    assert all(prod.function("api") in str(resource) for resource in resources)


def test_a_role_of_a_service_can_be_assumed_by_this_service_alone(
    other: SynthesizedTemplate, paged: SynthesizedTemplate
) -> None:
    trusts = {
        id[:-8]: role["AssumeRolePolicyDocument"]["Statement"]
        for template in (other, paged)
        for id, role in template.properties("AWS::IAM::Role").items()
    }
    for id, service in (
        ("ApiReleaseRole", "codedeploy"),
        ("BackupsRole", "backup"),
        ("ArchivedCopyRole", "s3"),
        ("PageFilesRole", "lambda"),
    ):
        by_it = {"Principal": {"Service": f"{service}.amazonaws.com"}}
        assert trusts[id] == [{"Effect": "Allow", "Action": "sts:AssumeRole", **by_it}]


# CloudFront and the firewall ------------------------------------------------------------------------------------------
def test_cloudfront_is_in_front_of_the_api_with_the_firewall_of_the_stage(
    prod: SynthesizedTemplate, other: SynthesizedTemplate
) -> None:
    assert not prod.resources("AWS::CloudFront::Distribution")
    (distribution,) = other.resources("AWS::CloudFront::Distribution")
    config = other.only_properties("AWS::CloudFront::Distribution")["DistributionConfig"]
    (api,) = other.resources("AWS::ApiGatewayV2::Api")
    origin = config["Origins"][0]
    assert origin["DomainName"]["Fn::Join"][1][0] == {"Ref": api}
    tls = {"OriginProtocolPolicy": "https-only", "OriginSSLProtocols": ["TLSv1.2"]}
    assert origin["CustomOriginConfig"] == tls, "requests have tokens and addresses"
    assert config["DefaultCacheBehavior"]["ViewerProtocolPolicy"] == "https-only", "a redirect is too late"
    assert config["WebACLId"] == "arn:aws:wafv2:us-east-1:111122223333:global/webacl/name/id"
    caching_disabled, all_but_the_host = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad", "b689b0a8-53d0-40ab-baf2-68738e2966ac"
    behaviour = config["DefaultCacheBehavior"]
    assert (behaviour["CachePolicyId"], behaviour["OriginRequestPolicyId"]) == (caching_disabled, all_but_the_host)
    assert "POST" in behaviour["AllowedMethods"]
    assert distribution in str(other.body["Outputs"]["DomainTarget"])


def test_cloudfront_caches_the_public_paths_alone_for_as_long_as_the_api_says(
    paged: SynthesizedTemplate, other: SynthesizedTemplate
) -> None:
    for template in (paged, other):
        config = template.only_properties("AWS::CloudFront::Distribution")["DistributionConfig"]
        (policy,) = template.resources("AWS::CloudFront::CachePolicy")
        cached = {it["PathPattern"]: it for it in config["CacheBehaviors"] if it["CachePolicyId"] == {"Ref": policy}}
        assert list(cached) == [
            "/best-sellers", "/categories", "/categories/children", "/categories/descendants", "/products",
            "/products/*", "/products/*/rating", "/products/*/reviews", "/products/*/stock",
        ]  # fmt: skip
        for behaviour in cached.values():
            same = ("TargetOriginId", "AllowedMethods", "OriginRequestPolicyId", "ViewerProtocolPolicy")
            assert {it: behaviour[it] for it in same} == {it: config["DefaultCacheBehavior"][it] for it in same}
        rules = template.only_properties("AWS::CloudFront::CachePolicy")["CachePolicyConfig"]
        assert (rules["MinTTL"], rules["DefaultTTL"], rules["MaxTTL"]) == (0, 0, 10)
        key = rules["ParametersInCacheKeyAndForwardedToOrigin"]
        assert key["HeadersConfig"] == {"HeaderBehavior": "whitelist", "Headers": ["Authorization", "Origin"]}
        assert key["QueryStringsConfig"] == {"QueryStringBehavior": "all"}
        assert key["CookiesConfig"] == {"CookieBehavior": "none"}, "the API reads none, and each would be a new key"
        function = template.properties("AWS::Lambda::Function")[template.function("api")]
        assert function["Environment"]["Variables"]["PUBLIC_CACHE_SECONDS"] == "10"


def test_answers_show_their_cost_in_dev_at_the_price_of_the_table_class_and_not_in_prod(
    dev: SynthesizedTemplate, prod: SynthesizedTemplate
) -> None:
    for template, prices in ((dev, "0.125 0.625"), (prod, "")):
        for module in ("api", "payment_starter"):
            function = template.properties("AWS::Lambda::Function")[template.function(module)]
            assert function["Environment"]["Variables"]["UNIT_PRICES"] == prices
    assert replace(STAGES["dev"], table_class="STANDARD_INFREQUENT_ACCESS").unit_prices == "0.155 0.78"


def test_the_api_and_the_mails_with_links_know_the_address_at_which_clients_reach_it(
    dev: SynthesizedTemplate, extended: SynthesizedTemplate, other: SynthesizedTemplate
) -> None:
    for template, output in ((dev, "ApiUrl"), (extended, "ApiUrl"), (other, "CloudFrontUrl")):
        for module in ("api", "product_alert_worker"):
            function = template.properties("AWS::Lambda::Function")[template.function(module)]
            assert function["Environment"]["Variables"]["PUBLIC_URL"] == template.body["Outputs"][output]["Value"]


def test_requests_that_bypass_the_firewall_are_rejected_because_cloudfront_sends_a_secret(
    dev: SynthesizedTemplate, other: SynthesizedTemplate
) -> None:
    def told(template: SynthesizedTemplate) -> Any:
        function = template.properties("AWS::Lambda::Function")[template.function("api")]
        return function["Environment"]["Variables"]["ORIGIN_SECRET"]

    (secret,) = [id for id in other.resources("AWS::SecretsManager::Secret") if id.startswith("SecretsOrigin")]
    origin, files = other.only_properties("AWS::CloudFront::Distribution")["DistributionConfig"]["Origins"]
    assert "OriginCustomHeaders" not in files
    (header,) = origin["OriginCustomHeaders"]
    assert header["HeaderName"] == ORIGIN_SECRET_HEADER
    before, of, version = header["HeaderValue"]["Fn::Join"][1]
    assert (before, of) == ("{{resolve:secretsmanager:", {"Ref": secret})
    made = other.properties("AWS::SecretsManager::Secret")[secret]["GenerateSecretString"]
    assert (made["GenerateStringKey"], made["SecretStringTemplate"]) == ("current", '{"previous": ""}')
    assert (made["PasswordLength"], made["ExcludePunctuation"]) == (48, True), "it is the value of a header"
    assert version == f":SecretString:current::{OTHER.origin_secret_version}}}}}", "a new version changes it"
    assert other.body["Outputs"]["OriginSecret"]["Value"] == {"Ref": secret}
    assert (told(dev), told(other)) == ("", {"Ref": secret})
    reads = [it["Resource"] for it in other.statements("api") if "secretsmanager:GetSecretValue" in str(it)]
    assert {"Ref": secret} in [one for resources in reads for one in as_list(resources)]


def test_the_firewall_rejects_frequent_and_known_bad_requests_but_no_import_for_its_size(
    others: dict[str, SynthesizedTemplate],
) -> None:
    firewall = others["firewall"].only_properties("AWS::WAFv2::WebACL")
    assert (firewall["Scope"], firewall["DefaultAction"]) == ("CLOUDFRONT", {"Allow": {}})
    rates, *managed = firewall["Rules"]
    assert rates["Action"] == {"Block": {}}
    rate = rates["Statement"]["RateBasedStatement"]
    assert (rate["AggregateKeyType"], rate["Limit"]) == ("IP", 2000)
    webhook, unsubscribe, *known = rate["ScopeDownStatement"]["NotStatement"]["Statement"]["OrStatement"]["Statements"]
    assert f"POST {webhook['ByteMatchStatement']['SearchString']}" in PUBLIC_ROUTES
    assert f"POST {unsubscribe['ByteMatchStatement']['SearchString']}" in PUBLIC_ROUTES
    for path in (webhook, unsubscribe):
        match = path["ByteMatchStatement"]
        assert (match["FieldToMatch"], match["PositionalConstraint"]) == ({"UriPath": {}}, "EXACTLY"), "no other path"
    sets = others["firewall"].properties("AWS::WAFv2::IPSet")
    named = [sets[it["IPSetReferenceStatement"]["Arn"]["Fn::GetAtt"][0]] for it in known]
    assert [(it["IPAddressVersion"], it["Addresses"]) for it in named] == [
        ("IPV4", ["203.0.113.0/24", "198.51.100.7/32"]),
        ("IPV6", ["2001:db8::/32"]),
    ]
    groups = [rule["Statement"]["ManagedRuleGroupStatement"] for rule in managed]
    names = ["AmazonIpReputationList", "KnownBadInputsRuleSet", "CommonRuleSet"]
    assert [group["Name"] for group in groups] == [f"AWSManagedRules{name}" for name in names]
    assert [rule["OverrideAction"] for rule in managed] == [{"None": {}}] * 3, "with Count a group blocks nothing"
    for group in groups:
        except_for = group["ScopeDownStatement"]["NotStatement"]["Statement"]["OrStatement"]["Statements"]
        assert except_for == [webhook, unsubscribe], "no payment is lost to a managed rule"
    overrides = [override for group in groups for override in group.get("RuleActionOverrides", ())]
    assert [it["Name"] for it in overrides if "Count" in it["ActionToUse"]] == [
        "JavaDeserializationRCE_BODY", "Log4JRCE_BODY", "SizeRestrictions_BODY", "EC2MetaDataSSRF_BODY",
        "GenericLFI_BODY", "GenericRFI_BODY", "CrossSiteScripting_BODY", "NoUserAgent_HEADER",
    ], "texts of orders and products may look like attacks, and partners may send no User-Agent"  # fmt: skip
    names = [it["VisibilityConfig"]["MetricName"] for it in (firewall, *firewall["Rules"])]
    alarms = [*others["firewall"].properties("AWS::CloudWatch::Alarm").values()]
    watched = [{it["Name"]: it["Value"] for it in alarm["Dimensions"]} for alarm in alarms]
    assert watched == [{"WebACL": names[0], "Rule": rule} for rule in names[1:]]
    mails = others["firewall"].only_properties("AWS::SNS::Subscription")
    assert (mails["Protocol"], mails["Endpoint"]) == ("email", "oncall@shop.test")
    for seen in (it["VisibilityConfig"] for it in (firewall, *firewall["Rules"])):
        sampled = seen["SampledRequestsEnabled"], seen["CloudWatchMetricsEnabled"]
        assert sampled == (False, True), "samples show addresses and tokens"


# the page -------------------------------------------------------------------------------------------------------------
def test_the_page_is_served_beside_the_api_from_a_bucket_that_cloudfront_alone_reads(
    dev: SynthesizedTemplate, paged: SynthesizedTemplate, other: SynthesizedTemplate
) -> None:
    assert not dev.resources("AWS::CloudFront::Distribution")
    for template in (paged, other):
        (distribution,), config = (
            template.resources("AWS::CloudFront::Distribution"),
            template.only_properties("AWS::CloudFront::Distribution")["DistributionConfig"],
        )
        api, files = config["Origins"]
        assert config["DefaultCacheBehavior"]["TargetOriginId"] == api["Id"], "the API's addresses do not change"
        page = [it for it in config["CacheBehaviors"] if it["TargetOriginId"] == files["Id"]]
        assert [it["PathPattern"] for it in page] == ["/page", "/page/*"]
        for behaviour in page:
            assert behaviour["ViewerProtocolPolicy"] == "redirect-to-https"
            assert "AllowedMethods" not in behaviour, "the page can only be read"
            assert behaviour["CachePolicyId"] == "658327ea-f89d-4fab-a63d-7e88639e58f6", "CachingOptimized, by its id"
            assert [it["EventType"] for it in behaviour["FunctionAssociations"]] == ["viewer-request"]
        access = template.only_properties("AWS::CloudFront::OriginAccessControl")["OriginAccessControlConfig"]
        signed = {"OriginAccessControlOriginType": "s3", "SigningBehavior": "always", "SigningProtocol": "sigv4"}
        assert access.items() >= signed.items(), "the bucket answers only signed requests"
        (bucket_id,) = [id for id in template.resources("AWS::S3::Bucket") if id.startswith("Page")]
        bucket = template.resources("AWS::S3::Bucket")[bucket_id]
        assert bucket["DeletionPolicy"] == "Delete", "also in prod, because the bucket has no data"
        assert files["DomainName"] == {"Fn::GetAtt": [bucket_id, "RegionalDomainName"]}
        (policy,) = [
            it["PolicyDocument"]["Statement"]
            for it in template.properties("AWS::S3::BucketPolicy").values()
            if it["Bucket"] == {"Ref": bucket_id}
        ]
        (allowed,) = [it for it in policy if it["Effect"] == "Allow"]
        assert (allowed["Principal"], allowed["Action"]) == ({"Service": "cloudfront.amazonaws.com"}, "s3:GetObject")
        assert {"Ref": distribution} in allowed["Condition"]["StringEquals"]["AWS:SourceArn"]["Fn::Join"][1]
        host = "https://shop.test" if template is other else distribution
        assert host in str(template.body["Outputs"]["PageUrl"])


def test_the_page_policy_allows_only_its_own_resources_and_requests_to_the_shop_and_cognito(
    other: SynthesizedTemplate,
) -> None:
    (policy_id,) = other.resources("AWS::CloudFront::ResponseHeadersPolicy")
    config = other.only_properties("AWS::CloudFront::Distribution")["DistributionConfig"]
    page = [it for it in config["CacheBehaviors"] if it["PathPattern"].startswith("/page")]
    assert {it["ResponseHeadersPolicyId"]["Ref"] for it in page} == {policy_id}
    headers = other.only_properties("AWS::CloudFront::ResponseHeadersPolicy")["ResponseHeadersPolicyConfig"][
        "SecurityHeadersConfig"
    ]
    before, region, after = headers["ContentSecurityPolicy"]["ContentSecurityPolicy"]["Fn::Join"][1]
    assert region == {"Ref": "AWS::Region"}
    assert f"{before}…{after}" == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self' https://my-shop.auth.….amazoncognito.com; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert headers["StrictTransportSecurity"]["AccessControlMaxAgeSec"] == 365 * 24 * 60 * 60
    assert headers["ReferrerPolicy"]["ReferrerPolicy"] == "no-referrer"
    # With an override, no header that a file has in the bucket weakens these.
    assert {name: it["Override"] for name, it in headers.items()} == dict.fromkeys(
        ("ContentSecurityPolicy", "ContentTypeOptions", "ReferrerPolicy", "StrictTransportSecurity"), True
    )


@pytest.mark.parametrize(
    ("uri", "leads_to"),
    [
        ("/page/", {"uri": "/page/index.html"}),
        ("/page/main.js", {"uri": "/page/main.js"}),
        ("/page", {"statusCode": 301, "headers": {"location": {"value": "/page/"}}}),
    ],
)
def test_each_path_of_the_page_leads_to_its_file(
    other: SynthesizedTemplate, uri: str, leads_to: dict[str, Any]
) -> None:
    code = other.only_properties("AWS::CloudFront::Function")["FunctionCode"]
    run = f"{code}; console.log(JSON.stringify(handler({{ request: {{ uri: {json.dumps(uri)} }} }})))"
    node = subprocess.run([environ["JSII_NODE"], "-e", run], capture_output=True, text=True, check=True)
    assert leads_to.items() <= json.loads(node.stdout).items()


def test_each_deploy_puts_the_pages_files_in_place_with_where_one_signs_in_and_has_cloudfront_forget_the_old(
    other: SynthesizedTemplate,
) -> None:
    deployment = other.only_properties("Custom::CDKBucketDeployment")
    (distribution,) = other.resources("AWS::CloudFront::Distribution")
    assert deployment["DestinationBucketKeyPrefix"] == "page"
    assert (deployment["DistributionId"], deployment["DistributionPaths"]) == ({"Ref": distribution}, ["/page/*"])
    assert deployment["SystemMetadata"] == {"cache-control": "max-age=0, must-revalidate, s-maxage=86400"}
    assert (deployment["Prune"], deployment["RetainOnDelete"]) == (True, False)
    files, swagger_ui, settings = (
        other.file.parent / f"asset.{key.removesuffix('.zip')}" for key in deployment["SourceObjectKeys"]
    )
    assert {it.name for it in files.iterdir()} == {it.name for it in (PROJECT / "page").iterdir()}
    assert {it.name for it in swagger_ui.iterdir()} == {"swagger-ui-bundle.min.js", "swagger-ui.min.css"}
    (client,) = other.resources("AWS::Cognito::UserPoolClient")
    text = (settings / "settings.json").read_text()
    for marker, put_in in deployment["SourceMarkers"][2].items():
        parts = put_in["Fn::Join"][1]
        text = text.replace(marker, "".join(it if isinstance(it, str) else it["Ref"] for it in parts))
    assert json.loads(text) == {
        "laptop": False,
        "shop": OTHER.shop_name,
        "api": "",
        "sign_in": {
            "url": "https://my-shop.auth.AWS::Region.amazoncognito.com",
            "client_id": client,
            "scope": " ".join(other.only_properties("AWS::Cognito::UserPoolClient")["AllowedOAuthScopes"]),
        },
        "language": "en",
        "languages": {"de": "Deutsch", "en": "English"},
        "webhook_events": [*WEBHOOK_EVENTS],
    }


def test_the_role_that_uploads_the_page_has_no_other_permission(other: SynthesizedTemplate) -> None:
    (role,) = [id for id in other.resources("AWS::IAM::Role") if id.startswith("PageFiles")]
    assert "ManagedPolicyArns" not in other.properties("AWS::IAM::Role")[role]
    policies = [it for it in other.properties("AWS::IAM::Policy").values() if {"Ref": role} in it["Roles"]]
    (statements,) = (policy["PolicyDocument"]["Statement"] for policy in policies)
    may = {action for statement in statements for action in as_list(statement["Action"])}
    assert may == {
        "logs:CreateLogStream", "logs:PutLogEvents", "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket",
        "cloudfront:CreateInvalidation", "cloudfront:GetInvalidation",
    }  # fmt: skip
    assert not [it for it in statements if it["Resource"] == "*"]
    (uploader,) = [it for id, it in other.properties("AWS::Lambda::Function").items() if "BucketDeployment" in id]
    assert uploader["Role"] == {"Fn::GetAtt": [role, "Arn"]}
    log = other.properties("AWS::Logs::LogGroup")[uploader["LoggingConfig"]["LogGroup"]["Ref"]]
    assert log["RetentionInDays"] == OTHER.log_retention_days


def test_a_sign_in_for_the_page_returns_only_to_the_page(other: SynthesizedTemplate) -> None:
    client = other.only_properties("AWS::Cognito::UserPoolClient")
    (page,) = client["CallbackURLs"]
    assert client["LogoutURLs"] == [page]
    assert page == other.body["Outputs"]["PageUrl"]["Value"]
    api = other.properties("AWS::Lambda::Function")[other.function("api")]
    assert api["Environment"]["Variables"]["PAGE_URL"] == page
    (client_id,) = other.resources("AWS::Cognito::UserPoolClient")
    assert other.only_properties("AWS::Cognito::ManagedLoginBranding")["ClientId"] == {"Ref": client_id}
