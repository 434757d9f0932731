"""The server of the page: its routes, items, patterns and traces."""
