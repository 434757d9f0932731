"""The fixtures of all tests, in tests and in proof."""

pytest_plugins = ["proof.support.fixtures"]
