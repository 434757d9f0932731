"""Spread the items of a busy index key over several partitions (shards)."""

import hashlib

SHARD_COUNT = 4
"""The number of shards (partitions) over which each busy index key is spread.

Queries read all shards, so the number may be raised. It must not be lowered: queries would no longer find the items in
the shards with higher numbers.
"""


def shard_of(id: str) -> str:
    """Return the number of the shard (partition) of an id as text: "0" to SHARD_COUNT - 1."""
    return str(hash_to_bucket(id, SHARD_COUNT))


def hash_to_bucket(id: str, buckets: int) -> int:
    """Return the number of the bucket (0 to `buckets` - 1) that an id belongs to.

    The bucket is computed from a hash, because the ids themselves are unevenly distributed.
    """
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:4], "big") % buckets
