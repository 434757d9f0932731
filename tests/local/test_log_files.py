"""The size limit of the log files of the local shop."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from local.laptop import log_files
from local.laptop.log_files import LogLines, append_to_log, read_log


def test_a_log_that_reaches_its_limit_loses_no_line_of_several_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, read = tmp_path / "functions.log", []
    wanted = sorted(f"{writer} {number:02d}".encode() for writer in range(4) for number in range(100))
    monkeypatch.setattr(log_files, "MAX_LOG_BYTES", len(wanted) * 5 // 2 + 5)  # so that this limit is reached once
    lines = LogLines(log)

    def write(writer: int) -> None:
        for number in range(100):
            append_to_log(log, f"{writer} {number:02d}\n")

    with ThreadPoolExecutor() as writers:
        written = [writers.submit(write, writer) for writer in range(4)]
        while not all(one.done() for one in written):
            read += lines.read()
    read += lines.read()
    lines.close()
    assert log.with_name("functions.log.before").exists()
    assert sorted(read) == sorted(read_log(log).splitlines()) == wanted


def test_a_log_keeps_one_part_before_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MAX_LOG_BYTES", 10)
    log = tmp_path / "functions.log"
    for text in ("first\n", "second\n", "third\n"):
        append_to_log(log, text)
    assert read_log(log) == b"first\nsecond\nthird\n"
    assert [read_log(log, size) for size in (3, 8)] == [b"rd\n", b"d\nthird\n"]
    append_to_log(log, "fourth\n")
    assert read_log(log) == b"third\nfourth\n"
