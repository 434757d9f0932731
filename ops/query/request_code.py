"""Write a recorded DynamoDB request as code that sends the same request: with boto3, and with the AWS CLI."""

import json
import re
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any


def format_boto3(operation: str, parameters: Mapping[str, Any]) -> str:
    """Return a request as a call of boto3's DynamoDB client."""
    lines = [f"    {name}={value!r}," for name, value in parameters.items()]
    return "\n".join([f'boto3.client("dynamodb").{"_".join(_words(operation))}(', *lines, ")"])


def format_cli(operation: str, parameters: Mapping[str, Any]) -> str:
    """Return a request as a command of the AWS CLI. With --no-paginate, the CLI sends only this one request."""
    options = [_cli_option("-".join(_words(name)), value) for name, value in parameters.items()]
    if operation == "Query":
        options.append("--no-paginate")
    return " \\\n".join([f"aws dynamodb {'-'.join(_words(operation))}", *(f"    {option}" for option in options)])


def _cli_option(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {quote(value if isinstance(value, str) else json.dumps(value))}"


def _words(name: str) -> Iterator[str]:
    yield from (word.lower() for word in re.findall("[A-Z][a-z]*", name))
