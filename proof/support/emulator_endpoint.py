"""Sends the requests of this process to an emulator of AWS (the option `--endpoint`)."""

import os
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ONE_ATTEMPT = Config(connect_timeout=5, read_timeout=30, retries={"total_max_attempts": 1})


def use_emulator(url: str) -> None:
    """Set AWS_ENDPOINT_URL, which boto3 and the CDK read. Exits with an error message if no emulator answers there."""
    os.environ["AWS_ENDPOINT_URL"] = url
    session = boto3.Session()
    if session.get_credentials() is None or session.region_name is None:
        names = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_DEFAULT_REGION"
        sys.exit(f"Set {names} to values that the emulator accepts.")
    try:
        boto3.client("sts", config=ONE_ATTEMPT).get_caller_identity()
    except (BotoCoreError, ClientError, ValueError) as error:
        sys.exit(f"No emulator of AWS answers at {url}. Start it, or correct --endpoint. ({error})")
