"""Find and repair what differs from the model: copies, totals, and what stream records should have done."""
