"""Commands and queries of the shop. Each module handles one topic, such as orders, payments or stock."""
