"""Finds the file and the line of a declaration, for the sentences that report a forgotten declaration."""

import ast
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

PROJECT = Path(__file__).parents[2]
K = TypeVar("K")
V = TypeVar("V")


def place_of(declared: Any) -> str:
    """Return the place of a class or a function, such as "functions/api/routes/orders.py:120"."""
    unwrapped = inspect.unwrap(declared)
    file, (_, line) = Path(inspect.getfile(unwrapped)), inspect.getsourcelines(unwrapped)
    return f"{file.relative_to(PROJECT).as_posix()}:{line}"


def place_in(path: str, name: str) -> str:
    """Return the place of a constant or a field of a class, such as "proof/support/samples.py:85" for SAMPLES."""
    for node in ast.walk(ast.parse((PROJECT / path).read_text(encoding="utf-8"))):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return f"{path}:{getattr(node, 'lineno', 1)}"
    return path


class KeptByHand(dict[K, V]):
    """Expected values, written by hand. A missing key fails, and names `what` it is and where to add it."""

    def __init__(self, entries: Mapping[K, V], *, what: str, path: str, name: str) -> None:
        super().__init__(entries)
        self.what, self.path, self.name = what, path, name

    def sentence(self, key: Any) -> str:
        """Return the missing entry and the place to add it."""
        shown = getattr(key, "type", None) or getattr(key, "id", None) or key
        return f"{place_in(self.path, self.name)}: {shown} has no {self.what}: add it to {self.name}"

    def __missing__(self, key: K) -> NoReturn:
        pytest.fail(self.sentence(key), pytrace=False)
