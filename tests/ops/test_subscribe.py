"""Tests `subscribe`: the commands that it prints, and what their policies allow."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import pytest

from ops.__main__ import main

SHOP, TEAM = "111122223333", "444455556666"
BUS = f"arn:aws:events:eu-central-1:{SHOP}:event-bus/shop-bus"
RULE = f"arn:aws:events:eu-central-1:{SHOP}:rule/shop-bus/books"
ROLE = f"arn:aws:iam::{SHOP}:role/books"
QUEUE, DEAD, UNDELIVERED = (
    f"arn:aws:sqs:eu-central-1:{name}" for name in (f"{TEAM}:books", f"{TEAM}:books-dead", f"{SHOP}:books-undelivered")
)
EVENT_BRIDGE = {"Service": "events.amazonaws.com"}
Commands = dict[str, dict[str, str]]
Names = Mapping[str, str]


def commands_for(account: str, capsys: pytest.CaptureFixture[str]) -> Commands:
    """Return the options of each printed command, by the command and its first name."""
    main(["subscribe", "--account", account, "--events", "OrderPaid,OrderShipped", "--name", "books", "--bus", BUS])
    lines = [shlex.split(line) for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert all(words[0] == "aws" and words[3:5] == ["--region", "eu-central-1"] for words in lines)
    return {f"{words[2]} {words[6]}": dict(zip(words[3::2], words[4::2], strict=True)) for words in lines}


def is_allowed(
    policy: str, action: str, resource: str, principal: Mapping[str, str], context: Mapping[str, str]
) -> bool:
    """Evaluate the statements that allow: IAM denies everything else. The principal is not in a role's own policy."""
    return any(
        statement["Effect"] == "Allow"
        and statement["Action"] == action
        and statement.get("Resource", resource) == resource
        and statement.get("Principal", principal) == principal
        and statement.get("Condition", {}).keys() <= {"ArnEquals"}
        and all(context.get(key) == value for key, value in statement.get("Condition", {}).get("ArnEquals", {}).items())
        for statement in json.loads(policy)["Statement"]
    )


def policy_of(commands: Commands, queue: str) -> str:
    policy: str = json.loads(commands[f"create-queue {queue}"]["--attributes"])["Policy"]
    return policy


def test_only_the_role_of_the_rule_may_send_to_the_queue_in_another_account(capsys: Any) -> None:
    commands = commands_for(TEAM, capsys)
    policy, account = policy_of(commands, "books"), {"AWS": f"arn:aws:iam::{SHOP}:root"}
    assert is_allowed(policy, "sqs:SendMessage", QUEUE, account, {"aws:PrincipalArn": ROLE})
    assert not is_allowed(policy, "sqs:SendMessage", QUEUE, account, {"aws:PrincipalArn": f"{ROLE}-2"})
    assert not is_allowed(policy, "sqs:ReceiveMessage", QUEUE, account, {"aws:PrincipalArn": ROLE})
    assert not is_allowed(policy, "sqs:SendMessage", QUEUE, EVENT_BRIDGE, {"aws:SourceArn": RULE})
    trust, rights = commands["create-role books"], commands["put-role-policy books"]
    assert is_allowed(
        trust["--assume-role-policy-document"], "sts:AssumeRole", ROLE, EVENT_BRIDGE, {"aws:SourceArn": RULE}
    )
    other = {"aws:SourceArn": RULE.replace("books", "other")}
    assert not is_allowed(trust["--assume-role-policy-document"], "sts:AssumeRole", ROLE, EVENT_BRIDGE, other)
    assert is_allowed(rights["--policy-document"], "sqs:SendMessage", QUEUE, {}, {})
    assert not is_allowed(rights["--policy-document"], "sqs:SendMessage", DEAD, {}, {})


def test_only_these_events_of_the_shop_are_sent_and_those_that_fail_are_kept(capsys: Any) -> None:
    commands = commands_for(TEAM, capsys)
    rule, target = commands["put-rule shop-bus"], commands["put-targets shop-bus"]
    assert json.loads(rule["--event-pattern"]) == {
        "source": ["orderstream"], "account": [SHOP], "detail-type": ["OrderPaid", "OrderShipped"],
    }  # fmt: skip
    assert json.loads(target["--targets"]) == [
        {"Id": "queue", "Arn": QUEUE, "RoleArn": ROLE, "DeadLetterConfig": {"Arn": UNDELIVERED}}
    ]
    assert is_allowed(
        policy_of(commands, "books-undelivered"), "sqs:SendMessage", UNDELIVERED, EVENT_BRIDGE, {"aws:SourceArn": RULE}
    )
    redrive = json.loads(json.loads(commands["create-queue books"]["--attributes"])["RedrivePolicy"])
    assert redrive["deadLetterTargetArn"] == DEAD


def test_in_the_account_of_the_shop_the_rule_itself_sends(capsys: Any) -> None:
    commands = commands_for(SHOP, capsys)
    queue = f"arn:aws:sqs:eu-central-1:{SHOP}:books"
    policy = policy_of(commands, "books")
    assert is_allowed(policy, "sqs:SendMessage", queue, EVENT_BRIDGE, {"aws:SourceArn": RULE})
    assert not is_allowed(policy, "sqs:SendMessage", queue, {"AWS": f"arn:aws:iam::{SHOP}:root"}, {})
    assert "RoleArn" not in commands["put-targets shop-bus"]["--targets"]
    assert not [name for name in commands if "role" in name]


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--account", "12", "'12' is not valid: use the 12 digits of an AWS account."),
        ("--name", "books.fifo", "'books.fifo' is not valid: use 1 to 64 letters, digits, _ or -."),
        ("--events", "OrderPaid,OrderShiped", "'OrderShiped' is not an event. Did you mean OrderShipped?"),
        ("--bus", "shop-bus", "'shop-bus' is not an ARN such as arn:aws:events:REGION:ACCOUNT:event-bus/NAME."),
    ],
)
def test_a_wrong_option_is_named(option: str, value: str, sentence: str, capsys: Any) -> None:
    options = {"--account": TEAM, "--events": "OrderPaid", "--bus": BUS, option: value}
    with pytest.raises(SystemExit) as ended:
        main(["subscribe", *(word for pair in options.items() for word in pair)])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
