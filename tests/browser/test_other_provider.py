"""Tests a purchase by somebody who signs in at another OpenID provider: a real one, on the real authorizer and page."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from playwright.sync_api import Browser, expect

from local.laptop.demo import DemoClients, LaptopTarget
from local.laptop.shop_client import PROJECT, RunningShop
from local.world.processes import free_port
from tests.browser.aws import serve_page
from tests.browser.conftest import open_tab
from tests.browser.test_page_on_aws import fill_address, look_until
from tests.laptop.conftest import LaptopShop

AUDIENCE = "https://orders.shop.example"
GROUPS = "https://shop.example/groups"
PROGRAM = Path(__file__).parent / "openid_provider.mjs"


@contextmanager
def openid_provider(issuer: str, redirect_uri: str) -> Iterator[None]:
    command = [str(PROJECT / ".venv" / "bin" / "node"), str(PROGRAM), issuer.rpartition(":")[2], redirect_uri, AUDIENCE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


@contextmanager
def signed_in_by(shop: RunningShop, issuer: str) -> Iterator[None]:
    """Give the authorizer and the functions of the API the settings `issuer`, `audience` and `groups_claim`."""
    gateway: Any = boto3.client("apigatewayv2", **shop.aws.client_options)
    functions: Any = boto3.client("lambda", **shop.aws.client_options)
    api = shop.stack.resource_name("AWS::ApiGatewayV2::Api")
    (authorizer,) = gateway.get_authorizers(ApiId=api)["Items"]
    names = [shop.stack.function_name(f"functions.handlers.{one}.handler") for one in ("api", "payment_starter")]
    before = {name: functions.get_function_configuration(FunctionName=name)["Environment"] for name in names}

    def use(jwt: Mapping[str, Any], variables: Mapping[str, str]) -> None:
        gateway.update_authorizer(ApiId=api, AuthorizerId=authorizer["AuthorizerId"], JwtConfiguration=jwt)
        for name in names:
            environment = {"Variables": {**before[name]["Variables"], **variables}}
            functions.update_function_configuration(FunctionName=name, Environment=environment)

    use({"Issuer": issuer, "Audience": [AUDIENCE]}, {"ISSUER": issuer, "GROUPS_CLAIM": GROUPS})
    try:
        yield
    finally:
        use(authorizer["JwtConfiguration"], {})


def test_somebody_of_another_provider_signs_in_orders_pays_and_signs_out(shop: LaptopShop, chromium: Browser) -> None:
    running, product = shop.shop(), "cherry-mug"
    people = DemoClients(running)
    people.staff.post("/products", {"product_id": product, "name": "Cherry mug", "price": 1250, "currency": "EUR"})
    people.staff.post(f"/products/{product}/receipts", {"quantity": 5}, key=product)
    issuer = f"http://127.0.0.1:{free_port()}"
    sign_in = {
        "issuer": issuer, "client_id": "page", "scope": "openid email", "audience": AUDIENCE, "groups_claim": GROUPS
    }  # fmt: skip
    with (
        serve_page(running, sign_in, issuer) as page_url,
        openid_provider(issuer, page_url),
        signed_in_by(running, issuer),
        open_tab(chromium, page_url.rstrip("/"), allowed_origins=(page_url.removesuffix("/page/"), issuer)) as tab,
    ):
        page = tab.page
        tab.open("shop")
        page.get_by_role("button", name="Add to basket: Cherry mug").first.click()
        page.get_by_role("button", name="Sign in to order").click()
        page.locator("input[name=login]").fill("auth0|dora")
        page.locator("input[name=password]").fill("any")
        page.get_by_role("button", name="Sign-in").click()
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        fill_address(page, "Dora Dill")
        page.get_by_role("button", name="Place order").click()
        expect(page.get_by_role("heading", name="Order placed")).to_be_focused()
        order_id = page.locator(".pay .notice code").inner_text()
        tokens = json.loads(page.evaluate("sessionStorage.getItem('orderstream.tokens')"))
        mine = {"Authorization": f"Bearer {tokens['access']}"}
        assert page.request.get(f"{page_url}../customers/me", headers=mine).json()["email"] == "dora@example.com"
        intents = f"{page_url}../orders/{order_id}/payment-intents"
        LaptopTarget(running).confirm_card(page.request.post(intents, headers=mine).json())
        page.get_by_role("link", name="See the order").click()
        look_until(page, "Order paid")
        expect(page.locator(".order-head")).to_contain_text("2 Oak Lane")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("button", name="Yes, sign me out").click()
        expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
        tab.seen.errors.clear()  # the browser logged the 404 for a user who is not a customer yet
        fonts = "GET https://fonts.googleapis.com/"  # which the provider's own pages ask for
        tab.seen.requests[:] = [one for one in tab.seen.requests if not one.startswith(fonts)]
