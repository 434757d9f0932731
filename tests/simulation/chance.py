"""Chance that belongs to a seed: the same question gets the same answer, whatever else was asked before.

So a run from which one fault is taken out goes on as before in every other respect, as far as that fault lets it.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class SeededRandom:
    """Draws by question. A question is a few words and numbers that name it for ever."""

    def __init__(self, seed: int) -> None:
        self._keyed = hashlib.blake2b(digest_size=7, key=f"orderstream {seed}".encode())

    def random(self, *question: object) -> float:
        """From 0 to 1."""
        drawn = self._keyed.copy()
        drawn.update("/".join(map(str, question)).encode())
        return int.from_bytes(drawn.digest(), "big") / (1 << 56)

    def uniform(self, low: float, high: float, *question: object) -> float:
        return low + (high - low) * self.random(*question)

    def randint(self, low: int, high: int, *question: object) -> int:
        """From low to high, both included."""
        return low + int(self.random(*question) * (high - low + 1))

    def happens(self, probability: float, *question: object) -> bool:
        return probability > 0 and self.random(*question) < probability

    def choice(self, choices: Sequence[T], *question: object) -> T:
        return choices[int(self.random(*question) * len(choices))]

    def shuffled(self, things: Sequence[T], *question: object) -> list[T]:
        return sorted(things, key=lambda thing: self.random(*question, thing))
