"""Scan the whole table: page by page, at a limited rate, with progress reports and a checkpoint to resume from."""
