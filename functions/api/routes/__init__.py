"""The routes of the API. Each module has the routes of one kind of item. The business rules are in functions/shop."""
