import pytest

from local.laptop.browser_guard import rejection_reason

PORT = 4566
OWN = {"host": "127.0.0.1:4566"}
CROSS_SITE = {"sec-fetch-site": "cross-site"}


@pytest.mark.parametrize(
    "headers",
    [
        OWN,
        {"host": "localhost:4566"},
        {**OWN, "origin": "http://127.0.0.1:4566", "sec-fetch-site": "same-origin"},
        {**OWN, "origin": "http://localhost:4566"},
        {**OWN, "sec-fetch-site": "none"},
    ],
)
def test_programs_and_our_own_pages_are_let_through(headers: dict[str, str]) -> None:
    assert rejection_reason("POST", headers, PORT) is None


@pytest.mark.parametrize(
    "host", ["evil.test:4566", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:4566.evil.test", "127.0.0.1:4566, a", "", None]
)
def test_a_request_to_another_name_is_refused(host: str | None) -> None:
    headers = {} if host is None else {"host": host}
    assert rejection_reason("GET", headers, PORT) == "The Host header must be 127.0.0.1:4566 or localhost:4566."


@pytest.mark.parametrize("origin", ["null", "https://evil.test", "http://127.0.0.1:4568", "https://127.0.0.1:4566", ""])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_page_of_another_origin_is_refused(method: str, origin: str) -> None:
    """A page at another port of localhost is "same-site" for the browser, but must be refused too."""
    assert rejection_reason(method, {**OWN, "origin": origin, "sec-fetch-site": "same-site"}, PORT)


@pytest.mark.parametrize("allowed", ["http://localhost:5173", "*"])
def test_a_page_that_the_api_allows_is_let_through(allowed: str) -> None:
    headers = {**OWN, **CROSS_SITE, "origin": "http://localhost:5173"}
    assert rejection_reason("OPTIONS", headers, PORT, [allowed]) is None
    assert rejection_reason("OPTIONS", headers, PORT, ["http://localhost:5174"])
    assert rejection_reason("OPTIONS", {**headers, "host": "evil.test"}, PORT, [allowed])


@pytest.mark.parametrize(
    "what",
    [
        {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"},
        {"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        {"sec-fetch-mode": "websocket", "sec-fetch-dest": "empty"},
        {},
    ],
)
def test_a_resource_embedded_by_another_page_is_rejected(what: dict[str, str]) -> None:
    assert (
        rejection_reason("GET", {**OWN, **CROSS_SITE, **what}, PORT)
        == "Web pages of other sites must not call this server."
    )


def test_a_link_in_another_page_can_be_followed_but_sends_no_form() -> None:
    link = {**OWN, **CROSS_SITE, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert rejection_reason("GET", link, PORT) is None
    assert rejection_reason("POST", link, PORT)
    assert rejection_reason("GET", link, PORT, allow_navigation=False)
