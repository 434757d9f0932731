"""Facts about the units that reads, writes, transactions and indexes consume, and about limits of requests.

The table has the keys PK and SK and two indexes: `all` with the keys GPK and GSK and all attributes, and `keys` with
the same keys and no other attributes.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Request, ServiceProbe
from proof.conformance.probes.stream_records import KEY, ONE, TWO, put

_INDEXED = {"GPK": {"S": "g"}, "GSK": {"S": "1"}}
_ABSENT = {"PK": {"S": "a"}, "SK": {"S": "none"}}


def _sort_key(name: str) -> dict[str, Any]:
    return {"PK": {"S": "a"}, "SK": {"S": name}}


def _text(size: int) -> dict[str, str]:
    """Return a text attribute. The keys and the name `text` add 10 bytes to the item."""
    return {"S": f"={size - 10}*x"}


def measured(operation: str, units: Mapping[str, Any] | float, **parameters: Any) -> Request:
    """Return a request that must consume these units: their sum, or the units by path below ConsumedCapacity."""
    expected = units if isinstance(units, Mapping) else {"CapacityUnits": units}
    in_list = operation.startswith(("transact", "batch"))
    returns = {f"ConsumedCapacity{'[0]' if in_list else ''}.{path}": value for path, value in expected.items()}
    return Request.of("dynamodb", operation, ReturnConsumedCapacity="INDEXES", returns=returns, **parameters)


def _put(units: Mapping[str, Any] | float, **attributes: Any) -> Request:
    return measured("put_item", units, TableName="$table", Item={**KEY, **attributes})


def _get(units: float, *, consistent: bool, key: Mapping[str, Any] = KEY) -> Request:
    return measured("get_item", units, TableName="$table", Key=key, ConsistentRead=consistent)


def _query(units: float, *, consistent: bool = True, **more: Any) -> Request:
    values = {":pk": {"S": "a"}, **more.pop("values", {})}
    condition = {"KeyConditionExpression": "PK = :pk", "ExpressionAttributeValues": values}
    return measured("query", units, TableName="$table", ConsistentRead=consistent, **condition, **more)


def _index_units(table: float, whole: float | None, keys: float | None) -> dict[str, float | None]:
    """Return the units of the table and of each index. None: the index is not charged."""
    return {
        "Table.CapacityUnits": table,
        "GlobalSecondaryIndexes.all.CapacityUnits": whole,
        "GlobalSecondaryIndexes.keys.CapacityUnits": keys,
    }


_probe = partial(ServiceProbe.of, source=sources.UNITS)
_refused = partial(Request.of, "dynamodb", error="ValidationException")
_THREE_ITEMS = tuple(put(key=_sort_key(name), text=_text(2_000)) for name in "bcd")

PROBES = (
    _probe("a_write_of_1_kb_is_one_unit", "A write of up to 1,024 bytes is one unit.", _put(1.0, text=_text(1_024))),
    _probe("a_write_over_1_kb_is_two_units", "A write of 1,025 bytes is two units.", _put(2.0, text=_text(1_025))),
    _probe(
        "a_put_counts_the_larger_item",
        "A put that replaces an item counts the larger of the old and the new item.",
        _put(3.0, text=_text(3_000)),
        _put(3.0, n=ONE),
    ),
    _probe(
        "an_update_counts_the_larger_item",
        "An update counts the larger of the old and the new item, not the changed attributes.",
        put(text=_text(3_000)),
        measured(
            "update_item",
            3.0,
            TableName="$table",
            Key=KEY,
            UpdateExpression="SET n = :n",
            ExpressionAttributeValues={":n": ONE},
        ),
    ),
    _probe(
        "a_deletion_counts_the_item",
        "A deletion counts the size of the deleted item.",
        put(text=_text(3_000)),
        measured("delete_item", 3.0, TableName="$table", Key=KEY),
    ),
    _probe(
        "a_deletion_of_nothing_is_one_unit",
        "A deletion of an item that does not exist is one unit.",
        measured("delete_item", 1.0, TableName="$table", Key=_ABSENT),
    ),
    _probe(
        "a_consistent_read_is_one_unit",
        "A consistent read of up to 4 KB is one unit.",
        put(text=_text(4_096)),
        _get(1.0, consistent=True),
    ),
    _probe(
        "an_eventual_read_is_half_a_unit",
        "An eventually consistent read of up to 4 KB is half a unit.",
        put(text=_text(4_096)),
        _get(0.5, consistent=False),
    ),
    _probe(
        "a_read_over_4_kb_is_two_units",
        "A consistent read of 4,097 bytes is two units, an eventually consistent read one unit.",
        put(text=_text(4_097)),
        _get(2.0, consistent=True),
        _get(1.0, consistent=False),
    ),
    _probe(
        "a_read_of_nothing_is_charged",
        "A read of an item that does not exist is charged like a read of up to 4 KB.",
        _get(1.0, consistent=True, key=_ABSENT),
        _get(0.5, consistent=False, key=_ABSENT),
    ),
    _probe(
        "a_transaction_writes_double",
        "A transaction consumes two write units for each item of up to 1 KB.",
        measured(
            "transact_write_items",
            4.0,
            TransactItems=[{"Put": {"TableName": "$table", "Item": _sort_key(name)}} for name in "bc"],
        ),
    ),
    _probe(
        "a_condition_check_is_two_units",
        "A ConditionCheck in a transaction consumes two write units.",
        put(n=ONE),
        measured(
            "transact_write_items",
            2.0,
            TransactItems=[
                {"ConditionCheck": {"TableName": "$table", "Key": KEY, "ConditionExpression": "attribute_exists(PK)"}}
            ],
        ),
        source=sources.TRANSACTIONS,
    ),
    _probe(
        "a_transaction_reads_double",
        "TransactGetItems consumes two read units for each item of up to 4 KB.",
        put(n=ONE),
        measured("transact_get_items", 2.0, TransactItems=[{"Get": {"TableName": "$table", "Key": KEY}}]),
    ),
    _probe(
        "a_batch_get_rounds_each_item",
        "BatchGetItem rounds the size of each item up to 4 KB, unlike a query.",
        *_THREE_ITEMS,
        measured(
            "batch_get_item",
            3.0,
            RequestItems={"$table": {"Keys": [_sort_key(name) for name in "bcd"], "ConsistentRead": True}},
        ),
    ),
    _probe(
        "a_batch_write_counts_each_item",
        "BatchWriteItem consumes the units of each item.",
        measured(
            "batch_write_item",
            3.0,
            RequestItems={"$table": [{"PutRequest": {"Item": _sort_key(name)}} for name in "bcd"]},
        ),
    ),
    _probe(
        "a_query_rounds_the_sum",
        "A query adds the sizes of its items, and then rounds the sum up to 4 KB.",
        *_THREE_ITEMS,
        _query(2.0),
        _query(1.0, consistent=False),
    ),
    _probe(
        "a_filtered_query_counts_all_items",
        "A query counts the items that its filter rejects.",
        *_THREE_ITEMS,
        _query(
            2.0,
            FilterExpression="#text = :none",
            ExpressionAttributeNames={"#text": "text"},
            values={":none": {"S": "-"}},
        ),
    ),
    _probe(
        "a_counting_query_costs_the_same",
        "A query with Select COUNT consumes as much as one that returns the items.",
        *_THREE_ITEMS,
        _query(2.0, Select="COUNT"),
    ),
    _probe(
        "a_projection_saves_no_units",
        "A query with a ProjectionExpression consumes the units of the whole items.",
        *_THREE_ITEMS,
        _query(2.0, ProjectionExpression="SK"),
    ),
    _probe(
        "an_empty_query_is_half_a_unit",
        "An eventually consistent query that finds nothing is half a unit.",
        _query(0.5, consistent=False),
    ),
    _probe(
        "a_new_item_in_an_index_is_one_unit",
        "A put of an item that is in an index consumes one more unit for each index.",
        _put(_index_units(1.0, 1.0, 1.0), **_INDEXED),
        source=sources.INDEXES,
    ),
    _probe(
        "an_item_outside_an_index_is_free",
        "A put of an item without the keys of an index consumes nothing in this index.",
        _put(_index_units(1.0, None, None), n=ONE),
        source=sources.INDEXES,
    ),
    _probe(
        "a_changed_index_key_is_two_units",
        "A change of the key of an index consumes two units in this index: a deletion and an insertion.",
        put(**_INDEXED),
        _put(_index_units(1.0, 2.0, 2.0), GPK={"S": "g"}, GSK={"S": "2"}),
        source=sources.INDEXES,
    ),
    _probe(
        "leaving_an_index_is_one_unit",
        "An item that leaves an index consumes one unit in this index.",
        put(**_INDEXED),
        _put(_index_units(1.0, 1.0, 1.0), n=ONE),
        source=sources.INDEXES,
    ),
    _probe(
        "a_changed_attribute_is_written_where_it_is_projected",
        "A change of an attribute consumes one unit in an index that contains it, and none in another.",
        put(**_INDEXED, n=ONE),
        _put(_index_units(1.0, 1.0, None), **_INDEXED, n=TWO),
        source=sources.INDEXES,
    ),
    _probe(
        "a_deletion_leaves_each_index",
        "A deletion of an item consumes one unit in each index that contains it.",
        put(**_INDEXED),
        measured("delete_item", _index_units(1.0, 1.0, 1.0), TableName="$table", Key=KEY),
        source=sources.INDEXES,
    ),
    _probe(
        "a_transaction_doubles_the_table_only",
        "A transaction doubles the units of the table, but not those of its indexes.",
        measured(
            "transact_write_items",
            _index_units(2.0, 1.0, 1.0),
            TransactItems=[{"Put": {"TableName": "$table", "Item": {**KEY, **_INDEXED}}}],
        ),
        source=sources.TRANSACTIONS,
        observed_by_others=sources.TRANSACTION_WITH_INDEXES,
    ),
    _probe(
        "an_index_has_no_consistent_reads",
        "A consistent query of a global secondary index is refused with ValidationException.",
        _refused(
            "query",
            TableName="$table",
            IndexName="all",
            KeyConditionExpression="GPK = :g",
            ExpressionAttributeValues={":g": {"S": "g"}},
            ConsistentRead=True,
        ),
        source=sources.INDEXES,
    ),
    _probe(
        "an_item_has_at_most_400_kb",
        "A put of an item over 400 KB is refused with ValidationException.",
        _refused("put_item", TableName="$table", Item={**KEY, "text": _text(400 * 1_024 + 1)}),
        source=sources.DYNAMODB_LIMITS,
    ),
    _probe(
        "an_item_of_400_kb_is_stored",
        "A put of an item of exactly 400 KB succeeds and consumes 400 units.",
        _put(400.0, text=_text(400 * 1_024)),
        source=sources.DYNAMODB_LIMITS,
    ),
    _probe(
        "a_batch_write_has_at_most_25_items",
        "BatchWriteItem with 26 items is refused with ValidationException.",
        _refused(
            "batch_write_item",
            RequestItems={"$table": [{"PutRequest": {"Item": _sort_key(f"{n}")}} for n in range(26)]},
        ),
        source=sources.BATCH_WRITE,
    ),
    _probe(
        "a_batch_get_has_at_most_100_keys",
        "BatchGetItem with 101 keys is refused with ValidationException.",
        _refused("batch_get_item", RequestItems={"$table": {"Keys": [_sort_key(f"{n}") for n in range(101)]}}),
        source=sources.BATCH_GET,
    ),
    _probe(
        "a_key_is_not_empty",
        "An empty text as a key is refused with ValidationException.",
        _refused("put_item", TableName="$table", Item={"PK": {"S": ""}, "SK": {"S": "b"}}),
        source=sources.DYNAMODB_LIMITS,
    ),
)
