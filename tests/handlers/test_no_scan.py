"""Tests the guard that all clients of the tests have: a function that reads the whole table fails its test."""

from typing import Any

import pytest

from functions.dynamodb.table import Table
from functions.shop import products

STATEMENT = 'SELECT * FROM "table"'


@pytest.mark.parametrize(
    "ask",
    [
        "client.scan(TableName=name)",
        "list(client.get_paginator('scan').paginate(TableName=name))",
        "client.execute_statement(Statement=statement)",
    ],
)
def test_a_function_that_would_read_the_whole_table_fails_its_test(table: Table, ask: str) -> None:
    known: dict[str, Any] = {"client": table.client, "name": table.name, "statement": STATEMENT}
    code = compile(f"try:\n    {ask}\nexcept Exception:\n    pass", products.__file__, "exec")
    with pytest.raises(pytest.fail.Exception, match=r"functions/shop/products.py:2 reads the whole table"):
        exec(code, known)  # noqa: S102  it is as if that module did it
