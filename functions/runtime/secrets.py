"""Read secrets from Secrets Manager, and cache them while the Lambda is warm."""

import json
from functools import lru_cache

from functions.runtime import clients

SECRET_CACHE_SECONDS = 300
"""How many seconds a warm Lambda may use the old value of a secret after a rotation."""


@lru_cache(maxsize=8)
def get_secret(name: str, period: int = 0) -> str:  # noqa: ARG001  a new period is a new cache key
    """Return the value of a secret, cached as long as the `period`, such as the current hour, is the same."""
    return str(clients.client("secretsmanager").get_secret_value(SecretId=name)["SecretString"])


def get_valid_secrets(name: str, period: int) -> list[str]:
    """Return the values of a secret that can be rotated, JSON {"current": ..., "previous": ...}, except empty ones.

    Raises ValueError if the secret is not JSON. `period`: as in `get_secret`.
    """
    kept = json.loads(get_secret(name, period))
    return [one for one in (kept.get("current"), kept.get("previous")) if one]
