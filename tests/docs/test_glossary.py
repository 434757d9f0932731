"""Tests that names and sentences use the words of docs/glossary.toml, and that each planted wrong name is reported."""

from pathlib import Path

import pytest

from docs.glossary_check import PROJECT, SCOPES, find_misuses, list_names, load, normalize

GLOSSARY = load()
PLANTED = [
    ("identifier", "functions/shop/orders.py", "def put_if_outside() -> None: ..."),
    ("identifier", "functions/model/orders.py", "class ShopMetricShards: ..."),
    ("setting", "stacks/stage.py", "class Stage:\n    shift: str"),
    ("setting", "stages/prod.toml", "\npage = 'shop'"),
    ("metric", "functions/model/metrics.py", '\nMetricDefinition("LapseLag")'),
    ("metric", "stacks/alarm_definitions.py", "\nAlarm(name=f'lapse-backlog-{level}')"),
    ("command", "Makefile", "\nimport: installed"),
    ("command", "ops/commands/replay.py", "\nparser.add_argument('--from-archive')"),
    ("command", "local/__main__.py", "\ncommands.add_parser('seed')"),
    ("HTTP", "functions/api/routes/orders.py", "class OrderAnswer:\n    queue: str"),
    ("HTTP", "functions/api/routes/sales.py", "router.get('/insight/metrics')"),
    ("heading", "docs/runbooks/parking.md", "\n## The fronts' secrets"),
    ("message", "ops/sweep.py", "\nraise UsageError(f'{x} given-up batch')"),
    ("message", "local/laptop/journal.py", "\nlog.warning('activity_log')"),
    ("message", "stacks/stage.py", "\nsetting('', '[a-z]+', 'use the given-up batch')"),
    ("message", "stacks/table.py", "\ndef find():\n    yield f'{x} given-up batch'"),
]
"""For each scope of a word: a file whose last line contains a name that the glossary forbids."""


def misuses(folder: Path, path: str, text: str) -> list[str]:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text, encoding="utf-8")
    return list(find_misuses(list_names(folder), GLOSSARY))


@pytest.mark.parametrize(("scope", "path", "text"), PLANTED)
def test_a_name_that_is_not_used_is_reported_with_file_and_line(
    tmp_path: Path, scope: str, path: str, text: str
) -> None:
    (found,) = misuses(tmp_path, path, text)
    assert found.startswith(f"{path}:{len(text.splitlines())}: the {scope} ")


def test_the_glossary_contradicts_nothing() -> None:
    words = [word.word for word in GLOSSARY.words]
    assert len(words) == len(set(words))
    for word in GLOSSARY.words:
        assert word.meaning.endswith((".", ".)"))
        assert word.not_used.keys() <= set(SCOPES)
        for scope, names in word.not_used.items():
            forbidden = [normalize(scope, name) for name in names]
            own = [normalize(scope, text) for each in GLOSSARY.words for text in (each.word, each.meaning)]
            assert [name for name in forbidden for text in own if name in text] == []
            assert not {name.strip() for name in forbidden} & {normalize("", it).strip() for it in GLOSSARY.ordinary}


def test_every_folder_and_every_lambda_of_the_glossary_is_there() -> None:
    assert [folder for folder in GLOSSARY.folders if not (PROJECT / folder).is_dir()] == []
    assert set(GLOSSARY.lambdas) == {path.stem for path in (PROJECT / "functions/handlers").glob("[a-z]*.py")}
