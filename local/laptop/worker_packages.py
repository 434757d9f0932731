"""Imports the packages that all Lambda functions use, once for all worker processes, which share their memory.

The boto3 session must not read environment variables here, because each worker process has its own.
"""

import gc
import importlib
import os
from typing import Any

import boto3
from ministack.core.lambda_runtime import INVOKE_DEPTH_ENV, INVOKE_DEPTH_HEADER  # type: ignore[import-untyped]

PACKAGES = (
    "aws_lambda_powertools.event_handler.middlewares.openapi_validation",
    "aws_lambda_powertools.logging",
    "aws_lambda_powertools.metrics",
    "botocore.config",
    "jinja2",
    "pydantic.deprecated.config",
    "pydantic.json_schema",
    "pydantic.type_adapter",
    "zoneinfo",
)

SERVICES = ("cognito-idp", "dynamodb", "events", "s3", "secretsmanager", "sesv2", "sqs")


def add_chain_header(params: dict[str, Any], **_: Any) -> None:
    """Add the header with the length of the chain of invocations to a request (local/laptop/loop_guard.py)."""
    params["headers"].setdefault(INVOKE_DEPTH_HEADER, os.environ.get(INVOKE_DEPTH_ENV, "0"))


for package in PACKAGES:
    importlib.import_module(package)
boto3.setup_default_session()
assert boto3.DEFAULT_SESSION is not None
boto3.DEFAULT_SESSION.events.register("before-call", add_chain_header)
descriptions = boto3.DEFAULT_SESSION._session.get_component("data_loader")
for service in SERVICES:
    for part in ("service-2", "endpoint-rule-set-1"):
        descriptions.load_service_model(service, part)
for shared in ("_retry", "endpoints", "partitions", "sdk-default-configuration"):
    descriptions.load_data(shared)
gc.freeze()  # the garbage collector then ignores these objects, so that forked processes keep sharing their memory
