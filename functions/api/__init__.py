"""The HTTP API. `routes`: the routes by item type. `http`: checks and responses. `app`: the router with all routes."""
