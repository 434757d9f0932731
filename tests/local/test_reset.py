"""Tests `make reset`: it says what it deletes, and asks only on a terminal."""

import io
import sys
from pathlib import Path

import pytest

from local.__main__ import main


class Answer(io.StringIO):
    """An input with an answer, on a terminal or not."""

    def __init__(self, text: str, *, is_terminal: bool) -> None:
        super().__init__(text)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("answer", "is_terminal", "options", "is_deleted"),
    [
        ("yes\n", True, [], True),
        ("no\n", True, [], False),
        ("", True, [], False),
        ("", True, ["--yes"], True),
        ("", False, [], True),
    ],
)
def test_a_reset_asks_only_on_a_terminal_and_without_yes(
    answer: str,
    *,
    is_terminal: bool,
    options: list[str],
    is_deleted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = tmp_path / "shop"
    (state / "aws").mkdir(parents=True)
    (state / "journal.sqlite").write_bytes(b"x")
    monkeypatch.setattr(sys, "argv", ["local", "--state", str(state), "reset", *options])
    monkeypatch.setattr(sys, "stdin", Answer(answer, is_terminal=is_terminal))
    if is_deleted:
        main()
    else:
        with pytest.raises(SystemExit, match="Nothing was deleted"):
            main()
    assert state.exists() is not is_deleted
    assert f"deletes {state}" in capsys.readouterr().out
