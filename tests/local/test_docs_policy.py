"""Tests that the policy of the documentation site allows exactly the inline scripts of the served page."""

import base64
import hashlib
from pathlib import Path

import pytest

from local.laptop import http_server
from local.laptop.http_server import serve_docs_file, serve_page_file

THEME = "document.documentElement.dataset.theme = 'dark'"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = (tmp_path / "site").resolve()
    folder.mkdir()
    monkeypatch.setattr(http_server, "DOCS_FOLDER", folder)
    return folder


def scripts_allowed(path: str) -> str:
    policy = serve_docs_file(path).headers["Content-Security-Policy"]
    (scripts,) = (one for one in policy.split("; ") if one.startswith("script-src "))
    return scripts


def test_an_inline_script_is_allowed_by_its_hash_and_no_other(site: Path) -> None:
    (site / "index.html").write_text(f"<script>{THEME}</script>", encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(THEME.encode()).digest()).decode()
    assert scripts_allowed("/") == f"script-src 'self' 'sha256-{digest}'"


def test_a_page_without_inline_scripts_allows_none(site: Path) -> None:
    (site / "index.html").write_text('<script src="main.js"></script>', encoding="utf-8")
    assert scripts_allowed("/") == "script-src 'self'"


@pytest.mark.parametrize(
    "path", ["/../README.md", "/%2e%2e/README.md", "/..%2fREADME.md", "/%2fetc/passwd", "/none/", "/%00"]
)
def test_no_file_outside_of_the_site_and_of_the_page_is_served(site: Path, path: str) -> None:
    (site.parent / "README.md").write_text("secret", encoding="utf-8")
    assert (serve_docs_file(path).status, serve_page_file(path).status) == (404, 404)
