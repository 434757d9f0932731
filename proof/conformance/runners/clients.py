"""Creates the boto3 clients of the runners, for services that the probes name."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import boto3
from botocore.config import Config

UNCHECKED = Config(parameter_validation=False)
"""The configuration of clients that send requests which botocore itself would refuse."""


def client_factory(config: Config = UNCHECKED, **options: Any) -> Callable[[str], Any]:
    """Return a function that returns the client of a service. It creates each client once, in any thread."""
    create: Any = boto3.client
    create_once, lock = functools.cache(functools.partial(create, config=config, **options)), threading.Lock()

    def client(service: str) -> Any:
        with lock:  # creating a client is not thread-safe
            return create_once(service)

    return client
