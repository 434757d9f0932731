"""The `stripe-setup` command: create or check the webhook endpoint of the shop at Stripe, and store both secrets.

STRIPE_API_KEY is a key that may write webhook endpoints. SHOP_API_KEY is the key that the shop uses. Neither is
printed. If Stripe's CLI forwards the events, its signing secret is in STRIPE_WEBHOOK_SECRET, and no endpoint is needed.

https://docs.stripe.com/api/webhook_endpoints
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import urllib3

from functions.adapters.stripe_webhook import EVENT_PARSERS
from ops import targets
from ops.targets import ShopTarget

ENDPOINTS = "/v1/webhook_endpoints"
OBJECTS = ("list", "webhook_endpoint")
"""The objects in the answers about endpoints. An error has no object."""


class StripeRejected(Exception):
    """Stripe rejected a request, or did not answer. The text is for the operator."""


class StripeEndpoints:
    """The webhook endpoints of an account. `url`: the address of Stripe's API. `key`: an API key of the account."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key
        self._pool = urllib3.PoolManager(retries=False, timeout=20)

    def find(self, webhook_url: str) -> Mapping[str, Any] | None:
        """Return the endpoint with this URL, or None. Reads one page of 100, because an account has at most 16."""
        found = self._request("GET", f"{ENDPOINTS}?limit=100")["data"]
        return next((one for one in found if one["url"] == webhook_url), None)

    def save(self, webhook_url: str, existing: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Create an endpoint, or change its event types. Only a new endpoint has its signing secret."""
        form = [
            *((("url", webhook_url),) if existing is None else ()),
            *(("enabled_events[]", one) for one in EVENT_PARSERS),
        ]
        path = ENDPOINTS if existing is None else f"{ENDPOINTS}/{existing['id']}"
        saved: Mapping[str, Any] = self._request("POST", path, urlencode(form))
        return saved

    def _request(self, method: str, path: str, body: str | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/x-www-form-urlencoded"}
        try:
            answer = self._pool.request(method, self._url + path, body=body, headers=headers)
            content = json.loads(answer.data)
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise StripeRejected(f"Stripe did not answer at {self._url}: {type(error).__name__}") from error
        if not isinstance(content, dict) or content.get("object") not in OBJECTS:
            said = content.get("error") if isinstance(content, dict) else None
            why = said.get("message", "") if isinstance(said, dict) else "this is no answer of Stripe"
            raise StripeRejected(f"{self._url} answered {answer.status}: {why}")
        return content


def set_up(shop: ShopTarget, endpoints: StripeEndpoints, webhook_url: str, shop_key: str, *, check: bool) -> str:
    """Create or mend the endpoint, store the secrets, and return what was done. Safe to repeat.

    `check`: change nothing. Then raises StripeRejected if the endpoint is missing, disabled, or lacks an event type.
    """
    found = endpoints.find(webhook_url)
    missing = sorted(EVENT_PARSERS.keys() - set(found["enabled_events"])) if found else []
    if found and found["status"] != "enabled":
        raise StripeRejected(f"The endpoint {webhook_url} is disabled: enable it in Stripe's dashboard.")
    secret = shop.client("secretsmanager").list_secret_version_ids(SecretId=shop.outputs["WebhookSecret"])
    if found and len(secret["Versions"]) < 2:
        raise StripeRejected(
            f"The endpoint {webhook_url} exists, but its signing secret is not stored. Delete the endpoint in Stripe's "
            "dashboard and run this command again, or set STRIPE_WEBHOOK_SECRET to the secret that the dashboard shows."
        )
    if check:
        if found is None:
            raise StripeRejected(f"Stripe has no endpoint {webhook_url}: run this command without --check.")
        if missing:
            raise StripeRejected(f"The endpoint lacks {', '.join(missing)}: run this command without --check.")
        return "The endpoint has all event types."
    done = []
    if found is None:
        made = endpoints.save(webhook_url, None)
        done.append("Created the endpoint.")
        done.append(store_secrets(shop, made["secret"], shop_key))
    elif missing:
        endpoints.save(webhook_url, found)
        done.append(f"Added {', '.join(missing)} to the endpoint.")
    if found and shop_key:
        done.append(store_secrets(shop, "", shop_key))
    return " ".join(done) or "Nothing was to do."


def store_secrets(shop: ShopTarget, signing_secret: str, shop_key: str) -> str:
    """Store the secrets that are not empty, and return a sentence about it."""
    values = {
        "WebhookSecret": json.dumps({"current": signing_secret, "previous": ""}) if signing_secret else "",
        "ProviderSecret": shop_key,
    }
    stored = [output for output, value in values.items() if value]
    for output in stored:
        shop.client("secretsmanager").put_secret_value(SecretId=shop.outputs[output], SecretString=values[output])
    return f"Stored {' and '.join(stored)}."


def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "stripe-setup",
        parents=[targets.target_options(needs_stack=True)],
        help="create or check the webhook endpoint at Stripe, and store its secret",
        description="Reads a key that may write webhook endpoints from STRIPE_API_KEY, and the key of the shop from "
        "SHOP_API_KEY. With STRIPE_WEBHOOK_SECRET, the signing secret of `stripe listen`, it only stores secrets. Safe "
        "to repeat.",
    )
    parser.add_argument("--check", action="store_true", help="only check the endpoint")
    parser.add_argument("--stripe-url", default="https://api.stripe.com", help="the address of Stripe's API")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Set up or check the endpoint. Exits with one sentence if that is not possible."""
    key, forwarding = (os.environ.get(name, "") for name in ("STRIPE_API_KEY", "STRIPE_WEBHOOK_SECRET"))
    if not key and not forwarding:
        sys.exit("Set STRIPE_API_KEY to a key that may write webhook endpoints.")
    shop = targets.resolve_target(args)
    if "ProviderSecret" not in shop.outputs:
        sys.exit("The shop has no payment provider: set provider_url to https://api.stripe.com, and deploy.")
    shop_key = os.environ.get("SHOP_API_KEY", "")
    if forwarding and (args.check or key):
        sys.exit("STRIPE_WEBHOOK_SECRET only stores secrets: unset it, or unset STRIPE_API_KEY and leave out --check.")
    if forwarding:
        print(store_secrets(shop, forwarding, shop_key))
        return
    api_url = shop.outputs.get("CloudFrontUrl", shop.outputs["ApiUrl"])
    endpoints = StripeEndpoints(args.stripe_url, key)
    try:
        print(set_up(shop, endpoints, f"{api_url}/payments/events", shop_key, check=args.check))
    except StripeRejected as error:
        sys.exit(str(error))
