"""One AWS in one process: the local DynamoDB engine, its TTL deletions, and the shop with its real Lambda handlers."""
