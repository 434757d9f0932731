"""Find and repair wrong copies and totals (both derived from other items), and redo the work of lost stream records."""
