"""Define the action that a table sweep (a scan of all items) runs on each item, and the counts that it returns."""

from collections.abc import Callable
from dataclasses import dataclass, field

from functions.dynamodb.codec import Image
from functions.model.entities import SweepSegment

ItemAction = Callable[[Image], bool | None]
"""The action that a table sweep runs on each item (in DynamoDB JSON).

It returns True if it has changed the item (in a dry run: would change it), False if the item is correct, and None if
the action does not apply. After WriteConflict, the sweep reads the item and repeats the action. After Unreadable,
InvalidKeyValue or Permanent, it skips and lists the item.
"""


@dataclass
class SweepResult:
    """The counts of a table sweep.

    `right`: the items that were already correct. `lost`: how often a write was lost because of a conflict, and
    repeated. `passed_over`: those that cannot be read or written. `unreadable`: why, by their keys as "PK / SK".
    """

    read: int = 0
    changed: int = 0
    right: int = 0
    lost: int = 0
    passed_over: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def matched(self) -> int:
        """The number of items to which the action applies: changed, already correct, or skipped."""
        return self.changed + self.right + self.passed_over

    def add(self, other: "SweepResult") -> None:
        for name in ("read", "changed", "right", "lost", "passed_over"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.unreadable |= other.unreadable

    def summary(self, *, dry: bool = False) -> str:
        """Return the counts as one line of text."""
        if not self.matched:
            return f"{self.read:,} read"
        parts = [f"{self.matched:,} matched (of {self.read:,} read)"]
        parts += [f"{self.changed:,} {'would be changed' if dry else 'changed'}", f"{self.right:,} already correct"]
        parts += [f"{self.lost:,} retried"] if self.lost else []
        parts += [f"{self.passed_over:,} skipped"] if self.passed_over else []
        return ", ".join(parts)


AfterPage = Callable[[SweepResult, tuple[SweepSegment, ...]], None]
"""A function that a sweep calls after each page, with the counts so far and the position of each segment."""
