"""This package stores items in DynamoDB: codecs, keys, access patterns, writes, cursors and stream batches. It knows
nothing of the shop."""
