"""Skip modules that third-party packages import but no Lambda uses. Importing them would take a sixth of a cold start.

`install` runs before these packages are imported. A skipped module is empty: each name in it is the class `Unused`.
tests/stacks/test_bundle.py imports each Lambda from a bundle, and calls each service.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any, Self

RESOLVERS, EVENTS = "aws_lambda_powertools.event_handler", "aws_lambda_powertools.utilities.data_classes"
EMPTY_PACKAGES = frozenset({"aws_lambda_powertools", "botocore.docs", "urllib3.http2"})
"""Packages whose `__init__` is skipped, because it only imports unused modules. Their other modules can be imported."""
SKIPPED_MODULES = frozenset(
    {
        # the docstrings that botocore gives the methods of its clients
        "botocore.docs.docstring",
        # Powertools' resolvers for other services; the API uses only the resolver for HTTP APIs
        f"{RESOLVERS}.appsync",
        f"{RESOLVERS}.bedrock_agent",
        f"{RESOLVERS}.bedrock_agent_function",
        f"{RESOLVERS}.events_appsync.appsync_events",
        f"{RESOLVERS}.http_resolver",
        f"{RESOLVERS}.lambda_function_url",
        f"{RESOLVERS}.vpc_lattice",
    }
)
LAZY_MODULES = frozenset({"dateutil.parser", "jmespath"})
"""Modules that botocore needs only for some responses. Their code runs when one of their names is first used."""
USED_EVENTS = frozenset(f"{EVENTS}.{name}" for name in ("api_gateway_proxy_event", "common", "shared_functions"))
"""The event modules that the API uses. Powertools imports a module for the events of each AWS service."""


def is_skipped(name: str) -> bool:
    """Return whether the module with this name is imported as an empty module."""
    return name in SKIPPED_MODULES or (name.rpartition(".")[0] == EVENTS and name not in USED_EVENTS)


class Unused(str):
    """Stands for each class of a skipped module. Instances are empty texts: botocore uses some texts as docstrings."""

    __slots__ = ()

    def __new__(cls, *_arguments: Any, **_named: Any) -> Self:
        return super().__new__(cls)


class SkippedImports:
    """A finder and loader of `sys.meta_path` for the skipped modules: it does not run their code."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to import a skipped module; None for any other module, which Python then finds itself."""
        if name not in EMPTY_PACKAGES and name not in LAZY_MODULES and not is_skipped(name):
            return None
        found = PathFinder.find_spec(name, path)
        if found is not None and found.loader is not None:
            lazy: Any = LazyLoader(found.loader) if name in LAZY_MODULES else SkippedImports
            found.loader = lazy
        return found

    @staticmethod
    def create_module(_spec: ModuleSpec) -> None:
        """Let Python create the module."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Do not run the code of the module. In a skipped module, every name is `Unused`."""
        if is_skipped(module.__name__):
            module.__getattr__ = lambda _name: Unused  # type: ignore[method-assign]


def install() -> None:
    """Skip the modules from now on. Modules that are imported already do not change."""
    sys.meta_path.insert(0, SkippedImports)
