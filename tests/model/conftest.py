"""Shares the client that records its requests with the tests of the model."""

from tests.support.tapped_client import tapped, wire

__all__ = ["tapped", "wire"]
