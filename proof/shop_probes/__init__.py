"""Facts about the shop's access patterns, and the runner of the local shop: the conformance suite with `--laptop`."""
