"""Access to DynamoDB, without business rules: codec, keys, access patterns, table, writes, cursors and retries."""
