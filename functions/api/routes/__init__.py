"""The routes of the API. Each module has the routes of one item type. The business rules are in functions/shop."""
