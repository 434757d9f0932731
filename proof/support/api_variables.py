"""The environment variables of the API's function."""

from proof.support.http_client import Token

VARIABLES = {
    "ARCHIVE_BUCKET": "archive",
    "BUS_NAME": "shop",
    "EXPORTS_BUCKET": "exports",
    "CLIENT_ID": Token.client_id,
    "PEPPER_SECRET": "pepper",
    "WEBHOOK_SECRET": "webhook",
    "CLOSED_ORDER_DAYS": "365",
    "RETURN_WINDOW_DAYS": "30",
    "AUDIT_DAYS": "730",
    "TAX_RATE": "2000",
    "SHOP_NAME": "Elm & Sons",
    "LANGUAGE": "en",
    "PROVIDER_URL": "http://127.0.0.1:9",
    "PROVIDER_SECRET": "provider",
    "PUBLISHABLE_KEY": "pk_test_1",
    "PUBLIC_URL": "https://shop.example",
    "WEBHOOK_TEST_HOST": "127.0.0.1",
}
