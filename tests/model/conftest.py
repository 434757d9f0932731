"""Gives the tests of the model the client that records its requests."""

from proof.support.tapped_client import tapped, wire

__all__ = ["tapped", "wire"]
