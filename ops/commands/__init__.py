"""The commands of `python -m ops`, one module each."""
