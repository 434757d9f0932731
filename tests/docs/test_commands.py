"""Tests that the commands in docs and in the output of programs can be run as they are shown."""

import argparse
import ast
import importlib.util
import io
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, Never

import pytest

from docs.generate import DOCS
from docs.site import RENDERED_PAGES
from local import __main__ as local_main
from ops import __main__ as ops_main

ROOT = DOCS.parent
FOR_HELPERS = (
    ROOT / "CONTRIBUTING.md",
    ROOT / "AGENTS.md",
    ROOT / "llms.txt",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / ".github").rglob("*.md")),
    *sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")),
    ROOT / ".devcontainer" / "devcontainer.json",
)
PROGRAMS = ("functions", "local", "ops", "proof/account", "proof/scale", "stacks", "tools")
"""The folders of programs that print commands: in health reports, in errors and as next steps."""
PAGES = (*FOR_HELPERS, ROOT / "README.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md")))
CODE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$|`([^`\n]+)`", re.DOTALL | re.MULTILINE)
NO_COMMANDS = ("diff", "mermaid", "json", "python", "ini", "sql")
"""Languages of code blocks that contain no commands."""
MAKE = re.compile(r"(?<![\w-])make ([a-z-]+(?: [a-z-]+)*)(?![\w=.-])")
VARIABLES = re.compile(r"(?<![\w-])make [^\n`#]*?\b([A-Z]+)=")
MODULE = re.compile(r"""python3? -m ([a-z][\w.]*)((?: +(?:"[^"\n]*"|'[^'\n]*'|[^\s`|;)"']+))*)""")
VARIABLE = re.compile(r"\$\w+")
REDIRECTION = re.compile(r"\d*>\s*\S+")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = {name for line in re.findall(r"^([a-z][a-z -]*):", MAKEFILE, re.MULTILINE) for name in line.split()}
OURS = {file.name for file in ROOT.iterdir() if (file / "__init__.py").exists()} | {"pytest"}


def code_in(page: Path) -> str:
    """Return the code of a page of Markdown, with the output of commands, or the whole text of another file."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".json":
        return "\n".join(value for value in json.loads(text).values() if isinstance(value, str))
    if page.suffix == ".yml":
        return "\n".join(re.findall(r"`([^`\n]+)`", text))
    return code_in_markdown(text)


def code_in_markdown(text: str) -> str:
    return "\n".join(block or inline for language, block, inline in CODE.findall(text) if language not in NO_COMMANDS)


def printed_texts(folder: str) -> Iterator[str]:
    """Yield each text of the programs in a folder, except docstrings. A value in an f-string becomes "…" or "".

    A text that is passed to `ShopTarget.ops_command` is yielded with `python -m ops` before it.
    """
    programs = [file for file in (ROOT / folder).rglob("*.py") if not file.name.startswith("test_")]
    for file in sorted(programs):
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
        skipped: set[ast.AST] = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            match node:
                case ast.JoinedStr(values=values):
                    skipped |= {*values}
                    parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in values]
                    yield re.sub(r"(?<=\s)\{\}", "…", "".join(parts)).replace("{}", "")
                case ast.Call(func=ast.Attribute(attr="ops_command"), args=[ast.Constant(value=str(arguments))]):
                    yield f"python -m ops {arguments}"
        texts = (node for node in nodes if isinstance(node, ast.Constant) and node not in skipped)
        yield from (text.value for text in texts if isinstance(text.value, str))


class Parsed(Exception):
    """Raised in place of parsing, after the parser of a program was recorded."""


@cache
def parser_of(program: str) -> argparse.ArgumentParser:
    taken: list[argparse.ArgumentParser] = []

    def take(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> Never:
        taken.append(parser)
        raise Parsed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", take)
        patch.setattr(sys, "argv", [program])
        with pytest.raises(Parsed):
            {"ops": ops_main.main, "local": local_main.main}[program]()
    return taken[0]


def is_valid(program: str, arguments: str) -> bool:
    """Return whether the parser of a program accepts these arguments. Without arguments, return True."""
    words = shlex.split(REDIRECTION.sub("", VARIABLE.sub("name", arguments)))
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            if words and words[0] != "…":
                parser_of(program).parse_args(words)
    except SystemExit as ended:
        return not ended.code  # the exit code is 0 after --help
    return True


def wrong_modules(code: str) -> list[str]:
    """Return each `python -m` of a text that does not exist, or whose program does not accept the arguments."""
    wrong = []
    for module, arguments in MODULE.findall(code.replace("\\\n", " ")):
        if module.partition(".")[0] in OURS and module != "pytest" and not importlib.util.find_spec(module):
            wrong.append(f"python -m {module}")
        elif module in ("ops", "local") and not is_valid(module, arguments):
            wrong.append(f"python -m {module}{arguments}")
    return wrong


def wrong_commands(code: str) -> list[str]:
    """Return each command of a text that cannot be run as the text shows it."""
    targets = [word for found in MAKE.findall(code) for word in found.split()]
    wrong = [f"make {target}" for target in targets if target not in TARGETS]
    wrong += [f"{name}=" for name in VARIABLES.findall(code) if f"$({name}" not in MAKEFILE]
    wrong += wrong_modules(code)
    for path in re.findall(r"\btests/[\w/]+\.py", code):
        wrong += [path] if not (ROOT / path).is_file() else []
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_of_a_page_is_valid(page: Path) -> None:
    assert wrong_commands(code_in(page)) == []


@pytest.mark.parametrize("render", RENDERED_PAGES.values(), ids=RENDERED_PAGES)
def test_every_command_of_a_page_that_git_does_not_have_is_valid(render: Callable[[], str]) -> None:
    assert wrong_commands(code_in_markdown(render())) == []


@pytest.mark.parametrize("folder", PROGRAMS)
def test_every_command_that_a_program_prints_is_valid(folder: str) -> None:
    assert [wrong for text in printed_texts(folder) for wrong in wrong_modules(text)] == []


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("make setup", []),
        ('make test ARGS="-n 0"', []),
        ("make clean nothing", ["make nothing"]),
        ("make test WRONG=1", ["WRONG="]),
        ("python -m ops query A9 --arg product_id=mug --limit 2", []),
        ("python -m ops failures redrive", ["python -m ops failures redrive"]),
        ("python -m local nothing", ["python -m local nothing"]),
        ("python -m tools.nothing", ["python -m tools.nothing"]),
        (".venv/bin/python -m pytest tests/nothing.py", ["tests/nothing.py"]),
    ],
)
def test_a_command_that_does_not_exist_is_found(code: str, wrong: list[str]) -> None:
    assert wrong_commands(code) == wrong


def test_the_example_of_one_test_names_a_test() -> None:
    names = re.findall(r"-k (test_\w+)", code_in(ROOT / "CONTRIBUTING.md"))
    assert names
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")]
    assert all(any(f"def {name}(" in source for source in sources) for name in names)


def test_every_folder_of_the_map_exists() -> None:
    for name in ("AGENTS.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        paths = re.findall(r"`((?:functions|stacks|ops|local|page|tests|docs|tools|stages)(?:/[\w./]*)?)`", text)
        assert [path for path in paths if not (ROOT / path).exists()] == []
    assert len(re.findall(r"^\| `\w", (ROOT / "AGENTS.md").read_text(encoding="utf-8"), re.MULTILINE)) > 8


def test_the_devcontainer_installs_by_make_and_has_no_secret() -> None:
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8")
    assert json.loads(text)["postCreateCommand"] == "make clean setup"
    assert not re.search("secret|token|password|localEnv|mounts", text, re.IGNORECASE)
