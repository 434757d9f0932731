"""Type each command of the tutorial and of the how-tos into a running shop, and compare each output with its page."""

import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, groupby
from subprocess import PIPE, STDOUT, Popen
from textwrap import dedent
from threading import Timer

import pytest

from local.laptop.own_shop import LaptopShop
from local.laptop.shop_client import PROJECT

PAGE = (PROJECT / "docs" / "tutorial.md").read_text(encoding="utf-8")
HOW_TOS = {
    page.stem: text
    for page in sorted((PROJECT / "docs" / "how-to").glob("*.md"))
    if "```console" in (text := page.read_text(encoding="utf-8"))
}
ALWAYS_THE_SAME = {
    "customer": "[0-9a-f-]{36}",
    "order": "[a-z2-7]{26}",
    "table": r"orderstream-dev-Table[\w-]+",
}
"""The pattern of each placeholder that has the same value everywhere on the page, by name."""
ANY = {
    "hash": "[0-9a-f]{64}",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
    "epoch": r"\d{10}",
    "n": r"\d[\d,]*",
}
"""The pattern of each placeholder whose value may differ at each place."""
TUTORIAL_STATE = "ORDERSTREAM_STATE=build/tutorial"
"""Selects the folder of the state on the page. The tests select the folder of their shop."""
END = "---end-of-the-output---"
PATIENCE_SECONDS = 300
"""The commands of a block are killed after this time."""


@dataclass(frozen=True)
class Command:
    """A command of the page with the output that the page shows. `step`: the heading above it. `block`: its number."""

    step: str
    block: int
    text: str
    output: str


def read_commands(page: str) -> Iterator[Command]:
    numbers = count()
    for section in re.split(r"^##? (?:\d\. )?", page, flags=re.MULTILINE)[1:]:
        for indented in re.findall(r"^ *```console\n(.*?)^ *```", section, re.DOTALL | re.MULTILINE):
            block, number = dedent(indented), next(numbers)
            for typed in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, output = re.fullmatch(r"(.*\n(?:> .*\n)*)((?:.*\n)*)", typed).groups()  # type: ignore[union-attr]
                yield Command(section.partition("\n")[0], number, command.replace("\n> ", "\n").rstrip(), output)


COMMANDS = [*read_commands(PAGE)]


class Terminal:
    """An interactive shell on a terminal, in the project's folder, whose commands use this shop."""

    def __init__(self, laptop: LaptopShop) -> None:
        variables = {"TERM": "dumb", "COLUMNS": "200"}
        no_prompt = {"PS1": "", "PS2": "", "VIRTUAL_ENV_DISABLE_PROMPT": "1"}
        self._shell = Popen(
            [sys.executable, "-c", "import pty; pty.spawn(['bash', '--norc', '--noediting', '-i'])"],
            cwd=PROJECT, stdin=PIPE, stdout=PIPE, stderr=STDOUT, text=True, encoding="utf-8",
            env={**os.environ, **variables, **no_prompt},
        )  # fmt: skip
        self._state = f"ORDERSTREAM_STATE={shlex.quote(str(laptop.state))}"
        self._ports = {"4566": laptop.ports["--port"], "4567": laptop.ports["--provider-port"]}
        self.paste("stty -echo")

    def paste(self, commands: str) -> str:
        """Paste the commands of a block at once, as the site's copy button copies them. Return what they print."""
        for port, own in self._ports.items():
            commands = commands.replace(f":{port}", f":{own}")
        commands = commands.replace(TUTORIAL_STATE, self._state)
        assert self._shell.stdin
        assert self._shell.stdout
        self._shell.stdin.write(f"{commands}\necho {END}\n")
        self._shell.stdin.flush()
        watch = Timer(PATIENCE_SECONDS, self._shell.kill)
        watch.start()
        lines: list[str] = []
        try:
            for line in self._shell.stdout:
                if line == f"{END}\n":
                    return "".join(lines).replace("\n\x1b[K", "")  # a progress line that was erased again
                lines.append(line)
        finally:
            watch.cancel()
        raise AssertionError(f"the shell ended at: {commands}\n{''.join(lines)}")

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self._shell.communicate("exit\n")


def matches(shown: str, printed: str, known: dict[str, str]) -> bool:
    """Compare an output with the page, apart from spaces. `known`: the values of placeholders so far."""

    def pattern(name: str) -> str:
        return re.escape(known[name]) if name in known else f"(?P<{name}>{ALWAYS_THE_SAME[name]})"

    seen: set[str] = set()
    parts = []
    for part in re.split(r"(<\w+>)", squeeze(shown)):
        name = part[1:-1] if re.fullmatch(r"<\w+>", part) else ""
        if name in ANY:
            parts.append(f"(?:{ANY[name]})")
        elif name in ALWAYS_THE_SAME:
            parts.append(f"(?P={name})" if name in seen and name not in known else pattern(name))
            seen.add(name)
        else:
            parts.append(re.escape(part))
    found = re.fullmatch("".join(parts), squeeze(printed))
    if found:
        known |= found.groupdict()
    return bool(found)


def squeeze(text: str) -> str:
    """Replace each run of spaces with one space, because columns are as wide as their values."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def test_the_tutorial_has_eight_steps_and_each_shows_an_output() -> None:
    steps = re.findall(r"^## \d\. (.*)", PAGE, re.MULTILINE)
    shown = [command.step for command in COMMANDS if command.output]
    assert list(dict.fromkeys(shown)) == ["Before you begin", *steps]
    assert len(COMMANDS) > 25
    assert len(shown) > 20
    assert PAGE.count("\nOn the page: ") == len(steps) == 8
    expected = {"restore-one-order", "set-shipping", "set-taxes", "storefront-checkout"}
    assert set(HOW_TOS) == expected


def test_the_tutorial_declares_each_placeholder() -> None:
    assert set(re.findall(r"^\| `<(\w+)>` \|", PAGE, re.MULTILINE)) == {*ALWAYS_THE_SAME, *ANY}
    used = {name for command in COMMANDS for name in re.findall(r"<(\w+)>", command.output)}
    assert used == {*ALWAYS_THE_SAME, *ANY}


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("2 read, 2 shown", "2 read, 2 shown\n", True),
        ("2 read, 2 shown", "", False),
        ("2 read, 2 shown", "2 read, 2 shown\nTraceback", False),
        ("", "Traceback", False),
        ("id   status\n<order> PAID", f"id {'':22} status\n{'a' * 26} PAID", True),
        ("<order> <order>", f"{'a' * 26} {'b' * 26}", False),
        ("<order>", "1", False),
    ],
)
def test_an_output_matches_only_what_the_page_shows(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed, {}) is same


def test_a_placeholder_keeps_its_value() -> None:
    known: dict[str, str] = {}
    assert matches("<order>", "a" * 26, known)
    assert known == {"order": "a" * 26}
    assert not matches("<order>", "b" * 26, known)


@pytest.mark.laptop
def test_each_command_of_the_tutorial_prints_what_the_page_shows(own_laptop: LaptopShop) -> None:
    assert set(paste_commands(own_laptop, COMMANDS)) == set(ALWAYS_THE_SAME)


@pytest.mark.laptop
def test_each_command_of_the_how_tos_prints_what_the_page_shows(own_laptop: LaptopShop) -> None:
    prepare = [command for command in COMMANDS if command.step == "Before you begin"][:-1]
    assert len(prepare) == 4, "activate, the state, the addresses, and `as`"
    for page in sorted(HOW_TOS.values(), key=lambda page: "shipping-methods" in page):  # later orders cost more
        paste_commands(own_laptop, [*prepare, *read_commands(page)])


def paste_commands(laptop: LaptopShop, commands: Sequence[Command]) -> dict[str, str]:
    """Paste each block into a new shell, and compare its output. Return the values of the placeholders."""
    terminal = Terminal(laptop)
    known: dict[str, str] = {}
    try:
        for _, group in groupby(commands, lambda command: command.block):
            block = [*group]
            pasted = "\n".join(command.text for command in block)
            printed = terminal.paste(pasted)
            shown = "".join(command.output for command in block)
            assert matches(shown, printed, known), f"{block[0].step}: $ {pasted}\n{printed}"
    finally:
        terminal.close()
    return known
