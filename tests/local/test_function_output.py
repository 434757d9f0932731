"""Tests that the log of an invocation is saved with this invocation."""

import subprocess
import sys
import threading

import pytest
from ministack.core.lambda_runtime import Worker  # type: ignore[import-untyped]

from local.laptop.function_output import collect_whole_logs

LINES = 100_000
SCRIPT = f"""
import sys
for line in sys.stdin:
    for number in range({LINES}):
        print(line.strip(), number, file=sys.stderr)
    print("answered", flush=True)
"""


def test_all_that_a_function_wrote_before_its_answer_is_the_log_of_this_invocation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for method in ("_read_stderr", "_drain_stderr", "_drain_stderr_bounded"):
        monkeypatch.setattr(Worker, method, getattr(Worker, method))
    collect_whole_logs()
    worker = Worker("function", {}, b"")
    command, pipe = [sys.executable, "-c", SCRIPT], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1) as worker._proc:
        threading.Thread(target=worker._read_stderr, daemon=True).start()
        try:
            for name in ("first", "second"):
                worker._proc.stdin.write(f"{name}\n")
                worker._proc.stdout.readline()
                log = worker._drain_stderr_bounded().splitlines()
                assert (len(log), log[0], log[-1]) == (LINES, f"{name} 0", f"{name} {LINES - 1}")
        finally:
            worker._proc.kill()
    assert worker._drain_stderr() == ""
