"""Fixtures for a shop that runs in its own processes, for tests from outside."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from local.laptop.own_shop import START, LaptopShop
from stacks.stage import EXAMPLE_STAGES

__all__ = ["EXAMPLE", "START", "LaptopShop"]
EXAMPLE = ("-c", f"stages={EXAMPLE_STAGES}")
"""The arguments of a shop that does not use the files in stages/."""


@pytest.fixture(scope="session")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    """A running shop, shared by all test files of a process."""
    with _started(tmp_path_factory) as shop:
        yield shop


@pytest.fixture
def own_laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    """A running shop for one test, which may kill it."""
    with _started(tmp_path_factory) as shop:
        yield shop


@contextmanager
def _started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    # The slow default pace of imports saves the costs of a table on AWS. No test needs this pace.
    shop = LaptopShop(tmp_path_factory.mktemp("laptop") / "state", *EXAMPLE, "-c", "import_lines_per_second=1000")
    try:
        print(f"ready after {shop.start():.1f} s")
        yield shop
    finally:
        shop.kill()
