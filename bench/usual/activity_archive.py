"""The stream reader of the usual shop that archives the entries of activity that DynamoDB deleted at their `ttl`.

It sends them to Firehose, which writes many of them into one object (AWS database blog, "Automatically archive items to
S3 using DynamoDB Time to Live (TTL) with AWS Lambda and Amazon Kinesis Firehose").
"""

import json
import os
from typing import Any

import boto3
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from bench.usual.log import logger, metrics

FILTERS = [
    {
        "eventName": ["REMOVE"],
        "dynamodb": {"OldImage": {"entity": {"S": ["activity"]}}},
        "userIdentity": {"type": ["Service"], "principalId": ["dynamodb.amazonaws.com"]},
    }
]
"""The event filter: only records of entries that DynamoDB deleted at their `ttl`."""

firehose: Any = boto3.client("firehose")


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> Any:  # noqa: ARG001  Lambda passes it
    """Lambda entry point: archive a batch of records. If Firehose rejects one, Lambda delivers the batch again."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    lines = [{"Data": json.dumps(record["dynamodb"]["OldImage"]) + "\n"} for record in event["Records"]]
    answer = firehose.put_record_batch(DeliveryStreamName=os.environ["DELIVERY_STREAM"], Records=lines)
    if answer["FailedPutCount"]:
        raise RuntimeError(f"Firehose did not take {answer['FailedPutCount']} records")
    return {"batchItemFailures": []}
