"""Check the declarations of the model, and name file and line of each mistake.

`cdk synth`, `make check`, the tests and the local start run the checks, so no Lambda repeats them. The model is
imported only for the checks, so that a failed import can be reported, too.
"""

import ast
import importlib
import traceback
from pathlib import Path

PROJECT = Path(__file__).parents[1]
MODEL = PROJECT / "functions" / "model"


class InvalidDeclarations(TypeError):
    """Some declarations of the model are wrong. The text has one line for each error, with the place to change."""


def check_declarations() -> None:
    """Raise InvalidDeclarations if a declaration of the model is wrong."""
    try:
        checks = importlib.import_module("tools.declaration_checks")
    except Exception as error:
        raise InvalidDeclarations(describe_failed_import(error)) from error
    if wrong := [*checks.find_wrong_declarations()]:
        raise InvalidDeclarations("\n".join(wrong))


def describe_failed_import(error: Exception) -> str:
    """Return one line about an error that a module raised when it was imported: file, line and error."""
    if isinstance(error, SyntaxError):
        return f"{shown_path(error.filename or '')}:{error.lineno}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_ours(frame.filename)]
    at = f"{shown_path(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""
    what = f"{error} is declared nowhere" if isinstance(error, KeyError) else str(error) or type(error).__name__
    if isinstance(error, AttributeError) and getattr(error.obj, "__name__", "") == "functions.model.entities":
        what = f"no module of functions/model/entities declares {error.name}: write it there"
    return f"{at}{what}"


def _is_ours(file: str) -> bool:
    path = Path(file)
    return path != Path(__file__) and path.is_relative_to(PROJECT) and ".venv" not in path.parts


def shown_path(file: str | Path) -> str:
    """Return a path as error messages show it: relative to the project."""
    return Path(file).relative_to(PROJECT).as_posix() if Path(file).is_relative_to(PROJECT) else str(file)


def declared_at(module: str, name: str) -> str:
    """Return the file and the line of a declaration, such as "functions/model/table.py:27".

    `module`: the module of functions/model. `name`: the name, the id or the class with which the declaration begins,
    such as "Order" in `Row(e.Order, ...)`, or "A14". Returns only the file if the module has no such declaration.
    """
    file = MODEL / f"{module}.py"
    calls = (node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call))
    lines = [call.lineno for call in calls if name in _first_words(call)]
    return shown_path(file) + (f":{min(lines)}" if lines else "")


def _first_words(call: ast.Call) -> list[str]:
    """Return the names of a call's first argument and of its `id`: "Order" for `e.Order`, "A14" for `id="A14"`."""
    words = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "id")]
    return [ast.unparse(word).rpartition(".")[2].strip("'") for word in words]


if __name__ == "__main__":
    try:
        check_declarations()
    except InvalidDeclarations as wrong:
        raise SystemExit(str(wrong)) from None
