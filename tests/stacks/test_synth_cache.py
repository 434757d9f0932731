"""Tests that templates are synthesized once for the same inputs, by the process that comes first."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from functions.shop import placing
from stacks import stage, synth_cache

APP = """
import json, os, sys
from pathlib import Path
with Path(os.environ["RUNS"]).open("a") as runs: runs.write("1")
context = json.loads(os.environ["CDK_CONTEXT_JSON"])
if context.get("sender") == "wrong@shop.example": sys.exit("the reason")
out = Path(os.environ["CDK_OUTDIR"])
(out / "asset.1").mkdir()
(out / "asset.1" / "code.py").write_text("code")
(out / "stack.template.json").write_text(json.dumps({"Resources": context}))
"""
"""Replaces the CDK app: counts its runs, and writes its context as a template."""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty cache, and replace the app. Return the file that counts the app's runs."""
    counted = tmp_path / "runs"
    counted.touch()
    run = subprocess.run

    def run_stand_in(command: list[str], **options: Any) -> Any:
        assert command == [sys.executable, "-m", "stacks.app"]
        return run([sys.executable, "-c", APP], **options)

    monkeypatch.setenv("RUNS", str(counted))
    monkeypatch.setattr(synth_cache, "CACHE", tmp_path / "assemblies")
    monkeypatch.setattr(synth_cache.subprocess, "run", run_stand_in)  # type: ignore[attr-defined]
    return counted


def times(runs: Path) -> int:
    return len(runs.read_text())


def test_the_same_context_is_synthesized_once_and_another_one_again(runs: Path) -> None:
    for _ in range(2):
        assert synth_cache.load_template("stack", {"laptop": "true"}) == {"Resources": {"laptop": "true"}}
    assert times(runs) == 1
    assert synth_cache.load_template("stack", {"laptop": "true", "stage": "prod"})["Resources"]["stage"] == "prod"
    assert times(runs) == 2


def test_a_changed_input_is_synthesized_again(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in synth_cache.LAPTOP_INPUTS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "cdk.json").write_text('{"context": {}}')
    monkeypatch.setattr(synth_cache, "PROJECT", tmp_path)
    for number, name in enumerate(synth_cache.LAPTOP_INPUTS):
        synth_cache.get_assembly({"laptop": "true"})
        assert times(runs) == number + 1
        (tmp_path / name).write_text((tmp_path / name).read_text() + " ")


def test_a_damaged_assembly_is_synthesized_again(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = synth_cache.get_assembly({"laptop": "true"})
    for number, content in enumerate((b'{"Resources', b"\xff", b"[]", b'{"Resources": {"a": 5}}')):
        (folder / "stack.template.json").write_bytes(content)
        assert synth_cache.load_template("stack", {"laptop": "true"}) == {"Resources": {"laptop": "true"}}
        assert times(runs) == number + 2
        assert capsys.readouterr().err == f"{folder} was damaged, synthesizing again\n"


def test_a_failed_synthesis_says_why_and_is_not_cached(runs: Path) -> None:
    for number in range(2):
        with pytest.raises(synth_cache.SynthFailed, match=r"^the reason\n$"):
            synth_cache.get_assembly({"laptop": "true", "sender": "wrong@shop.example"})
        assert times(runs) == number + 1
    assert not [path for path in synth_cache.CACHE.iterdir() if path.is_dir()]


def test_the_assembly_is_copied_with_its_assets_and_a_copy_may_be_overwritten(runs: Path, tmp_path: Path) -> None:
    target = tmp_path / "cdk.out"
    for name in ("One shop", "Two shops"):
        synth_cache.copy_assembly(target, {"laptop": "true", "shop_name": name})
        assert {path.name for path in target.iterdir()} == {"asset.1", "stack.template.json"}
        assert json.loads((target / "stack.template.json").read_text())["Resources"]["shop_name"] == name
        assert (target / "asset.1" / "code.py").read_text() == "code"
    (target / "stack.template.json").write_text("{}")
    assert synth_cache.load_template("stack", {"laptop": "true", "shop_name": "Two shops"}) != {}


def test_a_module_that_the_app_imports_must_be_an_input() -> None:
    laptop = {"laptop": "true"}
    synth_cache.check_inputs([stage, json], laptop)
    synth_cache.check_inputs([placing], {"laptop": "false"})
    with pytest.raises(RuntimeError, match=r"functions/shop/placing.py is missing in the inputs of stacks/synth_cache"):
        synth_cache.check_inputs([stage, placing, ModuleType("built-in")], laptop)


def test_the_context_of_the_command_line_is_read_also_where_it_is_too_long_for_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CDK_CONTEXT_JSON", raising=False)
    assert synth_cache.context_from_environment() == {}
    monkeypatch.setenv("CDK_CONTEXT_JSON", '{"stage": "prod"}')
    assert synth_cache.context_from_environment() == {"stage": "prod"}
    (tmp_path / "overflow.json").write_text('{"sign_in_prefix": "my-shop"}')
    monkeypatch.setenv("CONTEXT_OVERFLOW_LOCATION_ENV", str(tmp_path / "overflow.json"))
    assert synth_cache.context_from_environment() == {"stage": "prod", "sign_in_prefix": "my-shop"}
