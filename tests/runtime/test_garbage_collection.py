"""Tests that garbage collection is off while a Lambda starts, on from its first call, and unchanged elsewhere."""

import json
import os
import subprocess
import sys

import pytest

from stacks import PROJECT

CALLED = """
import gc, json
looked_for = [gc.isenabled()]
from functions.runtime import observability
looked_for.append(gc.isenabled())
call = observability.instrument_handler(lambda _event, _context: looked_for.append(gc.isenabled()))
call({}, None)
left_alone = gc.get_freeze_count() > 0
print(json.dumps([looked_for, left_alone]))
"""
"""Prints whether `gc` is enabled before and after the imports and in the first call, and if objects are frozen."""


@pytest.mark.parametrize(
    ("told", "looked_for"),
    [({"AWS_LAMBDA_FUNCTION_NAME": "it"}, [[True, False, True], True]), ({}, [[True, True, True], False])],
)
def test_garbage_collection_is_enabled_at_the_first_call(told: dict[str, str], looked_for: object) -> None:
    environment = {"PATH": os.environ["PATH"], "METRICS_NAMESPACE": "Orders", **told}
    command = [sys.executable, "-c", CALLED]
    ran = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout.splitlines()[-1]) == looked_for
