"""Items in DynamoDB: codec, keys, access patterns, the table, writes, cursors, retries and stream batches.

This package knows nothing of the shop.
"""
