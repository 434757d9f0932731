"""The Lambda behind the HTTP API: one module per noun with its routes. The business rules are in functions/shop."""
