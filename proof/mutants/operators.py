"""Plant small faults in a module, and show which of them its tests detect. A gate for a change that shrinks tests.

    python -m proof.mutants.operators functions/shop/refunds.py tests/shop/test_refunds.py > before
    python -m proof.mutants.operators functions/shop/refunds.py tests/shop/test_refunds.py | diff before -

A fault is one changed operator in one function: a moved boundary, a reversed comparison or condition, another number, a
dropped call or a dropped part of a condition. It is planted in memory, so a test that only reads the module's text
cannot detect it. The same seed plants the same faults as long as the module is the same.
A fault cannot reach a closure that was made at import.
"""

import argparse
import ast
import contextlib
import copy
import importlib
import inspect
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

OPPOSITES: dict[type[ast.cmpop], tuple[str, type[ast.cmpop]]] = {
    ast.Lt: ("boundary", ast.LtE),
    ast.LtE: ("boundary", ast.Lt),
    ast.Gt: ("boundary", ast.GtE),
    ast.GtE: ("boundary", ast.Gt),
    ast.Eq: ("compare", ast.NotEq),
    ast.NotEq: ("compare", ast.Eq),
    ast.In: ("compare", ast.NotIn),
    ast.NotIn: ("compare", ast.In),
    ast.Is: ("compare", ast.IsNot),
    ast.IsNot: ("compare", ast.Is),
}
DETECTED, SURVIVED, TIMEOUT, BROKEN = "detected", "survived", "timeout", "broken"
TOO_LONG = 5
"""A run that takes this many times as long as the run without a fault is stopped. A person would see it."""


@dataclass(frozen=True)
class Fault:
    """A changed node of a function. `number`: the position of the node in the body. `variant`: which of its changes."""

    function: str
    line: int
    number: int
    variant: int
    kind: str

    @property
    def name(self) -> str:
        return f"{self.function}:{self.line} {self.kind} {self.number}.{self.variant}"


def changes_of(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield each changed copy of a node, with the kind of the change."""
    changed: Any = copy.deepcopy(node)
    match node:
        case ast.Compare(ops=[op]) if type(op) in OPPOSITES:
            kind, opposite = OPPOSITES[type(op)]
            changed.ops = [opposite()]
            yield kind, changed
        case ast.UnaryOp(op=ast.Not()):
            yield "dropped not", changed.operand
        case ast.BoolOp():
            for left_out in range(len(node.values)):
                one = copy.deepcopy(changed)
                del one.values[left_out]
                yield "dropped condition", one.values[0] if len(one.values) == 1 else one
        case ast.If() | ast.IfExp():
            changed.test = ast.UnaryOp(ast.Not(), changed.test)
            yield "reversed condition", changed
        case ast.Constant(value=bool()):
            yield "constant", ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield "constant", ast.Constant(int(str(node.value)) + 1)
        case ast.Expr(value=ast.Call()):
            yield "dropped call", ast.Pass()


def find_faults(source: str) -> list[Fault]:
    """Return all faults that can be planted in the functions and methods of a module."""
    tree = ast.parse(source)
    return [
        Fault(name, getattr(node, "lineno", function.lineno), number, variant, kind)
        for name, function in functions_of(tree)
        for number, node in enumerate(body_of(function))
        for variant, (kind, _) in enumerate(changes_of(node))
    ]


def functions_of(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions of a module and the methods of its classes, with their qualified names."""
    for node in tree.body:
        match node:
            case ast.FunctionDef():
                yield node.name, node
            case ast.ClassDef():
                yield from ((f"{node.name}.{one.name}", one) for one in node.body if isinstance(one, ast.FunctionDef))


def body_of(function: ast.FunctionDef) -> list[ast.AST]:
    return [node for statement in function.body for node in ast.walk(statement)]


def compile_fault(source: str, file: str, fault: Fault) -> CodeType:
    """Return the code of the fault's function with the fault in it."""
    tree = ast.parse(source)
    function = dict(functions_of(tree))[fault.function]
    target = body_of(function)[fault.number]
    _, changed = list(changes_of(target))[fault.variant]

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return changed if node is target else self.generic_visit(node)

    function.body = [Replace().visit(statement) for statement in function.body]
    codes = [compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)]
    for code in codes:  # the loop also visits appended elements
        if code.co_qualname == fault.function:
            return code
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    raise AssertionError(f"the module has no {fault.function}")


def find_function(module: Any, name: str) -> FunctionType:
    """Return a function of a module. A property and a class method stand for their functions."""
    found = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    found = getattr(found, "fget", None) or getattr(found, "func", None) or getattr(found, "__func__", found)
    unwrapped: FunctionType = inspect.unwrap(found)
    return unwrapped


def run_forked(plant: Callable[[], None], tests: list[str], seconds: int) -> str:
    """Run tests in a copy of this process, after `plant` has run there. Return whether they detect the fault."""
    process = os.fork()
    if process == 0:
        signal.alarm(seconds)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.setpgid(0, 0)
        code = 99
        with contextlib.suppress(BaseException):
            plant()
            code = int(pytest.main([*QUIET, "-x", *tests]))
        os._exit(code)
    _, status = os.waitpid(process, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # the local engine of a run that was stopped
    if os.WIFSIGNALED(status):
        return TIMEOUT
    return {0: SURVIVED, 1: DETECTED}.get(os.WEXITSTATUS(status), BROKEN)


QUIET = ["-q", "-n", "0", "--no-header"]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m proof.mutants.operators", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("module", type=Path, help="such as functions/shop/refunds.py")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20, help="how many faults to plant (default: 20)")
    parser.add_argument("tests", nargs="+", help="files of tests")
    asked = parser.parse_args(arguments)
    source, tests = asked.module.read_text(), asked.tests
    faults = find_faults(source)
    chosen = random.Random(asked.seed).sample(  # noqa: S311  no secret: a seed repeats the choice
        faults, min(asked.count, len(faults))
    )
    # This process only imports the tests. If it ran them, copies of it could wait for threads that they do not have.
    if pytest.main([*QUIET, "--collect-only", *tests]):
        return 2
    began = time.monotonic()
    if run_forked(lambda: None, tests, 600) != SURVIVED:
        print("The tests fail without a fault.", file=sys.stderr)
        return 2
    seconds = int((time.monotonic() - began) * TOO_LONG) + 30
    module = importlib.import_module(".".join(asked.module.with_suffix("").parts))

    def planted(fault: Fault) -> Callable[[], None]:
        def plant() -> None:
            find_function(module, fault.function).__code__ = compile_fault(source, str(asked.module), fault)

        return plant

    for fault in chosen:
        print(f"{run_forked(planted(fault), tests, seconds)}: {fault.name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
