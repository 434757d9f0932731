"""How items are kept: images, keys, patterns, writes, cursors and stream batches. Knows no noun of the shop."""
