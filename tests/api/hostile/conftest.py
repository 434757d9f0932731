"""One judge for all hostile requests of a process: it tells how many there were."""

import os
from collections.abc import Iterator

import pytest

from tests.api.asking import http_event, invoke_api
from tests.api.hostile.judge import ResponseJudge

REQUESTS = int(os.environ.get("HOSTILE", "9000"))
"""How many are sent in all. Of eight, seven are of the corpus; one is made up by Schemathesis, which takes longer."""
CORPUS_REQUESTS, GENERATED_REQUESTS = REQUESTS * 7 // 8, REQUESTS // 8


@pytest.fixture(scope="module")
def judge(pytestconfig: pytest.Config) -> Iterator[ResponseJudge]:
    judge = ResponseJudge(invoke_api(http_event("GET", "/openapi.json")).body)
    yield judge
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{sum(judge.status_counts.values())} requests, answered {dict(sorted(judge.status_counts.items()))}")
