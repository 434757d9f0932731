"""What this costs, measured side by side with the usual way of building it and with the floor: `make bench`."""
