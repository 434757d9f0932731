"""What a table's stream has, in the shape a Lambda function gets it."""

from typing import Any

from local.engine import REGION, Engine
from local.mappings.records import to_lambda_record


def read_stream_records(engine: Engine, table_name: str) -> list[dict[str, Any]]:
    """All records of a table since it was made, in order."""
    client = engine.streams()
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
