"""Draws random values from a seed and a name for each draw, for example ("order 3", "code").

The same seed and name always give the same value, in any order of calls. So if a run is repeated without one of its
injected faults, all random decisions that the fault does not affect stay the same.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class SeededRandom:
    """Draws random values. `question`: a unique name of a few words and numbers, for example ("order 3", "code")."""

    def __init__(self, seed: int) -> None:
        self._keyed = hashlib.blake2b(digest_size=7, key=f"orderstream {seed}".encode())

    def random(self, *question: object) -> float:
        """Return a random number from 0 (included) to 1 (excluded). `question`: a unique name for this draw."""
        drawn = self._keyed.copy()
        drawn.update("/".join(map(str, question)).encode())
        return int.from_bytes(drawn.digest(), "big") / (1 << 56)

    def uniform(self, low: float, high: float, *question: object) -> float:
        return low + (high - low) * self.random(*question)

    def randint(self, low: int, high: int, *question: object) -> int:
        """Return a random integer from low to high, both included. `question`: a unique name for this draw."""
        return low + int(self.random(*question) * (high - low + 1))

    def happens(self, probability: float, *question: object) -> bool:
        return probability > 0 and self.random(*question) < probability

    def choice(self, choices: Sequence[T], *question: object) -> T:
        return choices[int(self.random(*question) * len(choices))]

    def shuffled(self, things: Sequence[T], *question: object) -> list[T]:
        return sorted(things, key=lambda thing: self.random(*question, thing))
