"""Tests the settings of a deployment: the CDK context selects a stage or sets one setting. Errors are reported."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local.laptop.aws_server import MAX_CONCURRENT_BATCHES
from local.up import SETTINGS_OF_AWS
from stacks import PROJECT
from stacks.stage import (
    EXAMPLE_STAGES,
    QUEUES,
    STAGES,
    STAGES_FOLDER,
    InvalidSetting,
    Stage,
    check_complete,
    read_settings,
)

RESTORED = "arn:aws:dynamodb:eu-central-1:111122223333:table/restored/stream/2026-11-21T09:30:00.000"
CERTIFICATE = "arn:aws:acm:eu-central-1:111122223333:certificate/2f6b5c0e"


def write_file(folder: Path, name: str, text: str) -> dict[str, object]:
    """Write the file of a stage. Return the context that selects the stage."""
    (folder / f"{name}.toml").write_text(text)
    return {"stages": str(folder), "stage": name}


def test_a_deployment_is_dev_unless_it_says_otherwise(tmp_path: Path) -> None:
    write_file(tmp_path, "dev", "")
    assert read_settings({"stages": str(tmp_path)}) == STAGES["dev"]
    assert read_settings(write_file(tmp_path, "prod", "")) == STAGES["prod"]


def test_the_file_of_a_stage_changes_its_settings_and_the_command_line_changes_both(tmp_path: Path) -> None:
    context = write_file(tmp_path, "prod", 'closed_order_days = 30\nshop_name = "Elm"\ntracing = true\n')
    stage = read_settings({**context, "closed_order_days": "40"})
    assert stage == replace(STAGES["prod"], closed_order_days=40, shop_name="Elm", tracing=True)


def test_a_stage_of_any_name_is_like_dev_or_prod(tmp_path: Path) -> None:
    stage = read_settings(write_file(tmp_path, "staging", 'defaults_of = "prod"\nclosed_order_days = 30\n'))
    assert stage == replace(STAGES["prod"], name="staging", closed_order_days=30)
    assert stage.protect
    assert not read_settings(write_file(tmp_path, "mine", 'defaults_of = "dev"\n')).protect


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("prod", "closed_order_days = '30'", "closed_order_days is '30': it must be a whole number"),
        ("prod", "tracing = 1", "tracing is 1: it must be true or false"),
        ("prod", "sender = 1", "sender is 1: it must be a text in quotes"),
        ("prod", "operators = 'ann'", "operators is 'ann': it must be a list of texts, such as"),
        ("prod", "biling = 'provisioned'", "biling is not a setting: did you mean billing"),
        ("prod", "protect = false", "protect is not a setting"),
        ("prod", "first_deploy = true", "first_deploy is not a setting"),
        ("mine", 'defaults_of = "dev"\nfail_deploy = true', "fail_deploy is not a setting"),
        ("prod", "throw_away = true", "throw_away is set, but prod is protected"),
        ("prod", "server_timing = true", "server_timing is set, but prod is protected"),
        ("prod", "sign_in_prefix = ", "Invalid value"),
        ("prod", "defaults_of = 'dev'", "remove defaults_of: prod cannot be like another stage"),
        ("staging", "", 'set defaults_of to "dev" or "prod"'),
        ("staging", "defaults_of = 'mine'", 'set defaults_of to "dev" or "prod"'),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence_that_names_it(
    tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    with pytest.raises(InvalidSetting, match=f"{name}.toml: {sentence}"):
        read_settings(write_file(tmp_path, name, text))


def test_a_wrong_override_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    context = write_file(tmp_path, "prod", "closed_order_days = 30")
    with pytest.raises(InvalidSetting, match=r"^closed_order_days is 0"):
        read_settings({**context, "closed_order_days": "0"})


@pytest.mark.parametrize("name", ["../dev", "Dev", "dev.toml", "/dev"])
def test_a_stage_is_only_ever_a_file_of_its_folder(name: str) -> None:
    with pytest.raises(InvalidSetting, match="it must be one of dev, prod"):
        read_settings({"stage": name})


def test_a_protected_stage_is_not_synthesized_before_its_shop_is_described(tmp_path: Path) -> None:
    context = write_file(tmp_path, "prod", "")
    with pytest.raises(InvalidSetting) as refused:
        check_complete(context)
    sentences = str(refused.value).split(".\n")
    file = tmp_path / "prod.toml"
    named = ("sender", "product_url", "alarm_address", "monthly_budget")
    assert len(sentences) == len(named)
    assert all(said.startswith(f"{file}: set {name}") for said, name in zip(sentences, named, strict=True))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"sender": "orders@my.example.com"}, "set sender"),
        ({"product_url": "https://shop.example:80/{product_id}"}, "set product_url"),
        ({"alarm_address": ""}, "set alarm_address"),
        ({"monthly_budget": None}, "set monthly_budget"),
    ],
)
def test_each_missing_description_is_refused(tmp_path: Path, wrong: dict[str, object], named: str) -> None:
    complete: dict[str, object] = {
        "sender": "orders@counterexample.com",
        "product_url": "https://shop.test/{product_id}",
        "alarm_address": "oncall@shop.test",
        "monthly_budget": "0",
    }
    context = write_file(tmp_path, "prod", "") | complete
    check_complete(context)
    with pytest.raises(InvalidSetting, match=named):
        check_complete(context | wrong)
    check_complete(write_file(tmp_path, "mine", 'defaults_of = "dev"'))


@pytest.mark.parametrize("folder", [STAGES_FOLDER, EXAMPLE_STAGES])
def test_the_files_of_the_repository_can_be_read(folder: str) -> None:
    files = [path.stem for path in (PROJECT / folder).glob("*.toml")]
    assert {"dev", "prod"} <= {*files}
    for name in files:
        read_settings({"stages": folder, "stage": name})
    check_complete({"stages": EXAMPLE_STAGES, "stage": "prod"})


def test_any_setting_can_be_set_by_text_as_the_command_line_gives_it() -> None:
    context = {"payment_window_minutes": "5", "sender": "a@b.example", "cors_origins": "https://a.example, http://b:80"}
    stage = read_settings(context)
    assert (stage.payment_window_minutes, stage.sender) == (5, "a@b.example")
    assert stage.cors_origins == ("https://a.example", "http://b:80")


def test_context_of_the_cdk_itself_is_ignored() -> None:
    context = {"@aws-cdk/core:flag": True, "aws:cdk:bundling-stacks": ["**"], "cli-telemetry": False, "laptop": "true"}
    assert read_settings(context) == read_settings({})


@pytest.mark.parametrize(
    ("context", "sentence"),
    [
        ({"stage": "unknown"}, "stage is 'unknown': it must be one of dev, prod"),
        ({"stage": "prod", "protect": "false"}, "protect is not a setting"),
        ({"biling": "provisioned"}, "biling is not a setting: did you mean billing"),
        ({"closed_order_days": "0"}, "closed_order_days is 0: it must be from 1 to 3650"),
        ({"log_retention_days": "15"}, "log_retention_days is 15: CloudWatch Logs allows 1, 3, 5"),
        ({"sender": "the shop"}, "sender is 'the shop': it must be an e-mail address"),
        ({"mail_domain": "other.test", "sender": "a@shop.test"}, "mail_domain is 'other.test': it must be the domain"),
        ({"feature_plan": "lite", "sign_in_prefix": "my-shop"}, "feature_plan is lite: the sign-in pages of"),
        ({"issuer": "id.shop.test"}, "issuer is 'id.shop.test': use the address of an OpenID provider"),
        ({"issuer": "https://id.shop.test/"}, "issuer and audience belong together"),
        ({"audience": "orders"}, "issuer and audience belong together"),
        ({"issuer": "https://a.test", "audience": "b c"}, "audience has 'b c': use printable characters"),
        ({"issuer": "https://a.test", "audience": "page", "page_client_id": "page"}, "audience has 'page', the client"),
        (
            {"page_client_id": "page"},
            "page_client_id is set, but issuer is not: with the user pool, set sign_in_prefix",
        ),
        (
            {"issuer": "https://a.test", "audience": "b", "sign_in_prefix": "my-shop"},
            "sign_in_prefix is set, but needs the user pool",
        ),
        ({"shop_name": "a\nb"}, "shop_name is 'a\\\\nb': use printable characters only"),
        ({"cors_origins": "https://a.example/page"}, "cors_origins has 'https://a.example/page': use an origin"),
        ({"provider_url": "api.stripe.com"}, "provider_url is 'api.stripe.com': use a URL without a path, such as"),
        ({"stage": "prod", "provider_url": "http://a.example"}, "provider_url is 'http://a.example': use a URL"),
        ({"operators": "ann"}, "operators has 'ann': it must be the ARN of a role or a user, such as"),
        ({"alarm_address": "oncall"}, "alarm_address is 'oncall': it must be an e-mail address, or empty"),
        ({"product_url": "https://a.example/"}, "product_url is 'https://a.example/': use the form https://shop"),
        ({"mails_per_second": "1", "concurrency": "order_notification:40"}, "mails_per_second is 1: .* lower it"),
        ({"billing": "free"}, "billing is 'free': it must be one of on-demand, provisioned"),
        ({"snap_start": "yes"}, "snap_start is 'yes': it must be true or false"),
        ({"read_units": "5-100"}, "read_units has '5-100': use the form table:5-400, with table, GSI1, GSI2"),
        ({"write_units": "*:9-5"}, "write_units has '\\*:9-5': .* at least 1 .* at most 40000"),
        ({"read_units": "*:1-5,*:2-6"}, "read_units has a name twice"),
        ({"read_units": "table:1-5,GSI1:1-5"}, "read_units has no entry for GSI2, GSI3: add entries for them, or one"),
        ({"billing": "provisioned", "max_write_units": "5"}, "max_write_units is 5: it limits a table with on-demand"),
        ({"memory_mb": "copy_reader:1024"}, "memory_mb has 'copy_reader:1024': use the form api:128"),
        ({"memory_mb": "api:100"}, "memory_mb has 'api:100': use at least 128"),
        ({"batch_size": "api:5"}, "batch_size has 'api:5': use the form copies_reader:1, with copies_reader"),
        (
            {"batch_size": "fulfilment:25", "batch_window_seconds": "fulfilment:1"},
            "of fulfilment is 25: use at most 24",
        ),
        ({"batch_size": "fulfilment:11"}, "fulfilment is 11: .* 10 messages needs batch_window_seconds of at least 1"),
        ({"concurrency": "fulfilment:1"}, "concurrency has 'fulfilment:1': use at least 2"),
        ({"concurrency": "fulfilment:8", "reserved_concurrency": "fulfilment:7"}, "of fulfilment is 7: use at least 8"),
        ({"parallelization": "3", "reserved_concurrency": "copies_reader:2"}, "of copies_reader is 2: use at least 3"),
        ({"warm_read_units": "15000"}, "warm_read_units has '15000': use the form table:12000, with table, GSI1"),
        ({"warm_write_units": "table:3999"}, "warm_write_units has 'table:3999': use at least 4000, which a new"),
        ({"stream_arn": RESTORED, "warm_write_units": "*:5000"}, "warm_write_units is set, but the restored"),
        ({"monthly_budget": "100"}, "monthly_budget is set, but its mails have no address: set alarm_address, too"),
        ({"deploy_from": "shop"}, "deploy_from is 'shop': it must be a repository as GitHub's tokens name it"),
        ({"bootstrap_qualifier": "Prod"}, "bootstrap_qualifier is 'Prod': use up to 10 lower-case letters and digits"),
        ({"permissions_boundary": "boundary"}, "permissions_boundary is 'boundary': it must be the ARN of a policy"),
        ({"domain": "https://a.test", "certificate": "a"}, "domain is 'https://a.test': use the form shop.your.domain"),
        ({"domain": "shop.test"}, "domain is set, but certificate is not: set both or none"),
        ({"domain": "shop.test", "certificate": "mine"}, "certificate is 'mine': .* in the region of the stack"),
        ({"domain": "shop.test", "certificate": CERTIFICATE, "sign_in_prefix": "shop"}, "certificate is .* us-east-1"),
        ({"backup_lock_days": "7"}, "backup_lock_days is 7: all backups must be kept at least this long"),
        ({"backup_lock_days": "31", "daily_backup_days": "30", "monthly_backup_days": "60"}, "backup_lock_days is 31:"),
        ({"daily_backup_days": "35", "monthly_backup_days": "30"}, "monthly_backup_days is 30: it must exceed .*35"),
        ({"backup_copy_vault": "arn:aws:backup:eu-west-1:111122223333:backup-vault:copies"}, "vault is set, but no"),
        ({"stage": "prod", "backup_copy_vault": "copies"}, "backup_copy_vault is 'copies': it must be the ARN of a"),
        ({"replica_regions": "eu-west-1,us-east-1"}, "replica_regions is eu-west-1, us-east-1: replicas are not"),
        (
            {"stream_arn": "arn:aws:dynamodb:eu-central-1:111122223333:table/restored"},
            "stream_arn is .* must be the ARN",
        ),
        ({"web_acl": "arn:aws:wafv2:eu-central-1:111122223333:regional/webacl/a/b"}, "web_acl is .* must be the ARN"),
        ({"stream_arn": RESTORED, "billing": "provisioned"}, "billing is set, but the restored table is not part of"),
        ({"rate_limit_exempt_networks": "203.0.113.9/24"}, "rate_limit_exempt_networks has '203.0.113.9/24': use the"),
        ({"origin_secret_version": "current"}, "origin_secret_version is 'current': it must be the id of a version"),
        ({"origin_secret_version": "2f6b5c0e-9f0e-4a54-8f0a-5d1c1f3f7b11"}, "version is set, .*: set web_acl"),
        ({"sign_in_prefix": "My-Shop"}, "sign_in_prefix is 'My-Shop': use a Cognito domain prefix, such as my-shop"),
        ({"sign_in_prefix": "s" * 64}, "sign_in_prefix is 's{64}': use a Cognito domain prefix"),
        ({"sign_in_prefix": "my-aws-shop"}, "sign_in_prefix is 'my-aws-shop': .* and without aws, amazon, cognito"),
        ({"requests_per_second": "9000", "webhooks_per_second": "1001"}, "are 10001 together: .* 10000"),
        ({"burst_requests": "4000", "burst_webhooks": "1001"}, "are 5001 together: .* 5000"),
        ({"customer_writes_per_minute": "600"}, "customer_write_burst is 60: it must be at least 200, the writes of"),
        ({"stage": "prod", "cors_origins": "*"}, "cors_origins has \\*: in prod, list the origins"),
    ],
)
def test_a_wrong_setting_is_refused_with_a_sentence_that_names_it(context: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=sentence):
        read_settings(context)


def test_a_stage_made_in_code_is_checked_too() -> None:
    with pytest.raises(InvalidSetting, match="burst_requests"):
        Stage(name="mine", protect=False, burst_requests=0)


@pytest.mark.parametrize(
    ("mails", "workers", "a_minute", "batch"),
    [
        (1, 2, 18, 6),
        (2, 2, 36, 10),
        (14, 2, 252, 10),
        (50, 6, 300, 10),
        (8_000, 960, 300, 10),
        (10_000, 1_000, 360, 10),
    ],
)
def test_the_workers_of_order_mails_follow_from_the_rate_of_mails(
    mails: int, workers: int, a_minute: int, batch: int
) -> None:
    stage = Stage(name="mine", protect=False, mails_per_second=mails)
    (reaction,) = [stage.tuned(one) for one in QUEUES if one.name == "order_notification"]
    assert (reaction.concurrency, reaction.batch_size) == (workers, batch)
    assert stage.mails_per_invocation("order_notification") == a_minute


def test_the_rate_of_mails_does_not_slow_down_a_local_shop() -> None:
    """The local AWS processes few batches of a queue at once, so each batch must be allowed to send many mails."""
    stage = Stage(name="mine", protect=False, mails_per_second=int(SETTINGS_OF_AWS["mails_per_second"]))
    mails_a_second = MAX_CONCURRENT_BATCHES * stage.mails_per_invocation("order_notification") / 60
    assert mails_a_second >= 4 * 12, "four mails of each order, and more orders than a laptop has ever completed"


def test_a_wrong_setting_is_refused_in_one_sentence_before_the_cdk_starts() -> None:
    environment = {**os.environ, "CDK_CONTEXT_JSON": '{"stage": "unknown"}', "JSII_NODE": "/nowhere"}
    command = [sys.executable, str(PROJECT / "app.py")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert re.fullmatch("stage is 'unknown': it must be one of dev, prod.*\\.\n", ended.stderr)
