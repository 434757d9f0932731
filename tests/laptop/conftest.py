"""Fixtures for a shop that runs in its own processes, for tests from outside."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from local.laptop.own_shop import START, LaptopShop
from local.laptop.shop_client import PROJECT
from stacks.stage import EXAMPLE_STAGES

__all__ = ["EXAMPLE", "LaptopShop", "run_local"]
EXAMPLE = ("-c", f"stages={EXAMPLE_STAGES}")
"""The arguments of a shop that does not use the files in stages/."""
QUICK_IMPORTS = ("-c", "import_lines_per_second=1000")
"""The slow default pace of imports saves the costs of a table on AWS. No test needs this pace."""


def run_local(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `python -m local` for the shop with its files in `state`."""
    command = [*START, "--state", str(state), *words]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="session")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    """A running shop, shared by all test files of a process."""
    with started_shop(tmp_path_factory, *QUICK_IMPORTS) as shop:
        yield shop


@pytest.fixture
def own_laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopShop]:
    """A running shop for one test, which may kill it."""
    with started_shop(tmp_path_factory, *QUICK_IMPORTS) as shop:
        yield shop


@contextmanager
def started_shop(tmp_path_factory: pytest.TempPathFactory, *arguments: str) -> Iterator[LaptopShop]:
    """Run a local shop with a state of its own. `arguments`: of its start."""
    shop = LaptopShop(tmp_path_factory.mktemp("laptop") / "state", *EXAMPLE, *arguments)
    try:
        print(f"ready after {shop.start():.1f} s")
        yield shop
    finally:
        shop.kill()
