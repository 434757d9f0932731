"""Makes invalid variants of a user's valid access token, for tests of the API's authorizer."""

import base64
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from local.laptop.aws_process import STATE, LocalAws
from local.laptop.deploy import DeployedStack

LONG_AGO = 1_700_000_000


def invalid_tokens(aws: LocalAws, stack: DeployedStack, real: str) -> Mapping[str, str]:
    """Return invalid variants of an access token. The key of each variant names its defect."""
    key = read_pool_key(aws, stack)
    issuer = claims_of(real)["iss"]
    header, _, signature = real.split(".")
    return {
        "expired": resign_token(real, key, exp=LONG_AGO + 3600, iat=LONG_AGO),
        "of another pool": resign_token(real, key, iss=issuer[:-4] + "none"),
        "of another issuer": resign_token(real, key, iss="https://issuer.example"),
        "of another client": resign_token(real, key, client_id="another"),
        "of a client of its own": resign_token(real, key, client_id=None),
        "signed with another key": resign_token(real, unrelated_key()),
        "not signed": unsigned_token(real, "none"),
        "signed with nothing": unsigned_token(real, "RS256"),
        "changed after it was signed": f"{header}.{encode_part({**claims_of(real), 'sub': 'staff'})}.{signature}",
        "no token at all": "x.y.z",
    }


def claims_of(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = json.loads(decode_part(token.split(".")[1]))
    return claims


def resign_token(token: str, key: rsa.RSAPrivateKey, **claims: Any) -> str:
    """Return the token with changed claims, signed with this key. If a claim is None, remove it from the token."""
    header, _, _ = token.split(".")
    mixed = {name: value for name, value in {**claims_of(token), **claims}.items() if value is not None}
    text = f"{header}.{encode_part(mixed)}"
    return f"{text}.{encode_part(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def unsigned_token(token: str, algorithm: str) -> str:
    header, claims, _ = token.split(".")
    return f"{encode_part({**json.loads(decode_part(header)), 'alg': algorithm})}.{claims}."


def read_pool_key(aws: LocalAws, stack: DeployedStack) -> rsa.RSAPrivateKey:
    """Read the private key with which the local user pool signs access tokens."""
    pool = stack.resource_name("AWS::Cognito::UserPool")
    pem = (aws.directory / STATE / "cognito-pool-keys" / f"{pool}-access.pem").read_bytes()
    key = serialization.load_pem_private_key(pem, password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


@cache
def unrelated_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def encode_part(part: bytes | Mapping[str, Any]) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode_part(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
