"""Generates functions/api/route_table.py, which maps each route to its module. `make record` writes the file."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module

from functions.api import routes

TABLE = "functions/api/route_table.py"
HEAD = '''"""Each route of the API with its module in functions/api/routes. Written by `make record`: do not edit it."""

ROUTES = (
'''


def declared_routes() -> Iterator[tuple[str, str, str]]:
    """Yield the method, the path and the module of each route that a module in functions/api/routes declares."""
    for found in pkgutil.iter_modules(routes.__path__):
        module = import_module(f"{routes.__name__}.{found.name}")
        if router := getattr(module, "router", None):
            for key in router.handlers:
                method, _, path = key.partition(" ")
                yield method, path, found.name


def route_table() -> str:
    """Return the expected text of functions/api/route_table.py."""
    lines = (f'    ("{method}", "{path}", "{module}"),\n' for method, path, module in declared_routes())
    return HEAD + "".join(lines) + ")\n"
