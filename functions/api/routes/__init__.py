"""The routes of the API. Each module has the routes of one noun. The business rules are in functions/shop."""
