"""Read the table by an access pattern or by any key, as an operator asks, and show the requests, items and capacity."""
