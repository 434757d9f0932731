"""The `canary-setup` command: create the user, product and stock of the canary, the Lambda that places test orders.

The deploy generates the user's name and password (output CanarySecret). Run this command once after the deploy that
sets `canary_minutes`. It is safe to repeat.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from typing import Any

from functions.handlers.canary import PRODUCT_ID
from ops import targets
from ops.api_client import ApiClient
from ops.commands.smoke import StageTarget, post_once, sign_in
from ops.targets import ShopTarget

STOCK = 1_000
"""The pieces in stock. Each run orders one piece and cancels the order, so stock runs out only if cancelling fails."""
PRODUCT = {"product_id": PRODUCT_ID, "name": "Canary", "price": 100, "currency": "EUR", "catalog": "canary"}


def set_up_canary(shop: ShopTarget, api_url: str) -> None:
    """Create the user, the product and the stock of the canary, if they do not exist yet. Safe to repeat."""
    secret = shop.client("secretsmanager").get_secret_value(SecretId=shop.outputs["CanarySecret"])
    user = json.loads(secret["SecretString"])
    cognito: Any = shop.client("cognito-idp")
    pool = shop.outputs["UserPoolId"]
    names = {"UserPoolId": pool, "Username": user["username"]}
    attributes = [{"Name": "email", "Value": user["username"]}, {"Name": "email_verified", "Value": "true"}]
    with suppress(cognito.exceptions.UsernameExistsException):
        cognito.admin_create_user(**names, UserAttributes=attributes, MessageAction="SUPPRESS")
    cognito.admin_set_user_password(**names, Password=user["password"], Permanent=True)
    token = sign_in(cognito, shop.outputs["UserPoolClientId"], user["username"], user["password"])
    post_once(ApiClient(api_url, lambda: token), "/customers", {"name": "Canary"})
    staff = StageTarget(shop, api_url)
    try:
        api = staff.api_client("staff")
        post_once(api, "/products", PRODUCT)
        post_once(api, f"/products/{PRODUCT_ID}/receipts", {"quantity": STOCK}, key="canary-stock")
    finally:
        for left in staff.clean_up():
            print(left)


def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "canary-setup",
        parents=[targets.target_options(needs_stack=True)],
        help="create the user, the product and the stock of the canary",
        description="Run it once after the deploy that sets canary_minutes. Safe to repeat.",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Set up the canary. Exits with an error message if the stage has no canary. Raises UnexpectedResponse."""
    shop = targets.resolve_target(args)
    if "CanarySecret" not in shop.outputs:
        sys.exit("The stage has no canary: set canary_minutes, and deploy.")
    set_up_canary(shop, shop.outputs.get("CloudFrontUrl", shop.outputs["ApiUrl"]))
    print("The canary has its user, its product and its stock.")
