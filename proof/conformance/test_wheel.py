"""The package works in an environment without the shop."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLE = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0]


def test_the_example_of_the_page_runs() -> None:
    exec(EXAMPLE.replace("from event_source", "from local.event_source"), {})  # noqa: S102  the code of our own page


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel with its locked dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    uv = (sys.executable, "-m", "uv")
    run(HERE, sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder)
    run(folder, *uv, "venv", "--quiet", "--python", sys.executable, "env")
    (wheel,) = folder.glob("*.whl")
    run(folder, *uv, "pip", "install", "--quiet", "--python", "env", "--constraint", ROOT / "requirements.txt", wheel)
    return folder / "env" / "bin"


def run(folder: Path, *command: str | Path, code: int = 0) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHONPATH"))}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_plays_facts_without_the_shop(installed: Path, ministack: str, tmp_path: Path) -> None:
    program = installed / "aws-conformance"
    shop = ("functions", "local", "ops", "proof", "stacks", "docs", "tests")
    run(tmp_path, installed / "python", "-c", f"import importlib.util as u; assert not any(map(u.find_spec, {shop}))")
    assert "agreement: 128 of 128 (100 %)" in run(tmp_path, program, "--model")
    facts = ("one_record_is_a_batch", "a_put_without_change_has_no_record", "if_none_match_creates_an_object_once")
    options = ("--endpoint", ministack, "--as", "ministack=1", "--json", "run.json")
    assert "agreement: 3 of 3 (100 %)" in run(tmp_path, program, *options, *facts)
    document = json.loads((tmp_path / "run.json").read_text())
    assert (document["system"], document["versions"]) == ("ministack", {"ministack": "1"})
    run(tmp_path, installed / "python", "-c", EXAMPLE)
