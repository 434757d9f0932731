"""Fixtures of the tests of the operator tools."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import boto3
import pytest
from moto import mock_aws

from functions.runtime import clients
from local.laptop import shop_client
from local.world.dynamodb_engine import REGION
from local.world.harness import ShopHarness
from ops import targets
from ops.targets import ShopTarget
from proof.support.operator_shop import BUCKETS, NAMES, fake_shop_with_buckets


@pytest.fixture
def local_shop(harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands use the shop of the test as the local shop."""
    monkeypatch.setattr(shop_client, "find", lambda _: fake_shop_with_buckets(harness))


@pytest.fixture
def here(harness: ShopHarness, monkeypatch: pytest.MonkeyPatch) -> ShopHarness:
    """Let every target option select the shop of the test."""

    def client(service: str) -> Any:
        return harness.engine.dynamodb() if service == "dynamodb" else clients.client(service)

    outputs = {"TableName": harness.shop.table.name, **BUCKETS}
    found = ShopTarget(outputs, client, lambda kind: NAMES[kind], options=["--stack", "any"])
    monkeypatch.setattr(targets, "resolve_target", lambda given: found)
    monkeypatch.setattr(found.table, "clock", harness.now)
    return harness


@pytest.fixture
def cloudwatch() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("cloudwatch", region_name=REGION)


def measured(metric: str, value: float, namespace: str, at: datetime, **of: str) -> None:
    """Store a value of a metric in CloudWatch. `of`: the dimensions."""
    dimensions = [{"Name": name, "Value": text} for name, text in of.items()]
    point: Any = {"MetricName": metric, "Dimensions": dimensions, "Timestamp": at, "Value": value}
    boto3.client("cloudwatch", region_name=REGION).put_metric_data(Namespace=namespace, MetricData=[point])


def add_dead_letters(queue: str, name: str = "dead-letters") -> str:
    """Give a queue a dead-letter queue with this name. Return its URL."""
    sqs = clients.client("sqs")
    url: str = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 5})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    return url
