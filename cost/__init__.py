"""The cost of a stage on AWS: the measured usage of an order (usage), priced for a synthesized template (bill)."""
