"""Commands and queries of the shop. Each module handles one kind of item, such as orders, payments or stock."""
