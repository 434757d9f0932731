"""Facts about transactions and conditional writes of DynamoDB."""

from typing import Any

from proof.conformance.probes import sources
from proof.conformance.probes.kinds import Request, ServiceProbe
from proof.conformance.probes.stream_records import KEY, ONE, TWO, put, to_table

_TOKEN = "token-of-$prefix"  # new in each run, because a token is valid for 10 minutes in all tables of an account
_OTHER_KEY = {"PK": {"S": "a"}, "SK": {"S": "c"}}
_CANCELED = "TransactionCanceledException"


def transact(*actions: dict[str, Any], **more: Any) -> Request:
    """Return a request for a transaction. `more`: the error, the expected values, and further parameters."""
    return Request.of("dynamodb", "transact_write_items", TransactItems=list(actions), **more)


def add(amount: str, key: dict[str, Any] = KEY) -> dict[str, Any]:
    """Return an action that adds a number to the attribute `n`."""
    values = {":n": {"N": amount}}
    update = {"TableName": "$table", "Key": key, "UpdateExpression": "ADD n :n", "ExpressionAttributeValues": values}
    return {"Update": update}


def check_absent(key: dict[str, Any] = KEY, **more: str) -> dict[str, Any]:
    """Return an action that fails if an item exists."""
    condition = {"TableName": "$table", "Key": key, "ConditionExpression": "attribute_not_exists(PK)", **more}
    return {"ConditionCheck": condition}


def get(expected: Any, key: dict[str, Any] = KEY) -> Request:
    """Return a request that reads the attribute `n`, which must have this value. None: the item must not exist."""
    return to_table("get_item", Key=key, ConsistentRead=True, returns={"Item.n.N": expected})


def _create(item: dict[str, Any], **more: Any) -> Request:
    """Return a request that must fail, because the item exists."""
    condition = {"ConditionExpression": "attribute_not_exists(PK)"}
    return to_table("put_item", Item=item, error="ConditionalCheckFailedException", **condition, **more)


PROBES = (
    ServiceProbe.of(
        "a_repeated_token_writes_once",
        "A transaction that is sent again with the same ClientRequestToken succeeds and writes nothing.",
        transact(add("1"), ClientRequestToken=_TOKEN),
        transact(add("1"), ClientRequestToken=_TOKEN),
        get("1"),
        source=sources.TRANSACT_WRITE,
    ),
    ServiceProbe.of(
        "a_token_with_other_content_is_refused",
        "The same ClientRequestToken with other content fails with IdempotentParameterMismatchException.",
        transact(add("1"), ClientRequestToken=_TOKEN),
        transact(add("2"), ClientRequestToken=_TOKEN, error="IdempotentParameterMismatchException"),
        get("1"),
        source=sources.TRANSACT_WRITE,
    ),
    ServiceProbe.of(
        "without_a_token_a_transaction_is_repeated",
        "boto3 sends a new ClientRequestToken with each call, so that a second call writes again.",
        transact(add("1")),
        transact(add("1")),
        get("2"),
        source=sources.TRANSACT_WRITE,
    ),
    ServiceProbe.of(
        "a_repeated_token_consumes_reads",
        "The repetition of a transaction consumes read units instead of write units.",
        transact(
            add("1"),
            ClientRequestToken=_TOKEN,
            ReturnConsumedCapacity="TOTAL",
            returns={"ConsumedCapacity[0].WriteCapacityUnits": 2.0},
        ),
        transact(
            add("1"),
            ClientRequestToken=_TOKEN,
            ReturnConsumedCapacity="TOTAL",
            returns={
                "ConsumedCapacity[0].ReadCapacityUnits": 2.0,
                "ConsumedCapacity[0].WriteCapacityUnits || `0`": 0,
            },
        ),
        source=sources.TRANSACT_WRITE,
        observed_by_others=sources.REPEATED_TRANSACTION,
    ),
    ServiceProbe.of(
        "a_token_has_at_most_36_characters",
        "A ClientRequestToken has at most 36 characters.",
        transact(add("1"), ClientRequestToken="x" * 37, error="ValidationException"),
        source=sources.TRANSACT_WRITE,
    ),
    ServiceProbe.of(
        "reasons_name_the_failed_condition",
        "A cancelled transaction has one reason for each action, in order: None, or ConditionalCheckFailed.",
        put(n=ONE),
        transact(
            add("1", _OTHER_KEY),
            check_absent(),
            error=_CANCELED,
            returns={"CancellationReasons[].Code": ["None", "ConditionalCheckFailed"]},
        ),
        source=sources.CANCELLATION,
    ),
    ServiceProbe.of(
        "a_cancelled_transaction_writes_nothing",
        "If one condition of a transaction fails, none of its actions is applied.",
        put(n=ONE),
        transact(add("1", _OTHER_KEY), check_absent(), error=_CANCELED),
        get(None, _OTHER_KEY),
        source=sources.TRANSACTIONS,
    ),
    ServiceProbe.of(
        "reasons_name_every_failed_condition",
        "If several conditions of a transaction fail, the reasons name each of them.",
        put(n=ONE),
        put(key=_OTHER_KEY, n=ONE),
        transact(
            check_absent(),
            check_absent(_OTHER_KEY),
            error=_CANCELED,
            returns={"CancellationReasons[].Code": ["ConditionalCheckFailed", "ConditionalCheckFailed"]},
        ),
        source=sources.CANCELLATION,
        observed_by_others=sources.FAILED_CONDITIONS,
    ),
    ServiceProbe.of(
        "a_reason_returns_the_item",
        "With ReturnValuesOnConditionCheckFailure ALL_OLD, the reason contains the item.",
        put(n=ONE),
        transact(
            check_absent(ReturnValuesOnConditionCheckFailure="ALL_OLD"),
            error=_CANCELED,
            returns={"CancellationReasons[0].Item.n.N": "1"},
        ),
        source=sources.CANCELLATION,
    ),
    ServiceProbe.of(
        "a_reason_is_a_validation_error",
        "An action that cannot be applied to its item, such as ADD to a text, cancels with ValidationError.",
        put(n={"S": "text"}),
        transact(add("1"), error=_CANCELED, returns={"CancellationReasons[0].Code": "ValidationError"}),
        source=sources.TRANSACT_WRITE,
    ),
    ServiceProbe.of(
        "a_transaction_has_one_action_for_an_item",
        "Two actions of a transaction for the same item are refused with ValidationException.",
        transact(add("1"), add("2"), error="ValidationException"),
        source=sources.TRANSACT_WRITE,
    ),
    ServiceProbe.of(
        "a_transaction_has_at_most_100_actions",
        "A transaction with 101 actions is refused with ValidationException.",
        transact(*(add("1", {"PK": {"S": "a"}, "SK": {"S": f"{n}"}}) for n in range(101)), error="ValidationException"),
        source=sources.TRANSACT_WRITE,
    ),
    ServiceProbe.of(
        "a_failed_condition_returns_the_item",
        "A conditional write that fails with ALL_OLD returns the item with ConditionalCheckFailedException.",
        put(n=ONE),
        _create(KEY, ReturnValuesOnConditionCheckFailure="ALL_OLD", returns={"Item.n.N": "1"}),
        source=sources.PUT_ITEM,
    ),
    ServiceProbe.of(
        "a_failed_condition_writes_nothing",
        "A conditional write that fails changes nothing.",
        put(n=ONE),
        _create({**KEY, "n": TWO}),
        get("1"),
        source=sources.PUT_ITEM,
    ),
)
