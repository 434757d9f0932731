"""The model's tests share the tapped client of the store's."""

from tests.dynamodb.fixtures import tapped, wire

__all__ = ["tapped", "wire"]
