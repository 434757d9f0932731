import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from local.world import dynamodb_engine as local_engine
from local.world import expiry, processes
from local.world.dynamodb_engine import Engine, EngineNotInstalled, TableDiffers
from tests.support.waiting import eventually

KEYS = [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}]
DEFINED = [{"AttributeName": name, "AttributeType": "S"} for name in ("PK", "SK", "GSI1PK", "GSI1SK")]
PLAIN = {"KeySchema": KEYS, "AttributeDefinitions": DEFINED[:2]}
INDEX = {
    "IndexName": "GSI1",
    "KeySchema": [{"AttributeName": "GSI1PK", "KeyType": "HASH"}, {"AttributeName": "GSI1SK", "KeyType": "RANGE"}],
    "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["total", "status"]},
}
GLOBAL_TABLE: dict[str, Any] = {  # the properties as in a synthesized template
    "AttributeDefinitions": DEFINED,
    "BillingMode": "PAY_PER_REQUEST",
    "GlobalSecondaryIndexes": [INDEX],
    "KeySchema": KEYS,
    "Replicas": [{"Region": "eu-central-1", "SSESpecification": {"KMSMasterKeyId": {"Fn::GetAtt": ["Key", "Arn"]}}}],
    "SSESpecification": {"SSEEnabled": True, "SSEType": "KMS"},
    "StreamSpecification": {"StreamViewType": "NEW_AND_OLD_IMAGES"},
    "TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": True},
}
EXPIRED_BY_ITSELF = '{"type":"Service","principalId":"dynamodb.amazonaws.com"}'


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """A directory for the engines of one test, which are stopped after the test."""
    yield tmp_path
    processes.stop(tmp_path)


@pytest.fixture
def new_plain_table(engine: Engine, request: pytest.FixtureRequest) -> str:
    """Create a table with the keys PK and SK, both strings. Return its name."""
    name: str = request.node.name[:200]
    engine.create_table(name, PLAIN)
    return name


def put(engine: Engine, table: str, key: str, **attributes: Any) -> None:
    engine.dynamodb().put_item(TableName=table, Item={"PK": {"S": key}, "SK": {"S": "x"}, **attributes})


def keys(engine: Engine, table: str) -> set[str]:
    return {item["PK"]["S"] for item in engine.dynamodb().scan(TableName=table)["Items"]}


def stream(engine: Engine, table: str) -> list[Any]:
    client = engine.streams()
    [arn] = [found["StreamArn"] for found in client.list_streams(TableName=table)["Streams"]]
    [shard] = client.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    iterator = client.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")
    return list(client.get_records(ShardIterator=iterator["ShardIterator"])["Records"])


def removals(engine: Engine, table: str) -> dict[str, str | None]:
    """Return the user identity of each deletion in the engine's stream, by key."""
    with closing(sqlite3.connect(engine.database, timeout=30)) as database:
        rows = database.execute(
            "SELECT json_extract(keys_json, '$.PK.S'), user_identity FROM _stream_records"
            " WHERE table_name = ? AND event_name = 'REMOVE'",
            (table,),
        )
        return dict(rows.fetchall())


def kill(directory: Path) -> None:
    process_id = processes.running_process_id(directory)
    assert process_id is not None
    os.kill(process_id, signal.SIGKILL)


def seconds_from_now(seconds: float) -> Any:
    return {"N": str(int(time.time() + seconds))}


def test_a_start_ends_the_engine_that_an_earlier_run_left_behind(own: Path) -> None:
    local_engine.start(own)
    left_behind = processes.running_process_id(own)

    engine = local_engine.start(own)

    assert left_behind != processes.running_process_id(own)
    assert local_engine.find(own) == engine


def test_ports_that_are_all_taken_are_named(engine: Engine, own: Path) -> None:
    with pytest.raises(processes.ProcessFailed, match=f"are in use: {engine.port}, {engine.tools_port}"):
        local_engine.start(own, ports=(engine.port, engine.tools_port))


def test_the_engine_takes_the_port_of_its_list_that_is_free(engine: Engine, own: Path) -> None:
    free = processes.free_port()
    started = local_engine.start(own, ports=(engine.port, free))
    started.stop()
    assert started.port == free


def test_a_missing_engine_is_one_sentence_that_names_make_setup(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_engine, "PROJECT", own)
    with pytest.raises(EngineNotInstalled, match=r"^[^.]+: run `make setup`\.$"):
        local_engine.start(own)


def test_a_table_of_the_template_is_made_with_its_indexes_and_its_stream(engine: Engine) -> None:
    engine.create_table("of-the-template", GLOBAL_TABLE)

    table = engine.dynamodb().describe_table(TableName="of-the-template")["Table"]
    assert table["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    [index] = table["GlobalSecondaryIndexes"]
    [wanted] = GLOBAL_TABLE["GlobalSecondaryIndexes"]
    assert (index["KeySchema"], index["Projection"]) == (wanted["KeySchema"], wanted["Projection"])


def test_a_table_of_another_definition_is_refused(engine: Engine) -> None:
    engine.create_table("first-definition", GLOBAL_TABLE)
    engine.create_table("first-definition", GLOBAL_TABLE)
    with pytest.raises(TableDiffers):
        engine.create_table("first-definition", PLAIN)


def test_an_expired_item_is_deleted_with_the_user_identity_of_dynamodb(engine: Engine, new_plain_table: str) -> None:
    engine.delete_expired_items()  # delete the expired items of other tests
    put(engine, new_plain_table, "due", ttl=seconds_from_now(-5))
    put(engine, new_plain_table, "not due", ttl=seconds_from_now(60))
    put(engine, new_plain_table, "lasting")
    put(engine, new_plain_table, "deleted", ttl=seconds_from_now(-5))
    engine.dynamodb().delete_item(TableName=new_plain_table, Key={"PK": {"S": "deleted"}, "SK": {"S": "x"}})

    assert engine.delete_expired_items() == 1
    assert keys(engine, new_plain_table) == {"not due", "lasting"}
    assert removals(engine, new_plain_table) == {"deleted": None, "due": EXPIRED_BY_ITSELF}
    assert ["userIdentity" in record for record in stream(engine, new_plain_table)[-2:]] == [False, True]


def test_an_advance_expires_later_items_with_unchanged_images(engine: Engine, new_plain_table: str) -> None:
    strange = 'a "quoted" \\ #ü\n key'
    in_a_year = seconds_from_now(365 * 86_400)
    engine.delete_expired_items()
    put(engine, new_plain_table, strange, ttl=in_a_year, note={"S": "kept"})
    put(engine, new_plain_table, "in two years", ttl=seconds_from_now(730 * 86_400))
    put(engine, new_plain_table, "lasting")

    assert expiry.expire_until(engine, new_plain_table, datetime.now(UTC) + timedelta(days=400)) == 1
    assert keys(engine, new_plain_table) == {"in two years", "lasting"}
    assert removals(engine, new_plain_table) == {strange: EXPIRED_BY_ITSELF}
    removal = stream(engine, new_plain_table)[-1]
    assert removal["userIdentity"] is not None
    assert removal["dynamodb"]["OldImage"] == {
        "PK": {"S": strange},
        "SK": {"S": "x"},
        "ttl": in_a_year,
        "note": {"S": "kept"},
    }


def test_a_deletion_by_a_user_after_an_advance_is_no_expiry(engine: Engine, new_plain_table: str) -> None:
    put(engine, new_plain_table, "again", ttl=seconds_from_now(60))
    expiry.expire_until(engine, new_plain_table, datetime.now(UTC) + timedelta(days=1))
    put(engine, new_plain_table, "again", ttl=seconds_from_now(120))

    engine.dynamodb().delete_item(TableName=new_plain_table, Key={"PK": {"S": "again"}, "SK": {"S": "x"}})

    assert removals(engine, new_plain_table) == {"again": None}


def test_an_advance_reads_more_than_one_page(engine: Engine, new_plain_table: str) -> None:
    for number in range(4):
        put(engine, new_plain_table, str(number), ttl=seconds_from_now(60), filler={"S": "x" * 390_000})
    assert expiry.expire_until(engine, new_plain_table, datetime.now(UTC) + timedelta(hours=1)) == 4
    assert keys(engine, new_plain_table) == set()


def test_an_advance_runs_the_schedules_before_it_deletes_expired_items(engine: Engine, new_plain_table: str) -> None:
    moments = []

    def lapse(start: datetime, until: datetime) -> dict[str, int]:
        moments.append((start, until))
        put(engine, new_plain_table, "closed by lapse", ttl=seconds_from_now(60))
        return {"lapsed": 1}

    started = datetime.now(UTC)
    assert expiry.advance(engine, new_plain_table, timedelta(days=1), lapse) == expiry.Advance(1, {"lapsed": 1})
    [(start, until)] = moments
    assert timedelta(0) <= start - started < timedelta(minutes=1)
    assert until - start == timedelta(days=1)


def test_advancing_keeps_the_totals_that_are_open_by_the_real_clock(engine: Engine, new_plain_table: str) -> None:
    for kind in ("Contribution", "SalesMinute", "ExpiryMarker"):
        put(engine, new_plain_table, f"{kind} later", ttl=seconds_from_now(60), type={"S": kind})
        put(engine, new_plain_table, f"{kind} past", ttl=seconds_from_now(-60), type={"S": kind})
    expiry.advance(engine, new_plain_table, timedelta(days=400), lambda start, until: {})
    assert keys(engine, new_plain_table) == {"Contribution later", "SalesMinute later"}


def test_an_advance_keeps_the_log_entries_of_an_order_until_the_order_is_archived(
    engine: Engine, new_plain_table: str
) -> None:
    def put_order(order_id: str, kind: str) -> None:
        key = {name: {"S": value} for name, value in (("PK", f"ORDER#{order_id}"), ("SK", "ORDER"))}
        engine.dynamodb().put_item(TableName=new_plain_table, Item={**key, "type": {"S": kind}})

    def advance() -> None:
        expiry.advance(engine, new_plain_table, timedelta(days=400), lambda start, until: {})

    for order_id, kind in (("open", "Order"), ("archived", "ArchivedOrder")):
        put_order(order_id, kind)
        entry = {"type": {"S": "Activity"}, "order_id": {"S": order_id}, "ttl": seconds_from_now(60)}
        put(engine, new_plain_table, f"entry of {order_id}", **entry)
    advance()
    assert keys(engine, new_plain_table) >= {"entry of open"}
    assert "entry of archived" not in keys(engine, new_plain_table)
    put_order("open", "ArchivedOrder")
    advance()
    assert "entry of open" not in keys(engine, new_plain_table)


@pytest.fixture
def small(own: Path) -> Iterator[Engine]:
    """An engine with one table, `small`."""
    engine = local_engine.start(own)
    engine.create_table("small", PLAIN)
    yield engine
    engine.stop()


def test_the_engine_deletes_nothing_while_no_item_is_expired(small: Engine) -> None:
    put(small, "small", "later", ttl=seconds_from_now(60))
    assert not small.has_expired_items()
    put(small, "small", "due", ttl=seconds_from_now(-5))
    assert small.has_expired_items()
    assert small.delete_expired_items() == 1
    assert not small.has_expired_items()


def test_an_item_expires_while_the_clock_runs(small: Engine) -> None:
    put(small, "small", "due", ttl=seconds_from_now(-5))
    stop = threading.Event()
    ticking = threading.Thread(target=expiry.run_expiry_loop, args=(small, stop, 0.01))
    ticking.start()
    try:
        eventually(lambda: not keys(small, "small"))
    finally:
        stop.set()
        ticking.join(timeout=10)
    assert not ticking.is_alive()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("400d", timedelta(days=400)),
        ("90m", timedelta(minutes=90)),
        ("2w", timedelta(weeks=2)),
        ("5s", timedelta(seconds=5)),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, meant: timedelta) -> None:
    assert expiry.parse_duration(text) == meant


@pytest.mark.parametrize("text", ["", "d", "400", "-1d", "1.5d", "1y", "9999999d"])
def test_a_malformed_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        expiry.parse_duration(text)


def test_an_advance_of_more_than_a_hundred_years_is_rejected() -> None:
    assert expiry.parse_duration("36525d") == timedelta(days=36_525)
    for text in ("36526d", "999999w"):
        with pytest.raises(ValueError, match="longer than a hundred years"):
            expiry.parse_duration(text)
