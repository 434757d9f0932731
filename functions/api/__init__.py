"""The HTTP API. `routes` has one module per noun; `http` checks requests and builds answers; `app` joins them."""
