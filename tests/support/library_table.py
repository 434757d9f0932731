"""A table of books and loans for the tests of `functions.dynamodb`.

That package must not depend on the shop's item types (`functions.model`), so its tests use other types.
"""

from datetime import timedelta
from typing import Any

from functions.dynamodb.codec import entity
from functions.dynamodb.keys import Instant, Row, to_instant
from functions.dynamodb.patterns import Get, Query
from functions.dynamodb.table import Table
from functions.dynamodb.writes import ConditionErrorFactory, Write, add_with_minimum
from proof.support.tapped_client import START

SHARDS = 3


@entity
class Book:
    book_id: str
    title: str
    created_at: Instant
    copies: int = 1
    shelf: str | None = None
    version: int = 1


@entity
class LostBook:
    book_id: str
    created_at: Instant
    version: int


@entity
class Loan:
    book_id: str
    loan_id: str
    at: Instant
    ttl: int
    desk: str = "d1"
    shard: str = "0"
    note: str = ""


@entity
class Title:
    """The result of `TITLE_OF`, a read that returns only these two attributes of a book instead of the whole item."""

    book_id: str
    title: str


BOOK = Row(Book, "BOOK#{book_id} / BOOK", gsi1="SHELF#{shelf} / {created_at}#{book_id}")
LOST = Row(LostBook, "BOOK#{book_id} / BOOK", replaces=BOOK)
LOAN = Row(
    Loan,
    "BOOK#{book_id} / LOAN#{at}#{loan_id}",
    gsi1="LOAN#{loan_id} / LOAN",
    gsi3="DESK#{desk}#{shard} / {at}#{loan_id}",
    kind="log",
    unique_fields=("loan_id",),
)
ROWS: dict[str, Row[Any]] = {row.type: row for row in (BOOK, LOST, LOAN)}

BY_ID = Get[Book | LostBook](id="1", description="book by id", rows=(BOOK, LOST))
TITLE_OF = Get[Title](id="2", description="title of a book", rows=(BOOK,), view=Title)
ON_SHELF = Query[Book](id="3", description="books on a shelf, newest first", rows=(BOOK,), index="gsi1")
LOANS = Query[Loan](id="6", description="loans of a book, newest first", rows=(LOAN,), consistent=True)
LOANS_OLDEST = Query[Loan](id="7", description="loans of a book", rows=(LOAN,), newest_first=False)
AT_DESK = Query[Loan](id="4", description="loans at a desk, newest first", rows=(LOAN,), index="gsi3", shards=SHARDS)
AT_DESK_OLDEST = Query[Loan](
    id="5", description="loans at a desk", rows=(LOAN,), index="gsi3", shards=SHARDS, newest_first=False
)
LOAN_BY_ID = Query[Loan](id="8", description="loan by id", rows=(LOAN,), index="gsi1")
WHOLE = Query[Any](
    id="9", description="a book and its loans", rows=(BOOK, LOST, LOAN), whole_partition=True, newest_first=False
)
LOANS_AT_DESK_OF_BOOK = Query[Loan](id="12", description="loans of a book at a desk", rows=(LOAN,), filter_by="desk")
LOAN_OF = Get[Loan](id="11", description="a loan of a book", rows=(LOAN,))


def moment(seconds: float) -> Instant:
    """Return the time that is `seconds` seconds after START, the first time of the tests' clock."""
    return to_instant(START + timedelta(seconds=seconds))


def book(book_id: str = "b1", **changed: Any) -> Book:
    values: dict[str, Any] = {"title": "Emma", "created_at": moment(0)}
    return Book(book_id=book_id, **values | changed)


def loan(loan_id: str = "l1", **changed: Any) -> Loan:
    values: dict[str, Any] = {"book_id": "b1", "at": moment(0), "ttl": int(START.timestamp()) + 3600}
    return Loan(loan_id=loan_id, **values | changed)


# writes and their condition errors ------------------------------------------------------------------------------------
KEY = BOOK.key(book_id="b1")


class RefusedWrite(Exception):
    """Raised when the condition of a test's write failed.

    `name`: the name of the write. `found`: the item in the table, or None if there is no item.
    """

    def __init__(self, name: str, found: Any) -> None:
        super().__init__(name)
        self.name, self.found = name, found


def refusal_named(name: str) -> ConditionErrorFactory[Any]:
    return lambda found: RefusedWrite(name, found)


def take_copies(copies: int, name: str = "take") -> Write[Book]:
    return add_with_minimum(
        BOOK, KEY, add={"copies": -copies}, at_least={"copies": copies}, condition_error=refusal_named(name)
    )


def get_book(library: Table) -> Book | LostBook | None:
    return library.get(BY_ID, book_id="b1")
