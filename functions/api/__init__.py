"""The HTTP API. `routes`: routes by kind of item. `http`: checks and responses. `app`: the router with all routes."""
