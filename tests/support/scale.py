"""How much a test does: little in `make test`, much in the slow lane `make thorough`."""

from hypothesis import settings


def many(much: int, little: int) -> int:
    """`much` under the hypothesis profile "thorough", else `little`."""
    return much if settings.get_current_profile_name() == "thorough" else little
