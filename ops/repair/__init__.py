"""Find and repair wrong copies and totals, and repeat the work of stream records that were lost."""
