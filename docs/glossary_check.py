"""Check that nothing has a name that the glossary does not use: `python -m docs.glossary_check`, part of `make check`.

docs/glossary.toml has the words. The scopes of a name:

- identifier: modules, classes, functions, parameters and constants of the Python code, and "CLASS.MEMBER"
- setting: the settings of stacks/stage.py and of stages/*.toml, as "stage NAME"
- metric: the metrics of functions/model/metrics.py, and the alarms
- command: make's targets ("make NAME"), the commands and the options of `python -m ops` and of `python -m local`
- HTTP: the paths of the routes, and the fields of bodies, as "CLASS FIELD"
- heading: the headings of README, of docs and of the runbooks
- message: the constant messages of logs, the texts of raised errors and of yielded sentences, and the hints of settings
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
FOLDERS = ("functions", "stacks", "ops", "local", "proof", "docs")
PAGES = ("README.md", "docs/*.md", "docs/runbooks/*.md")
SCOPES = ("identifier", "setting", "metric", "command", "HTTP", "heading", "message")
HTTP_METHODS = {"get", "post", "put", "patch", "delete"}
LOG_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
HEADING = re.compile(r"#+ +(.+)")
TARGET = re.compile(r"([a-z][a-z-]*):(?!=)")
SETTING = re.compile(r"(?:# *)?(\w+) *=")


class Name(NamedTuple):
    scope: str
    path: str
    line: int
    text: str


class Word(NamedTuple):
    """A word of the glossary. `not_used`: by scope, the names that are not used for it."""

    word: str
    meaning: str
    not_used: Mapping[str, list[str]]


class Glossary(NamedTuple):
    """docs/glossary.toml. `groups`: the words of each heading. `ordinary`: words that are not forbidden alone."""

    groups: Mapping[str, list[Word]]
    folders: Mapping[str, str]
    lambdas: Mapping[str, str]
    ordinary: list[str]

    @property
    def words(self) -> list[Word]:
        return [word for words in self.groups.values() for word in words]


def load(path: Path = PROJECT / "docs/glossary.toml") -> Glossary:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    groups = {
        title: [_word(word, entry) for word, entry in words.items()] for title, words in data.pop("words").items()
    }
    return Glossary(groups=groups, **data)


def _word(word: str, entry: Any) -> Word:
    """Return the word of an entry, which is its meaning alone, or a table with what is not used for it."""
    return Word(word, entry, {}) if isinstance(entry, str) else Word(word, entry["meaning"], entry["not_used"])


def find_misuses(names: Iterator[Name], glossary: Glossary) -> Iterator[str]:
    """Yield a sentence for each name that contains a name which is not used, with its file and line."""
    forbidden = [
        (scope, normalize(scope, text), text, word.word)
        for word in glossary.words
        for scope, texts in word.not_used.items()
        for text in texts
    ]
    for name in names:
        normalized = normalize(name.scope, name.text)
        for scope, sought, text, word in forbidden:
            if scope == name.scope and sought in normalized:
                at = f"{name.path}:{name.line}: the {scope} {name.text!r}"
                yield f"{at} contains {text!r}. The word for it is {word!r} (docs/glossary.toml)"


def normalize(scope: str, text: str) -> str:
    """Return the words of a name between spaces, in lower case and singular. What users type stays as it is."""
    if scope in {"command", "setting"}:
        return f" {text} "
    words = [word.lower() for word in WORD.findall(text.replace("'s", ""))]
    return f" {' '.join(word[:-1] if re.search('[^s]s$', word) else word for word in words)} "


def list_names(root: Path = PROJECT) -> Iterator[Name]:
    """Yield the names and sentences of each scope."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            at = path.relative_to(root).as_posix()
            yield Name("identifier", at, 1, path.stem)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for scope, line, text in _names_of_node(at, node):
                    yield Name(scope, at, line, text)
    yield from _lines(root, ("Makefile",), TARGET, "command", "make ")
    yield from _lines(root, ("stages/*.toml",), SETTING, "setting", "stage ")
    yield from _lines(root, PAGES, HEADING, "heading")


def _lines(
    root: Path, patterns: tuple[str, ...], line: re.Pattern[str], scope: str, prefix: str = ""
) -> Iterator[Name]:
    for path in [path for pattern in patterns for path in sorted(root.glob(pattern))]:
        is_code = False
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            is_code ^= text.startswith("```")
            if not is_code and (found := line.match(text)):
                yield Name(scope, path.relative_to(root).as_posix(), number, prefix + found[1])


def _names_of_node(at: str, node: ast.AST) -> Iterator[tuple[str, int, str]]:
    match node:
        case ast.ClassDef(name=name, body=body):
            yield "identifier", node.lineno, name
            annotated = [it for it in body if isinstance(it, ast.AnnAssign)]
            fields = [(it.lineno, it.target.id) for it in annotated if isinstance(it.target, ast.Name)]
            methods = [(it.lineno, it.name) for it in body if isinstance(it, ast.FunctionDef)]
            yield from (("identifier", line, f"{name}.{member}") for line, member in fields + methods)
            if at.startswith("functions/api/"):
                yield from (("HTTP", line, f"{name} {field}") for line, field in fields)
            if (at, name) == ("stacks/stage.py", "Stage"):
                yield from (("setting", line, f"stage {field}") for line, field in fields)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
            yield "identifier", node.lineno, name
        case ast.Name(id=name, ctx=ast.Store()) if name.isupper():
            yield "identifier", node.lineno, name
        case ast.Call():
            yield from _names_of_call(at, node)
        case ast.Raise(exc=ast.Call() as said) | ast.Yield(value=ast.JoinedStr() | ast.Constant() as said):
            parts = [part for part in ast.walk(said) if isinstance(part, ast.Constant)]
            yield from (("message", part.lineno, part.value) for part in parts if isinstance(part.value, str))


def _names_of_call(at: str, call: ast.Call) -> Iterator[tuple[str, int, str]]:
    for keyword in call.keywords:
        if at == "stacks/alarm_definitions.py" and keyword.arg == "name":
            yield "metric", call.lineno, "".join(_constants(keyword.value))
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    top = at.partition("/")[0]
    for text in _constants(call.args[0]) if call.args else ():
        if called in LOG_LEVELS:
            yield "message", call.lineno, text
        elif called in HTTP_METHODS and at.startswith("functions/api/routes/"):
            yield "HTTP", call.lineno, text
        elif called == "MetricDefinition":
            yield "metric", call.lineno, text
        elif called == "add_parser":
            yield "command", call.args[0].lineno, f"{top} {text}"
    if scope := {"add_argument": "command", "setting": "message"}.get(called):
        yield from ((scope, it.lineno, text) for it in call.args for text in _constants(it))


def _constants(node: ast.expr) -> Iterator[str]:
    """Yield the constant texts of an expression: a text, or the constant parts of an f-string."""
    for part in node.values if isinstance(node, ast.JoinedStr) else [node]:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


if __name__ == "__main__":
    sys.exit("\n".join(find_misuses(list_names(), load())) or 0)
