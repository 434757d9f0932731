"""Shares the tapped client of the store's tests with the model's tests."""

from tests.support.tapped_client import tapped, wire

__all__ = ["tapped", "wire"]
