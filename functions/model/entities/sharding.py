"""Spread items over the shards of a busy index key."""

import hashlib

SHARD_COUNT = 4
"""The number of partitions that each busy index key is spread over. Readers query all of them, so the number may be
raised, but never lowered."""


def shard_of(id: str) -> str:
    """Return the shard of an id as text. The shard depends only on the id and SHARD_COUNT."""
    return str(hash_to_bucket(id, SHARD_COUNT))


def hash_to_bucket(id: str, buckets: int) -> int:
    """Return the number of the bucket (0 to `buckets` - 1) that an id belongs to.

    The bucket is computed from a hash, because the ids themselves are unevenly distributed.
    """
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:4], "big") % buckets
