"""The deployed templates on LocalEmu, which also enforces IAM and runs in a Python environment of its own."""
