"""Tests that the types of docs/how-to/generate-a-client.md fit all events, with the commands of that page."""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from docs.generate import DOCS
from tests.docs.test_generate import publish_everything
from tools import locks

pytestmark = pytest.mark.slow
ROOT = DOCS.parent
TOOLS = ROOT / "build" / "clients"
PAGE = (DOCS / "how-to" / "generate-a-client.md").read_text(encoding="utf-8")
Events = list[Mapping[str, Any]]


def code_of(language: str) -> list[str]:
    return [block.replace("\\\n", " ") for block in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the schemas, and the types that the commands of the page generate."""
    if not (TOOLS / ".installed").exists():
        pytest.fail(
            "the generators are not installed: run `make all-examples ARGS=tests/docs/test_clients.py`", pytrace=False
        )
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(DOCS / "events", folder / "events")
    shutil.copy(DOCS / "events.json", folder)
    python, npx = (shlex.split(block.splitlines()[1]) for block in code_of("sh"))
    run(folder, sys.executable, "-m", "datamodel_code_generator", *python[1:])
    run(folder, ROOT / ".venv/bin/node", TOOLS / "node_modules/.bin" / npx[1], *npx[2:])
    return folder


def run(folder: Path, *command: str | Path, code: int = 0) -> str:
    env = {**os.environ, "PYTHONPATH": str(TOOLS / "python")}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def published() -> Events:
    return publish_everything()


@pytest.fixture
def consumer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the page that uses the generated models."""
    (folder / "consumer.py").write_text(code_of("python")[0])
    monkeypatch.syspath_prepend(folder)
    yield importlib.import_module("consumer")
    for name in ("consumer", "shop_events"):
        del sys.modules[name]


def test_the_page_names_the_versions_that_are_locked() -> None:
    named = set(re.findall(r"([\w-]+)(?:==|@)([\d.]+)", " ".join(code_of("sh"))))
    python = locks.locked_packages(ROOT / "proof/clients/requirements.txt")
    locked = {*python.items(), *locks.locked_node_packages(ROOT / "proof/clients/package-lock.json")}
    assert len(named) == 3
    assert named <= locked


def test_generated_python_models_parse_every_event(consumer: Any, published: Events) -> None:
    for event in published:
        shop_event = consumer.ShopEvent.model_validate(event).root
        assert type(shop_event).__name__ == event["type"]
        assert shop_event.model_dump(mode="json", by_alias=True, exclude_unset=True).keys() == event.keys()
    shipped = next(event for event in published if event["type"] == "OrderShipped")
    assert consumer.receive(json.dumps({"detail": shipped})) == shipped["data"]["order_id"]
    grown = {**shipped, "data": {**shipped["data"], "status": "WRAPPED", "colour": "red"}}
    assert consumer.receive(json.dumps({"detail": grown})), "a new value or a new field breaks the client"
    with pytest.raises(ValidationError):
        consumer.receive(json.dumps({"detail": {**shipped, "data": {}}}))


def test_typescript_compiles_with_every_event_and_rejects_a_wrong_field(folder: Path, published: Events) -> None:
    consumer = code_of("ts")[0]
    (folder / "published.ts").write_text(
        f'import type {{ ShopEvent }} from "./shop-events";\nexport const all: ShopEvent[] = {json.dumps(published)};\n'
    )
    (folder / "consumer.ts").write_text(consumer)
    assert "event.data.order_id" in consumer
    (folder / "misuse.ts").write_text(consumer.replace("event.data.order_id", "event.data.tracking_number"))
    tsc = (ROOT / ".venv/bin/node", TOOLS / "node_modules/.bin/tsc", "--noEmit", "--strict")
    run(folder, *tsc, "published.ts", "consumer.ts")
    said = run(folder, *tsc, "misuse.ts", code=2)
    assert "Property 'tracking_number' does not exist on type 'OrderShippedData'" in said
