"""The `smoke` command: run the scenarios of ops/scenarios.py in a deployed stage, and check that every effect arrives.

The mail addresses of its users belong to SES's mailbox simulator, which also works in the sandbox:
https://docs.aws.amazon.com/ses/latest/dg/send-an-email-from-console.html#send-email-simulator

At the end, the customer is erased, the users are deleted, and the products are discontinued. Orders and invoices stay.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError
from urllib3.exceptions import HTTPError

from ops import targets
from ops.api_client import ApiClient, UnexpectedResponse
from ops.commands.indexes import TABLE_TYPES
from ops.scenarios import EffectMissing, ScenarioClients, ScenarioTarget, run_scenarios
from ops.targets import ShopTarget

GROUPS: dict[str, tuple[str, ...]] = {"alice": (), "staff": ("staff",), "warehouse": ("warehouse",)}
MAIL_PREFIX = "success+smoke-"
"""The beginning of each user's mail address. The label after the plus sign distinguishes the users."""
LEFT_BEHIND = timedelta(hours=1)
"""A user of this age or older belongs to a run that was killed. The next run deletes the user."""
TOKEN_SECONDS = 1_800


class StageTarget(ScenarioTarget):
    """A deployed stage, with the permissions of the person who deploys it. All created names contain the run's id."""

    timeout_seconds, pause_seconds = 120.0, 0.5
    can_refund_cards = False

    def __init__(self, shop: ShopTarget, api_url: str) -> None:
        self.run_id = uuid.uuid4().hex[:8]
        self.product, self.product_prefix = {"catalog": "smoke"}, f"smoke-{self.run_id}-"
        self._shop, self._url = shop, api_url
        self._cognito: Any = shop.client("cognito-idp")
        self._pool_id = shop.outputs["UserPoolId"]
        self._password = f"Aa1-{secrets.token_urlsafe(24)}"
        self._clients: dict[str, ApiClient] = {}
        self._users: list[dict[str, Any]] = []

    def api_client(self, user: str) -> ApiClient:
        """Return a client that signs in as a user of this run. The first call creates the user."""
        if user not in self._clients:
            self._clients[user] = ApiClient(self._url, self._token_supplier(self._create_user(user)))
        return self._clients[user]

    def _create_user(self, user: str) -> str:
        """Create a user in the groups of GROUPS, and return the mail address."""
        address = f"{MAIL_PREFIX}{self.run_id}-{user}@simulator.amazonses.com"
        names = {"UserPoolId": self._pool_id, "Username": address}
        attributes = [{"Name": "email", "Value": address}, {"Name": "email_verified", "Value": "true"}]
        created = self._cognito.admin_create_user(**names, UserAttributes=attributes, MessageAction="SUPPRESS")
        self._users.append(created["User"])
        self._cognito.admin_set_user_password(**names, Password=self._password, Permanent=True)
        for group in GROUPS[user]:
            self._cognito.admin_add_user_to_group(**names, GroupName=group)
        return address

    def _token_supplier(self, address: str) -> Callable[[], str]:
        kept: dict[str, Any] = {}

        def token() -> str:
            if kept.get("until", 0) < time.monotonic():
                client_id = self._shop.outputs["UserPoolClientId"]
                kept["token"] = sign_in(self._cognito, client_id, address, self._password)
                kept["until"] = time.monotonic() + TOKEN_SECONDS
            return str(kept["token"])

        return token

    def pay_by_card(self, order: dict[str, Any]) -> None:
        """Send the webhook of a payment, signed with the shop's own secret. The provider does not know this payment."""
        found = self._shop.client("secretsmanager").get_secret_value(SecretId=self._shop.outputs["WebhookSecret"])
        intent = {
            "id": f"pi_smoke_{order['order_id']}",
            "amount": order["due"],
            "amount_received": order["due"],
            "currency": order["currency"].lower(),
            "metadata": {"order_id": order["order_id"]},
        }
        event = {"id": f"evt_smoke_{order['order_id']}", "type": "payment_intent.succeeded", "data": {"object": intent}}
        body, at = json.dumps(event), int(time.time())
        secret = json.loads(found["SecretString"])["current"]
        digest = hmac.new(secret.encode(), f"{at}.{body}".encode(), hashlib.sha256).hexdigest()
        headers = {"Stripe-Signature": f"t={at},v1={digest}", "Content-Type": "application/json"}
        api = self.api_client("staff")
        answer = api.pool.request("POST", f"{self._url}/payments/events", body=body, headers=headers)
        if answer.status != 200:
            raise EffectMissing(f"POST /payments/events answered {answer.status}: {answer.data!r}")

    def ship(self, order_id: str) -> None:
        """Dispatch and deliver the requested shipments. Of several products, the first has its own parcel."""
        api = self.api_client("warehouse")
        for number, one in enumerate(api.get(f"/orders/{order_id}/shipments")["items"]):
            path = f"/orders/{order_id}/shipments/{one['shipment_id']}"
            if one["tracking_number"] is None:
                sent: dict[str, Any] = {"carrier": "smoke", "tracking_number": f"{self.run_id}-{order_id}-{number}"}
                if len(one["quantities"]) > 1:
                    first = min(one["quantities"])
                    sent["quantities"] = {first: one["quantities"][first]}
                post_once(api, f"{path}/dispatched", sent)
            post_once(api, f"{path}/delivered")

    # cleaning up ------------------------------------------------------------------------------------------------------
    def clean_up(self) -> Iterator[str]:
        """Erase the customers and delete the users of this and of killed runs. Yields a sentence for each failure."""
        users = [*self._users, *self._list_left_behind()]
        for user in sorted(users, key=lambda user: not _is_customer(user)):  # staff last: they erase customers
            name = user["Username"]
            try:
                if _is_customer(user):
                    answer = self.api_client("staff").call(
                        "DELETE", f"/customers/{_attribute(user, 'sub')}?reason=smoke"
                    )
                    if answer.status not in (202, 404):
                        yield f"The customer {name} is not erased: the API answered {answer.status}."
                        continue
                self._cognito.admin_delete_user(UserPoolId=self._pool_id, Username=name)
            except (ClientError, HTTPError) as error:
                yield f"The user {name} is not deleted: {error}."

    def _list_left_behind(self) -> list[dict[str, Any]]:
        pages = self._cognito.get_paginator("list_users").paginate(
            UserPoolId=self._pool_id, Filter=f'email ^= "{MAIL_PREFIX}"'
        )
        begun = datetime.now(UTC) - LEFT_BEHIND
        return [user for page in pages for user in page["Users"] if user["UserCreateDate"] < begun]


def sign_in(cognito: Any, client_id: str, address: str, password: str) -> str:
    """Return an access token of a user."""
    answer = cognito.initiate_auth(
        ClientId=client_id,
        AuthFlow="USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": address, "PASSWORD": password},
    )
    return str(answer["AuthenticationResult"]["AccessToken"])


def post_once(api: ApiClient, path: str, body: Any = None, *, key: str | None = None) -> None:
    """Send a POST request. Ignores the status 409: it was done before. Raises UnexpectedResponse for other errors."""
    answer = api.call("POST", path, body, key=key)
    if answer.status >= 300 and answer.status != 409:
        raise UnexpectedResponse(f"POST {path} answered {answer.status}: {answer.body}")


def _attribute(user: Mapping[str, Any], name: str) -> str:
    return str(next(one["Value"] for one in user["Attributes"] if one["Name"] == name))


def _is_customer(user: Mapping[str, Any]) -> bool:
    return "-alice@" in _attribute(user, "email")


def missing_protections(shop: ShopTarget) -> list[str]:
    """Return the missing protections against deletion of a protected stage; [] for a stage that is not protected."""
    cloudformation, name = shop.client("cloudformation"), shop.outputs["StackName"]
    body = cloudformation.get_template(StackName=name)["TemplateBody"]
    template = json.loads(body) if isinstance(body, str) else body
    kept = (*TABLE_TYPES, "AWS::Cognito::UserPool")
    resources = template["Resources"].values()
    if not any(one["Type"] in kept and one.get("UpdateReplacePolicy") == "Retain" for one in resources):
        return []
    (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    table = shop.client("dynamodb").describe_table(TableName=shop.outputs["TableName"])["Table"]
    pool = shop.client("cognito-idp").describe_user_pool(UserPoolId=shop.outputs["UserPoolId"])["UserPool"]
    protected = {
        "the stack's termination protection": stack.get("EnableTerminationProtection", False),
        "the table's deletion protection": table.get("DeletionProtectionEnabled", False),
        "the user pool's deletion protection": pool.get("DeletionProtection") == "ACTIVE",
    }
    return [what for what, is_on in protected.items() if not is_on]


def run_smoke(shop: ShopTarget, api_url: str) -> None:
    """Check the protections, run the scenarios, and clean up. Raises EffectMissing for all that is missing."""
    if "UserPoolId" not in shop.outputs:
        raise EffectMissing("smoke signs in as users of a pool, but this stack has the setting issuer: it has no pool")
    missing = [f"{what} is off: run make deploy again" for what in missing_protections(shop)]
    stage = StageTarget(shop, api_url)
    print(f"Run {stage.run_id} at {api_url}. Payments are webhooks signed with the shop's own secret.")
    try:
        with _noted(missing):
            people = ScenarioClients(stage)
            with _noted(missing):
                run_scenarios(people)
            people.discontinue_products()
    finally:
        left = list(stage.clean_up())
        print("\n".join(left or ["The customer is erased, and the users are deleted."]))
    print("The orders, their invoices and the discontinued products stay.")
    if missing:
        raise EffectMissing("\n".join(missing))


@contextmanager
def _noted(missing: list[str]) -> Iterator[None]:
    """Append the error of the `with` block to `missing`, so that the run goes on and cleans up."""
    try:
        yield
    except (EffectMissing, UnexpectedResponse, HTTPError) as error:
        missing.append(str(error))


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "smoke",
        help="run typical orders in a deployed stage, and check that every effect arrives",
        description="Creates users, products and orders of its own in a deployed stage, waits for every effect, and "
        "cleans up. Exits with 1 if an effect or a protection is missing.",
    )
    parser.add_argument("--stack", required=True, help="the name of the stack, such as orderstream-dev")
    parser.add_argument("--region", help="the AWS region (default: as configured)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the scenarios in the stack. Exits with an error message if an effect or a protection is missing."""
    shop = targets.resolve_target(args)
    try:
        run_smoke(shop, shop.outputs.get("CloudFrontUrl", shop.outputs["ApiUrl"]))
    except EffectMissing as error:
        sys.exit(str(error))
