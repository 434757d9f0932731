"""Benchmarks against a conventional implementation and a lower bound: `make bench`."""

from pathlib import Path

COMPARED = Path(__file__).parents[1] / "build" / "bench"
"""Where the packages are that are only compared with."""
