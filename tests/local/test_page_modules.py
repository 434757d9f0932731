"""Tests how the modules of the page import each other."""

import re
from graphlib import TopologicalSorter
from pathlib import Path

from local.laptop.shop_client import PROJECT

STATIC = re.compile(r'^(?:import|export)\b[^;]*?"\./(\w+\.js)"', re.MULTILINE)
LAZY = re.compile(r'\bimport\("\./(\w+\.js)"\)')


def imports(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    return {*STATIC.findall(text), *LAZY.findall(text)}


def test_no_module_of_the_page_imports_itself_through_others() -> None:
    modules = {path.name: imports(path) for path in (PROJECT / "page").glob("*.js")}
    order = list(TopologicalSorter(modules).static_order())  # raises CycleError, which names the modules of a circle
    assert order[-1] == "main.js"
    assert set(order) == modules.keys()
