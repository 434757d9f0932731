"""Lets the operator tools (`python -m ops`) work on the running local shop, instead of a shop on AWS."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import boto3

from local.laptop import shop_client
from local.laptop.log_files import read_log
from local.laptop.shop_client import RunningShop
from local.laptop.state_checks import find_full_disk
from ops.targets import ShopTarget


def find_local_target(state: Path | None = None) -> ShopTarget:
    """Return the running local shop as a target of the operator tools, or exit with an error message."""
    shop = shop_client.require_running_shop(state or shop_client.STATE_FOLDER)
    return replace(local_target(shop), options=["--state", str(state)] if state else [])


def local_target(shop: RunningShop) -> ShopTarget:
    """Return the clients, the stack outputs and other access to a running local shop for the operator tools."""

    def client(service: str) -> Any:
        if service == "dynamodb":
            return shop.engine.dynamodb()
        return boto3.client(service, **shop.aws.client_options)  # type: ignore[call-overload]

    outputs = {**shop.stack.outputs, "StackName": shop_client.STACK_NAME, "TableName": shop.table_name}
    return ShopTarget(
        outputs,
        cache(client),
        shop.stack.resource_names,
        shop.consumer_lags,
        lambda: read_log(shop.aws.function_log),
        partial(find_full_disk, shop.state),
        shop.state,
    )
