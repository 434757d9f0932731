"""Benchmarks: measure money, units, requests and times, and compare them with lower bounds: `make bench`."""

from pathlib import Path

BENCH_PACKAGES = Path(__file__).parents[2] / "build" / "bench"
"""The folder with the packages of proof/requirements.txt. Only the benchmarks import them."""
