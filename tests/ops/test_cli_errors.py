"""Every error ends a tool with one sentence. Exit code 2: wrong usage; 1: incomplete."""

from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from functions.dynamodb.errors import Permanent, TableBusy, Unreadable
from functions.dynamodb.keys import InvalidKeyValue
from ops import targets
from ops.__main__ import main
from ops.cli_errors import RecordNotFound, UsageError
from ops.scan.checkpoint import Locked

NOT_DONE = "Incomplete: "
REFUSED = ClientError({"Error": {"Code": "AccessDenied", "Message": "not for you"}}, "Scan")
COMMANDS = (
    ["failures", "list"],
    ["failures", "show", "key"],
    ["failures", "redrive", "--all", "--because", "fixed"],
    ["replay", "--from-table", "--copies"],
    ["drift", "--all"],
    ["restore", "o1"],
    ["order", "o1"],
    ["health"],
    ["drift", "--only", "accounts"],
    ["migrate", "up"],
)


def raising(error: Exception) -> Callable[..., Any]:
    def raise_it(*_: Any, **__: Any) -> Any:
        raise error

    return raise_it


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (TableBusy(), 1, NOT_DONE),
        (REFUSED, 1, f"{NOT_DONE}An error occurred (AccessDenied)"),
        (EndpointConnectionError(endpoint_url="https://aws"), 1, NOT_DONE),
        (Locked("ann runs it"), 1, f"{NOT_DONE}ann runs it"),
        (RecordNotFound("no such order"), 1, "no such order"),
        (Unreadable("Order: no total"), 1, "Order: no total"),
        (Permanent("of a newer version"), 1, "of a newer version"),
        (InvalidKeyValue("order_id", "a#b"), 2, str(InvalidKeyValue("order_id", "a#b"))),
        (UsageError("say which"), 2, "say which"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_error_is_printed_as_one_sentence(
    command: list[str], error: Exception, code: int, says: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name in ("resolve_target", "resolve_table", "resolve_shop"):
        monkeypatch.setattr(targets, name, raising(error))
    with pytest.raises(SystemExit) as ended:
        main(command)
    told = ended.value.code if isinstance(ended.value.code, str) else capsys.readouterr().err
    assert told.startswith(says)
    assert (ended.value.code == 2) is (code == 2)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("drift --local --units-per-second 0", "--units-per-second"),
        ("drift --local --units-per-second nan", "--units-per-second"),
        ("failures redrive --all", "--because"),
        ("failures redrive --since soon --because fixed", "soon"),
        ("restore", "Give order ids, or a time range"),
        ("restore --from 2026-01-01", "Give order ids, or a time range"),
        ("restore o1 --from 2026-01-01 --to 2026-01-02", "Give order ids, or a time range"),
        ("restore --from 2026-01-02 --to 2026-01-02", "--from must be before --to"),
        ("restore --from yesterday --to today", "--from"),
        ("replay --from-table", "--copies or --reactions."),
        ("replay --from-table --copies --to-all", "sends no events"),
        ("replay --from-table --reactions", "Choose the receivers"),
        ("replay --from-event-archive --to-all", "--since WHEN"),
        ("replay --from-event-archive --to x --since 1d", "replays to every rule"),
        ("replay --from-event-archive --to-all --since soon", "is not a time"),
        ("query A9 --arg product_id=mug --limit 0", "--limit"),
        ("query A9 --arg product_id=mug --limit few", "--limit"),
        ("capacity --table orders --days 64", "keeps five-minute datapoints no longer"),
        ("hot-keys --table orders --hours 361", "keeps one-minute datapoints no longer"),
        ("migrate up --to 7777", "There is no migration 7777."),
    ],
)
def test_wrong_usage_ends_with_2_and_the_reason(
    command: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name in ("resolve_target", "resolve_table", "resolve_shop"):
        monkeypatch.setattr(targets, name, MagicMock())
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 2
    assert why in capsys.readouterr().err
