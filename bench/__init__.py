"""What this costs, measured side by side with the usual way of building it and with the floor: `make bench`."""

from pathlib import Path

COMPARED = Path(__file__).parents[1] / "build" / "bench"
"""Where the packages are that are only compared with."""
