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
from typing import TYPE_CHECKING, Any

from functions.adapters.stripe_webhook import EVENT_PARSERS
from ops import targets
from ops.targets import ShopTarget

if TYPE_CHECKING:
    from stripe import WebhookEndpointService


class StripeRejected(Exception):
    """The endpoint is not as it must be. The text is for the operator."""


def set_up(shop: ShopTarget, endpoints: WebhookEndpointService, webhook_url: str, shop_key: str, *, check: bool) -> str:
    """Create or mend the endpoint, store the secrets, and return what was done. Safe to repeat.

    `check`: change nothing. Raises StripeError, and StripeRejected if the endpoint is missing or incomplete.
    """
    known = endpoints.list({"limit": 100}).data  # one page, because an account has at most 16
    found = next((one for one in known if one.url == webhook_url), None)
    events: Any = [*EVENT_PARSERS]
    missing = sorted({*events} - set(found.enabled_events)) if found else []
    if found and found.status != "enabled":
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
        made = endpoints.create({"url": webhook_url, "enabled_events": events})
        done.append("Created the endpoint.")
        done.append(store_secrets(shop, made.secret or "", shop_key))
    elif missing:
        endpoints.update(found.id, {"enabled_events": events})
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
    import stripe  # noqa: PLC0415  slow

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
    endpoints = stripe.StripeClient(key, base_addresses={"api": args.stripe_url}).v1.webhook_endpoints
    try:
        print(set_up(shop, endpoints, f"{api_url}/payments/events", shop_key, check=args.check))
    except (StripeRejected, stripe.StripeError) as error:
        sys.exit(str(error).partition("\n")[0])
