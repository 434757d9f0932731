"""Sends hostile requests to every route (`make hostile`): no 5xx, no undocumented answer, no invalid input accepted."""

import random
import zlib
from collections import Counter
from collections.abc import Iterator

import pytest

from proof.support.every_route import ROUTES
from proof.support.http_client import ApiHarness
from tests.api.hostile.conftest import CORPUS_REQUESTS
from tests.api.hostile.corpus import Mutation, combined_mutations, single_mutations
from tests.api.hostile.judge import ResponseJudge
from tests.api.hostile.request import HostileRequest, valid_request

EACH = CORPUS_REQUESTS // len(ROUTES) + 1


@pytest.mark.hostile
@pytest.mark.parametrize("key", ROUTES)
def test_every_hostile_request_to_a_route_is_answered_as_described(
    api: ApiHarness, world: dict[str, str], judge: ResponseJudge, key: str
) -> None:
    asked = valid_request(key, world, api)
    found: dict[str, str] = {}
    counted: Counter[str] = Counter()
    for how, change in chosen(judge, key, asked):
        _, wrong = judge.send(change(asked).event(api))
        for one in wrong:
            counted[one] += 1
            found.setdefault(one, how)
    if found:
        pytest.fail(
            "\n".join(f"{key}, {how}: {why} ({counted[why]} times)" for why, how in found.items()), pytrace=False
        )


def chosen(judge: ResponseJudge, key: str, asked: HostileRequest) -> Iterator[Mutation]:
    """Yield the same EACH mutations of a request in every run: first single mutations, then combinations."""
    chance = random.Random(zlib.crc32(key.encode()))  # noqa: S311  it guards nothing
    method, template = key.split()
    parameters = judge.document["paths"].get(template, {}).get(method.lower(), {}).get("parameters", ())
    ways = list(single_mutations(asked, [one["name"] for one in parameters if one["in"] == "query"], template))
    chance.shuffle(ways)
    yield from ways[:EACH]
    more = combined_mutations(ways, chance)
    for _ in range(EACH - len(ways)):
        yield next(more)
