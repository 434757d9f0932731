"""Tests every route that needs a token with invalid tokens, on a real authorizer and the real function."""

import re

import pytest
import urllib3

from functions.api.app import app
from functions.api.http.context import PUBLIC_ROUTES
from local.laptop import users
from tests.laptop.conftest import LaptopShop
from tests.support.forged_tokens import invalid_tokens, read_pool_key, resign_token

pytestmark = [pytest.mark.laptop, pytest.mark.usefixtures("loopback_only")]
ROUTES = sorted({route.key for route in app.known_routes} - PUBLIC_ROUTES)


def test_only_public_routes_accept_a_foreign_token(laptop: LaptopShop) -> None:
    shop = laptop.shop()
    pool = urllib3.PoolManager(retries=False, timeout=30)
    real = users.sign_in(shop.aws, shop.stack, "staff")
    wrong = {**invalid_tokens(shop.aws, shop.stack, real["AccessToken"]), "the ID token": real["IdToken"], "none": ""}

    def ask(key: str, token: str) -> int:
        method, path = key.split()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = shop.api_url + re.sub("{.*?}", "x", path)
        return pool.request(method, url, headers=headers).status

    taken = {(key, why): status for key in ROUTES for why, token in wrong.items() if (status := ask(key, token)) != 401}
    assert taken == {}
    right = resign_token(real["AccessToken"], read_pool_key(shop.aws, shop.stack))
    assert ask("GET /orders", right) == 200, "a token that is only signed again is accepted"
