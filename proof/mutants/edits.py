"""Plants a fault in the product: it edits the source text of one function.

An edit shows the fault as a developer's slip: the old text and the new text. Nothing is written to a file.

Only faults that the simulation and the other tests miss are planted here, and each has a check of its own, which
`detects` marks. A check calls the product through handlers, HTTP requests and commands, and compares stored items,
mails and metrics with literal values. It computes no expected value with the product's code. Each check is an ordinary
test too, which passes without the fault.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any

from local.world.harness import ShopHarness
from proof.simulation.mutations import Plant

Check = Callable[[ShopHarness], None]
"""A test of this folder. It gets an empty shop."""


@dataclass(frozen=True)
class CheckedMutant:
    """A fault that `plant` plants in the product, and the `check` that raises AssertionError while it is planted."""

    name: str
    plant: Plant
    check: Check


CHECKED_MUTANTS: list[CheckedMutant] = []


def detects(name: str, plant: Plant) -> Callable[[Check], Check]:
    """Return a decorator that adds a fault, and the decorated check of the fault, to CHECKED_MUTANTS."""

    def add(check: Check) -> Check:
        CHECKED_MUTANTS.append(CheckedMutant(name, plant, check))
        return check

    return add


def edit_code(target: Any, *edits: tuple[str, str]) -> Plant:
    """Return a patch that replaces texts, each of which occurs once, in the source of a function.

    The function gets new code, so modules that have imported it run the edited code too.
    """

    @contextmanager
    def planted() -> Iterator[None]:
        function = inspect.unwrap(target)
        original = function.__code__
        function.__code__ = _compile_edited(function, edits)
        try:
            yield
        finally:
            function.__code__ = original

    return planted


def _compile_edited(function: Any, edits: tuple[tuple[str, str], ...]) -> CodeType:
    lines, first = inspect.getsourcelines(function)
    text = "".join(lines)
    for old, new in edits:
        assert text.count(old) == 1, f"{function.__qualname__} does not contain this text exactly once: {old}"
        text = text.replace(old, new)
    module, _ = inspect.findsource(function)
    edited = [*module[: first - 1], text, *module[first - 1 + len(lines) :]]
    codes = [compile("".join(edited), function.__code__.co_filename, "exec", dont_inherit=True)]
    for code in codes:  # the loop also visits appended elements
        if (code.co_qualname, code.co_firstlineno) == (function.__code__.co_qualname, first):
            return code
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    raise AssertionError(f"the edited source has no {function.__qualname__}")
