"""The reader of the conventional shop that archives the entries of activity that DynamoDB deleted at their `ttl`.

It hands them to Firehose, which puts many of them into one object (AWS database blog, "Automatically archive items to
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
"""Which records it is called for."""

firehose: Any = boto3.client("firehose")


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> Any:  # noqa: ARG001  Lambda gives it
    """Lambda entry point: a batch of stream records. It comes again as a whole if Firehose does not take all of it."""
    metrics.add_metric(name="Records", unit=MetricUnit.Count, value=len(event["Records"]))
    lines = [{"Data": json.dumps(record["dynamodb"]["OldImage"]) + "\n"} for record in event["Records"]]
    answer = firehose.put_record_batch(DeliveryStreamName=os.environ["DELIVERY_STREAM"], Records=lines)
    if answer["FailedPutCount"]:
        raise RuntimeError(f"Firehose did not take {answer['FailedPutCount']} records")
    return {"batchItemFailures": []}
