"""Access to DynamoDB: codec, keys, access patterns, the table, writes, cursors, retries and stream batches.

This package contains no business rules of the shop.
"""
