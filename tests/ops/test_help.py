"""`python -m ops --help`: the commands by purpose, each with an example that its parser accepts."""

import pkgutil
import shlex

import pytest

from ops import commands
from ops.__main__ import COMMAND_GROUPS, PROGRAM, main, make_parser

EXAMPLES = [example for tools in COMMAND_GROUPS.values() for _, example in tools]


def test_every_command_is_in_one_group() -> None:
    grouped = sorted(tool.__name__.rpartition(".")[2] for tools in COMMAND_GROUPS.values() for tool, _ in tools)
    assert grouped == sorted(module.name for module in pkgutil.iter_modules(commands.__path__))


def test_the_help_shows_the_groups_with_an_example_of_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert [title for title in COMMAND_GROUPS if f"{title}:" in lines] == [*COMMAND_GROUPS]
    for example in EXAMPLES:
        at = lines.index(f"{'':17}$ {PROGRAM} {example}")
        assert lines[at - 1].split()[0] == example.split()[0]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_of_a_command_is_valid(example: str) -> None:
    assert make_parser().parse_args(shlex.split(example)).command == example.split(maxsplit=1)[0]
