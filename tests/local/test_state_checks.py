"""Tests a start of the local shop with state that is damaged, missing, or of another shop."""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from local import __main__ as command_line
from local.laptop import aws_process as local_aws
from local.laptop.journal import Journal
from local.laptop.payment_provider import PaymentProviderServer
from local.laptop.poller import CheckpointStore
from local.laptop.shop_client import PROJECT
from local.laptop.state_checks import (
    DamagedState,
    UnusableFolder,
    check_database,
    check_fingerprint,
    check_free_space,
    read_fingerprint,
    write_fingerprint,
    write_manifest,
)
from local.seed.fill import ShopNotEmpty
from local.world.dynamodb_engine import DATABASE_FILE, Engine, TableDiffers
from local.world.processes import ProcessFailed

SHOP = {"pepper": "a", "user pool": "p", "table": "orders-of-a-shop"}
KEYS = {
    "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}],
}
ONE_SENTENCE = r"^/[^ ]+ [^.;]+$"


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "aws" / "saved"
    (folder / "state").mkdir(parents=True)
    (folder / "state" / "secretsmanager.json").write_text('{"pepper": "salt"}')
    (folder.parent / "s3").mkdir()
    write_manifest(folder)
    return folder


def test_a_saved_copy_is_found_as_it_was_saved(saved: Path) -> None:
    assert local_aws.find_snapshot(saved.parent) == saved
    assert local_aws.find_snapshot(saved) is None


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("state/secretsmanager.json", b'{"pep', "is damaged"),
        ("state/secretsmanager.json", None, "is missing"),
        ("state/cognito.json", b"{}", "is damaged"),
        ("manifest.json", b'{"state', "cannot be read"),
        ("manifest.json", b"5", "cannot be read"),
        ("manifest.json", b"[" * 100_000, "cannot be read"),
        ("manifest.json", None, "cannot be read"),
    ],
)
def test_a_damaged_copy_stops_the_start_and_names_the_file(
    saved: Path, name: str, content: bytes | None, says: str
) -> None:
    if content is None:
        (saved / name).unlink()
    else:
        (saved / name).write_bytes(content)
    with pytest.raises(DamagedState, match=ONE_SENTENCE) as raised:
        local_aws.find_snapshot(saved.parent)
    assert str(raised.value).startswith(f"{saved / name} {says}")


def test_an_archive_that_is_missing_stops_the_start(saved: Path) -> None:
    (saved.parent / "s3").rmdir()
    with pytest.raises(DamagedState, match=r"s3 is missing: it contains the archive"):
        local_aws.find_snapshot(saved.parent)


def test_a_table_file_that_is_damaged_stops_the_start_and_names_the_file(tmp_path: Path) -> None:
    check_database(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as database, database:
        database.execute("CREATE TABLE items (item TEXT)")
        database.executemany("INSERT INTO items VALUES (?)", [("x" * 1000,)] * 100)
    check_database(tmp_path)
    truncate(tmp_path / DATABASE_FILE)
    with pytest.raises(DamagedState, match=ONE_SENTENCE):
        check_database(tmp_path)
    (tmp_path / DATABASE_FILE).write_text("this is no database, and it is long enough to have a header" * 20)
    with pytest.raises(DamagedState, match=ONE_SENTENCE):
        check_database(tmp_path)


def test_the_table_knows_the_shop_that_wrote_it(engine: Engine) -> None:
    aws = Path("/aws")
    with pytest.raises(DamagedState, match=r"does not contain the table of this shop"):
        check_fingerprint(engine, aws, SHOP, stack_is_new=False)
    check_fingerprint(engine, aws, SHOP, stack_is_new=True)
    assert read_fingerprint(engine.directory) is None

    engine.create_table(SHOP["table"], KEYS)
    write_fingerprint(engine, SHOP)

    assert read_fingerprint(engine.directory) == SHOP
    check_fingerprint(engine, aws, SHOP, stack_is_new=False)
    for name in SHOP:
        with pytest.raises(
            DamagedState, match=rf"^/aws belongs to another shop than the table in .*\(different: {name}\)"
        ):
            check_fingerprint(engine, aws, {**SHOP, name: "another"}, stack_is_new=True)


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_free_space(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 3 << 20})())
    with pytest.raises(UnusableFolder, match=rf"^The disk of {tmp_path} has 3 MB free\. The shop needs 200 MB\.$"):
        check_free_space(tmp_path)


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("/dev/null/shop", errno.ENOTDIR),
        ("/proc/shop", errno.ENOENT if sys.platform == "linux" else None),
        ("\udce9" * 300, None),
    ],
)
def test_a_folder_that_cannot_be_used_is_one_sentence(folder: str, reason: int | None) -> None:
    command = [sys.executable, "-m", "local", "--state", folder, "up"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, check=False)
    [line] = done.stderr.decode(errors="replace").splitlines()
    assert done.returncode == 1
    assert reason is None or os.strerror(reason) in line
    assert line.endswith("To use another folder: .venv/bin/python -m local --state DIR up")


def another_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("DROP TABLE entries")
        database.execute("CREATE TABLE entries (something TEXT)")


# caches and records ---------------------------------------------------------------------------------------------------
def test_a_damaged_journal_is_begun_again(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite"
    for damage in (truncate, lambda file: file.write_bytes(b"no database" * 100), another_table):
        journal = Journal(file)
        assert not journal.was_damaged
        for _ in range(200):
            journal.append("request", "x" * 500)
        journal.close()
        damage(file)

        journal = Journal(file)
        assert journal.was_damaged
        journal.append("request", "after")
        assert [entry["text"] for entry in journal.entries_after(0)] == ["after"]
        journal.close()


def test_an_entry_that_cannot_be_kept_is_shown_and_stops_nothing(tmp_path: Path) -> None:
    shown: list[str] = []
    journal = Journal(tmp_path / "journal.sqlite", lambda entry: shown.append(entry["text"]))
    journal._database.execute("PRAGMA max_page_count = 8")  # simulates a full disk
    for number in range(100):
        journal.append("request", f"{number} " + "x" * 500)
    assert len(shown) == 100
    assert len(journal.entries_after(0)) < 100


def test_damaged_checkpoints_are_noticed(tmp_path: Path) -> None:
    checkpoints = CheckpointStore(tmp_path / "checkpoints.json")
    assert not checkpoints.is_damaged
    checkpoints.save("copies_reader", "arn", {"shard": "1"})
    assert not checkpoints.is_damaged
    truncate(checkpoints.file)
    assert checkpoints.is_damaged
    for content in (b"\xff\xfe", b"[]", b'{"copies arn": 1}'):
        checkpoints.file.write_bytes(content)
        assert checkpoints.is_damaged


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"port": 1, "other": 2}'])
def test_a_damaged_address_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "address.json").write_bytes(content)
    with pytest.raises(ProcessFailed, match=r"address\.json is damaged: stop the shop and start it again\.$"):
        local_aws.LocalAwsAddress.read(tmp_path)


def provider_on(folder: Path) -> PaymentProviderServer:
    return PaymentProviderServer(folder, 0, "http://127.0.0.1:1", lambda: "secret", lambda: "key")


def test_a_payment_cut_off_by_a_kill_is_dropped_and_the_next_one_is_stored(tmp_path: Path) -> None:
    def pay(key: str) -> Any:
        form = b"amount=100&currency=eur&metadata[order_id]=o1&confirm=true"
        return provider_on(tmp_path).answer("POST", "/v1/payment_intents", {"Idempotency-Key": key}, form).body

    pay("first")
    events = tmp_path / "events.jsonl"
    with events.open("ab") as file:
        file.write(b'{"id": "evt_cut')
    assert pay("second") == pay("second")
    assert len(events.read_bytes().splitlines()) == 2


def test_payments_that_cannot_be_read_stop_the_start_and_name_the_file(tmp_path: Path) -> None:
    for line in (b'{"id"\n', b"\xff\n", b"{}\n", b"[]\n", b'{"id": "evt_1", "data": {"object": 1}}\n'):
        (tmp_path / "events.jsonl").write_bytes(line)
        with pytest.raises(DamagedState, match=r"events\.jsonl .* in line 1"):
            provider_on(tmp_path)


def test_damaged_delivery_states_do_not_stop_the_start_and_only_repeat_events(tmp_path: Path) -> None:
    (tmp_path / "taken.jsonl").write_bytes(b'\xff\n{"a": 1}\n"evt_')
    provider_on(tmp_path)


def test_payments_that_the_shop_knows_and_the_provider_lost_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / "taken.jsonl").write_bytes(b'"evt_1"\n')
    with pytest.raises(DamagedState, match=r"events\.jsonl does not contain all payments of this shop"):
        provider_on(tmp_path)


@pytest.mark.parametrize("error", [DamagedState(Path("/table"), "is damaged"), ShopNotEmpty(), TableDiffers("orders")])
def test_an_error_that_only_an_empty_shop_mends_names_the_command_for_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    monkeypatch.setattr(command_line, "run_command", Mock(side_effect=error))
    for options, command in (
        (["--state", str(tmp_path)], f".venv/bin/python -m local --state {tmp_path} reset"),
        ([], "make reset"),
    ):
        monkeypatch.setattr(sys, "argv", ["local", *options, "up"])
        with pytest.raises(SystemExit, match=f"[^.]; to start with an empty shop: {command}$"):
            command_line.main()
