"""Starts the processes of functions by forking one that has already imported their packages.

ministack starts a Python for each function, and one more for each call beside another: a second of processor time and
some 60 MB each. A fork takes milliseconds, and shares what was imported. multiprocessing's fork server does it; here is
what makes it look like subprocess.Popen to ministack. On Linux only: elsewhere forked processes may not use the
system's network libraries, and ministack's own way stays.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ministack.core import lambda_runtime  # type: ignore[import-untyped]

PROJECT = str(Path(__file__).parent.parent)
FORK_CONTEXT = multiprocessing.get_context("forkserver") if sys.platform == "linux" else None


def fork_workers() -> None:
    """From now on the processes of Python functions are forked."""
    if FORK_CONTEXT is None:
        return
    FORK_CONTEXT.set_forkserver_preload(["local.worker_packages"])
    names = {name: getattr(subprocess, name) for name in ("PIPE", "TimeoutExpired", "DEVNULL", "STDOUT", "run")}
    lambda_runtime.subprocess = SimpleNamespace(**names, Popen=_start_process)


def _start_process(command: Sequence[str], **options: Any) -> Any:
    """A worker of Python is forked; anything else is started as always."""
    program, script = command[0], command[-1]
    if program == sys.executable and len(command) == 2:
        return ForkedWorker(script, cwd=options["cwd"], env=options["env"])
    return subprocess.Popen(command, **options)


class _InheritedDescriptor:
    """A file descriptor that the new process gets as a number of its own."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _detach_descriptor, (reduction.DupFd(self._number),)


def _detach_descriptor(duplicate: Any) -> int:
    number: int = duplicate.detach()
    return number


class ForkedWorker:
    """A process that runs a script as its main module, with the part of subprocess.Popen that ministack uses."""

    def __init__(self, script: str, *, cwd: str, env: Mapping[str, str]) -> None:
        assert FORK_CONTEXT is not None
        pipes = [os.pipe() for _ in range(3)]
        (stdin, to_stdin), (from_stdout, stdout), (from_stderr, stderr) = pipes
        theirs = stdin, stdout, stderr
        self._process = FORK_CONTEXT.Process(
            target=_run_script, args=(script, cwd, dict(env), *map(_InheritedDescriptor, theirs)), daemon=True
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


def _run_script(script: str, cwd: str, env: Mapping[str, str], *files: int) -> None:
    """In the new process: become what `python script` would be."""
    for target, number in enumerate(files):
        os.dup2(number, target)
        os.close(number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[:] = [str(Path(script).parent), *(path for path in sys.path if path not in ("", PROJECT))]
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")
