"""Tests the command line of the operator tools: colours only on a terminal, and suggestions for misspelled words."""

import io

import pytest

from ops.__main__ import main
from ops.terminal_text import colored, suggest


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "no_color", "is_colored"), [("xterm", "", True), ("xterm", "1", False), ("dumb", "", False)]
)
def test_colours_need_a_terminal_and_no_color_switches_them_off(
    terminal: str, no_color: str, *, is_colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert ("\x1b" in colored("text", "red", Terminal())) is is_colored
    assert colored("text", "red", io.StringIO()) == "text"


@pytest.mark.parametrize(
    ("word", "hint"), [("helth", " Did you mean health?"), ("HEALTH", " Did you mean health?"), ("xyz", "")]
)
def test_the_most_similar_word_is_suggested(word: str, hint: str) -> None:
    assert suggest(word, ["order", "health", "drift"]) == hint


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("helth", "Did you mean health?"),
        ("failures redrve", "Did you mean redrive?"),
        ("drift --only acounts", "Did you mean accounts?"),
        ("nonsense", "Choose from: order, request"),
    ],
)
def test_a_misspelled_command_or_value_gets_a_hint(command: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 2
    assert hint in capsys.readouterr().err
