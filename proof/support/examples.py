"""Chooses how much work a test does: little in `make test`, much in the slow tests of `make all-examples`."""

from hypothesis import settings


def many(much: int, little: int) -> int:
    """Return `much` if the tests run with the Hypothesis profile "thorough" (slow tests), otherwise `little`."""
    return much if settings.get_current_profile_name() == "thorough" else little
