"""How items are stored: codecs, keys, access patterns, writes, cursors and stream batches. Independent of the shop's
domain."""
