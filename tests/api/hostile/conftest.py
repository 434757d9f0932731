"""One judge for all hostile requests of a process: it tells how many there were."""

import os
from collections.abc import Iterator

import pytest

from tests.api.asking import answer_to, event
from tests.api.hostile.judge import Judge

REQUESTS = int(os.environ.get("HOSTILE", "9000"))
"""How many are sent in all. Of eight, seven are of the corpus; one is made up by Schemathesis, which takes longer."""
OF_CORPUS, MADE_UP = REQUESTS * 7 // 8, REQUESTS // 8


@pytest.fixture(scope="module")
def judge(pytestconfig: pytest.Config) -> Iterator[Judge]:
    judge = Judge(answer_to(event("GET", "/openapi.json")).said)
    yield judge
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{sum(judge.asked.values())} requests, answered {dict(sorted(judge.asked.items()))}")
