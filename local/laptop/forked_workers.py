"""Starts the worker processes of Lambda functions by forking a process that has already imported their packages.

By default, ministack (the emulator of AWS) starts a new Python process for each concurrent call: a second of processor
time and about 60 MB. A forked process starts in milliseconds and shares the memory of the packages. Forking is used on
Linux only, because the network libraries of other systems may fail in forked processes.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing import reduction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ministack.core import lambda_runtime  # type: ignore[import-untyped]

from local.laptop.measured_requests import measure_requests

PROJECT = str(Path(__file__).parents[2])
FORK_CONTEXT = multiprocessing.get_context("forkserver") if sys.platform == "linux" else None


def fork_workers(spans: Path | None = None) -> None:
    """Make ministack fork further workers of Python functions, on Linux. `spans`: the file of AWS requests, or None."""
    if FORK_CONTEXT is None:
        return
    FORK_CONTEXT.set_forkserver_preload(["local.laptop.worker_packages"])
    names = {name: getattr(subprocess, name) for name in ("PIPE", "TimeoutExpired", "DEVNULL", "STDOUT", "run")}
    lambda_runtime.subprocess = SimpleNamespace(**names, Popen=partial(_start_process, spans=spans))


def _start_process(command: Sequence[str], *, spans: Path | None = None, **options: Any) -> Any:
    """Start a process for ministack: fork a Python worker, or start any other command with subprocess.Popen."""
    program, script = command[0], command[-1]
    if program == sys.executable and len(command) == 2:
        return ForkedWorker(script, cwd=options["cwd"], env=options["env"], spans=spans)
    return subprocess.Popen(command, **options)


class _InheritedDescriptor:
    """A file descriptor that can be passed to a forked process. The forked process gets a duplicate as an int."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _detach_descriptor, (reduction.DupFd(self._number),)


def _detach_descriptor(duplicate: Any) -> int:
    number: int = duplicate.detach()
    return number


class ForkedWorker:
    """A forked process that runs a script as main module, as the part of subprocess.Popen that ministack uses."""

    def __init__(self, script: str, *, cwd: str, env: Mapping[str, str], spans: Path | None = None) -> None:
        assert FORK_CONTEXT is not None
        pipes = [os.pipe() for _ in range(3)]
        (stdin, to_stdin), (from_stdout, stdout), (from_stderr, stderr) = pipes
        theirs = stdin, stdout, stderr
        self._process = FORK_CONTEXT.Process(
            target=_run_script, args=(script, cwd, dict(env), spans, *map(_InheritedDescriptor, theirs)), daemon=True
        )
        try:
            self._process.start()
        finally:
            for number in theirs:
                os.close(number)
        self.stdin = os.fdopen(to_stdin, "w", buffering=1)
        self.stdout, self.stderr = os.fdopen(from_stdout), os.fdopen(from_stderr)
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0)
        for file in (self.stdin, self.stdout, self.stderr):
            file.close()
        return code

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def _run_script(script: str, cwd: str, env: Mapping[str, str], spans: Path | None, *files: int) -> None:
    """Run the script in the forked process, with streams, os.environ, sys.path and sys.argv as `python script` has."""
    for target, number in enumerate(files):
        os.dup2(number, target)
        os.close(number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[:] = [str(Path(script).parent), *(path for path in sys.path if path not in ("", PROJECT))]
    sys.argv = [script]
    if spans is not None:
        measure_requests(spans)
    runpy.run_path(script, run_name="__main__")
