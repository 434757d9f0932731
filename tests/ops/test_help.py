"""`python -m ops --help`: the commands by purpose, each with an example that its parser accepts."""

import pkgutil
import shlex

import pytest

from ops import commands
from ops.__main__ import COMMAND_GROUPS, make_parser

EXAMPLES = [example for tools in COMMAND_GROUPS.values() for _, example in tools]


def test_every_command_is_in_one_group() -> None:
    grouped = sorted(tool.__name__.rpartition(".")[2] for tools in COMMAND_GROUPS.values() for tool, _ in tools)
    assert grouped == sorted(module.name for module in pkgutil.iter_modules(commands.__path__))


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_of_a_command_is_valid(example: str) -> None:
    assert make_parser().parse_args(shlex.split(example)).command == example.split(maxsplit=1)[0]
