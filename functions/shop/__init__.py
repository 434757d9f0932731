"""What may be done: one module per noun, its commands and queries."""
