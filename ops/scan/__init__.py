"""Scan a whole table: page by page, limited in capacity, with progress and a checkpoint to resume from."""
