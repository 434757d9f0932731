"""Tests writes as data: the exact request of each write with its condition, and the error of its rejection."""

import json
import re
from typing import Any

import pytest

from functions.dynamodb.keys import Row
from functions.dynamodb.writes import (
    WriteConflict,
    add_with_minimum,
    check_absent,
    check_exists,
    check_unchanged,
    copy_attributes,
    delete_if_held_by,
    delete_if_older,
    put_if_absent,
    put_if_held_by,
    put_if_newer,
    replace_with,
    update,
)
from tests.support.library_table import BOOK, LOAN, LOST, LostBook, book, loan, moment

KEY = {"PK": {"S": "BOOK#b1"}, "SK": {"S": "BOOK"}}


def resolved(write: Any) -> tuple[Any, str, str]:
    """Return a write's item or key, its condition, and its update, with names and values in place of placeholders."""
    names = write.request.get("ExpressionAttributeNames", {})
    values = write.request.get("ExpressionAttributeValues", {})
    words = names | {token: next(iter(value.values())) for token, value in values.items()}
    condition, expression = (
        re.sub(r"[#:]\w+", lambda token: words[token[0]], write.request.get(name, ""))
        for name in ("ConditionExpression", "UpdateExpression")
    )
    return write.request.get("Item") or write.request["Key"], condition, expression


class Refused(Exception):
    def __init__(self, found: Any) -> None:
        super().__init__("refused")
        self.found = found


def test_put_writes_an_item_that_is_not_there_yet() -> None:
    write = put_if_absent(BOOK, book(), condition_error=Refused)
    image = BOOK.encode(book())
    assert (write.kind, write.row, write.resulting_attributes) == ("Put", BOOK, image)
    assert write.request == {"Item": image, "ConditionExpression": "attribute_not_exists(PK)"}
    refusal = write.condition_error(book())
    assert isinstance(refusal, Refused)
    assert refusal.found == book()


def test_put_if_newer_writes_a_copy_unless_a_newer_one_exists() -> None:
    write = put_if_newer(BOOK, book(version=3))
    assert (write.kind, write.resulting_attributes) == ("Put", BOOK.encode(book(version=3)))
    assert write.request == {
        "Item": BOOK.encode(book(version=3)),
        "ConditionExpression": "attribute_not_exists(PK) OR #version < :version",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":version": {"N": "3"}},
    }


def test_put_if_newer_can_overwrite_the_same_version() -> None:
    write = put_if_newer(BOOK, book(version=3), or_same_version=True)
    assert write.request["ConditionExpression"] == "attribute_not_exists(PK) OR #version <= :version"


def test_put_if_held_by_replaces_only_the_item_of_the_holder() -> None:
    write = put_if_held_by(BOOK, book(title="Persuasion"), "title", "Emma")
    assert resolved(write) == (BOOK.encode(book(title="Persuasion")), "title = Emma", "")


def test_update_sends_only_changed_attributes_their_index_keys_and_the_read_version() -> None:
    write = update(BOOK, book(shelf="A", copies=1), book(shelf=None, copies=2, version=2))
    assert write.kind == "Update"
    assert resolved(write) == (KEY, "version = 1", "SET copies = 2, version = 2 REMOVE shelf, GSI1PK, GSI1SK")
    assert write.resulting_attributes == {"copies": {"N": "2"}, "version": {"N": "2"}}


def test_an_update_also_stores_a_raised_schema_so_that_older_code_does_not_misread_the_item() -> None:
    raised = Row(type(book()), BOOK.main, schema=2)
    write = update(raised, book(), book(copies=2, version=2))
    assert write.resulting_attributes == {"copies": {"N": "2"}, "version": {"N": "2"}, "schema": {"N": "2"}}
    assert '"schema"' in json.dumps(write.request["ExpressionAttributeNames"])


@pytest.mark.parametrize("version", [1, 3, 0])
def test_an_update_that_does_not_raise_the_version_by_one_raises_an_error(version: int) -> None:
    with pytest.raises(ValueError, match=r"after\.version must be before\.version"):
        update(BOOK, book(), book(title="Persuasion", version=version))


def test_replace_with_requires_the_item_as_it_was_read() -> None:
    stub = LostBook(book_id="b1", created_at=moment(0), version=5)
    assert resolved(replace_with(BOOK, book(version=4), LOST, stub)) == (LOST.encode(stub), "version = 4", "")


def test_adjust_adds_at_any_version_if_the_result_is_not_negative() -> None:
    write = add_with_minimum(BOOK, KEY, add={"copies": -2}, at_least={"copies": 2}, condition_error=Refused)
    assert (write.kind, write.resulting_attributes) == ("Update", None)
    condition, expression = "attribute_exists(PK) AND copies >= 2", "SET version = version + 1, copies = copies + -2"
    assert resolved(write) == (KEY, condition, expression)


def test_adjust_stores_a_text_and_the_value_before_the_addition() -> None:
    texts, former = {"title": "Emma"}, {"copies_before": "copies"}
    write = add_with_minimum(
        BOOK, KEY, add={"copies": 2}, at_least={}, condition_error=Refused, texts=texts, former=former
    )
    expression = "SET version = version + 1, copies = copies + 2, title = Emma, copies_before = copies"
    assert resolved(write) == (KEY, "attribute_exists(PK)", expression)


def test_check_unchanged_check_absent_and_check_exists_write_nothing() -> None:
    for check, condition in (
        (check_unchanged(BOOK, book(version=4)), "version = 4"),
        (check_absent(BOOK, KEY, condition_error=Refused), "attribute_not_exists(PK)"),
        (check_exists(BOOK, KEY, condition_error=Refused), "attribute_exists(PK)"),
    ):
        assert (check.kind, resolved(check)) == ("ConditionCheck", (KEY, condition, ""))


def test_delete_if_held_by_deletes_only_the_item_of_the_holder() -> None:
    write = delete_if_held_by(BOOK, KEY, "title", "Emma")
    assert (write.kind, resolved(write)) == ("Delete", (KEY, "title = Emma", ""))


def test_delete_if_older_deletes_a_copy_unless_a_newer_one_exists() -> None:
    write = delete_if_older(BOOK, book(version=3))
    assert (write.kind, resolved(write)) == ("Delete", (KEY, "attribute_not_exists(PK) OR version < 3", ""))


@pytest.mark.parametrize(
    "write",
    [
        put_if_absent(BOOK, book()),
        put_if_newer(BOOK, book()),
        put_if_held_by(BOOK, book(), "title", "Emma"),
        update(BOOK, book(), book(version=2)),
        replace_with(BOOK, book(), LOST, LostBook(book_id="b1", created_at=moment(0), version=2)),
        check_unchanged(BOOK, book()),
        delete_if_held_by(BOOK, KEY, "title", "Emma"),
        delete_if_older(BOOK, book()),
    ],
    ids=["put", "put_newer", "put_over", "change", "turn", "unchanged", "delete_held", "delete_older"],
)
def test_a_failed_condition_without_a_named_error_is_a_write_conflict(write: Any) -> None:
    refusal = write.condition_error(None)
    assert isinstance(refusal, WriteConflict)
    assert refusal.item_type == write.row.type


def test_a_log_entry_without_a_version_is_put() -> None:
    assert put_if_absent(LOAN, loan()).request["Item"] == LOAN.encode(loan())
    assert "version" not in LOAN.encode(loan())


def test_copy_attributes_writes_copied_attributes_without_a_new_version() -> None:
    write = copy_attributes(
        BOOK, KEY, {"author": "Jane Austen", "pen_name": None}, ("author_version", 4), ("shelf", ("A", "B"))
    )
    assert (write.kind, write.row) == ("Update", BOOK)
    assert write.resulting_attributes == {
        "author": {"S": "Jane Austen"},
        "author_version": {"N": "4"},
        "pen_name": None,
    }
    condition = "shelf IN (A, B) AND (attribute_not_exists(author_version) OR author_version < 4)"
    assert resolved(write) == (KEY, condition, "SET author = Jane Austen, author_version = 4 REMOVE pen_name")
    refusal = write.condition_error(None)
    assert isinstance(refusal, WriteConflict)
    assert refusal.item_type == BOOK.type
