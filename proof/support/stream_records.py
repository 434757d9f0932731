"""Reads the stream of a table. The records have the format in which Lambda passes them to a function."""

from typing import Any

from local.event_source_mappings.records import to_lambda_record
from local.world.dynamodb_engine import REGION, Engine, shared_streams


def read_stream_records(engine: Engine, table_name: str) -> list[dict[str, Any]]:
    """Return all stream records since the table was created, in order."""
    client = shared_streams(engine)
    (stream,) = client.list_streams(TableName=table_name)["Streams"]
    arn = stream["StreamArn"]
    (shard,) = client.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    iterator = client.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")
    found: list[dict[str, Any]] = []
    following: str | None = iterator["ShardIterator"]
    while following:
        page = client.get_records(ShardIterator=following)
        if not page["Records"]:
            break
        found += [to_lambda_record(record, region=REGION, stream_arn=arn) for record in page["Records"]]
        following = page.get("NextShardIterator")
    return found
