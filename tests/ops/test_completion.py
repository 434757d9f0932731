"""Tests `python -m ops completion`: the shell completes commands, options, values and access patterns."""

import shutil
import subprocess

import pytest

from ops.__main__ import make_parser
from ops.commands.completion import SHELLS, render_script

COMPLETE = """
COMP_WORDS=(ops "$@")
COMP_CWORD=$#
_ops_complete
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["hea"], ["health"]),
        (["failures", "re"], ["redrive"]),
        (["failures", "list", "--redr"], ["--redriven"]),
        (["drift", "--only", ""], ["accounts"]),
        (["drift", "--stack", "orderstream-dev", "--rep"], ["--repair"]),
        (["query", "A27b"], ["A27b"]),
        (["completion", "z"], ["zsh"]),
        (["order", "nothing"], [""]),
    ],
)
def test_bash_completes_the_last_word(typed: list[str], words: list[str]) -> None:
    script = render_script(make_parser(), "bash") + COMPLETE
    done = subprocess.run(["bash", "-c", script, "bash", *typed], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == words


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_has_all_commands_and_no_syntax_error(shell: str) -> None:
    script = render_script(make_parser(), shell)
    assert all(name in script for name in ("health", "'failures list'", "'drift --only'", "accounts", "A27b"))
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_the_function_ops_runs_a_tool_from_any_folder(tmp_path: object) -> None:
    script = render_script(make_parser(), "bash") + "\nops model --help"
    done = subprocess.run(["bash", "-c", script], cwd=str(tmp_path), capture_output=True, text=True, check=True)
    assert "ops model" in done.stdout
