"""The deployed templates on a second emulator, LocalEmu, which also enforces IAM: `make second-engine`.

LocalEmu runs in a Python environment of its own. Everything else here runs in the project's environment.
"""
