"""Tests that the local S3 accepts a link to an object as it was signed, with the key of the local AWS in its path."""

from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from ministack.services import s3  # type: ignore[import-untyped]

from local.laptop.aws_server import verify_links_with_key
from local.world.dynamodb_engine import CREDENTIALS, REGION


def status(link: str, expected_path: str = "/exports/x.csv") -> int | None:
    """Return the status of ministack's error for a link, or None if it accepts the link."""
    url = urlsplit(link)
    assert url.path == f"/key{expected_path}"
    query = parse_qs(url.query)
    error = s3._verify_presigned_sigv4("GET", expected_path, {"host": url.netloc}, query)
    return int(error[0]) if error else None


def test_a_link_is_accepted_until_it_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "_verify_presigned_sigv4", s3._verify_presigned_sigv4)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name.upper(), value)
    verify_links_with_key("key")
    client = boto3.client("s3", endpoint_url="http://127.0.0.1:1/key", region_name=REGION, **CREDENTIALS)
    link = client.generate_presigned_url("get_object", Params={"Bucket": "exports", "Key": "x.csv"}, ExpiresIn=900)
    assert status(link) is None
    assert status(link.replace("X-Amz-Expires=900", "X-Amz-Expires=901")) == 403
