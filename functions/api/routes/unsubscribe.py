"""Unsubscribing: the links in mails that turn off one kind of mails, without signing in (RFC 8058)."""

from html import escape
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import StringConstraints

from functions.api.http.context import get_language, shop
from functions.api.http.fields import LinkLanguage
from functions.api.http.router import Router
from functions.runtime import environment
from functions.shop.unsubscribe import unsubscribe

router = Router()
HTML: dict[int, Any] = {200: {"description": "The page", "content": {"text/html": {"schema": {"type": "string"}}}}}
Token = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=500)], Query(description="The token of the link.")
]
BUTTON = '<form method="post"><button name="List-Unsubscribe" value="One-Click">{}</button></form>'
# Do not use the Referrer-Policy no-referrer: a browser would then send the form with `Origin: null`.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
}


@router.get("/unsubscribe", responses=HTML)
def ask_to_unsubscribe(token: Token, language: LinkLanguage = None) -> Response[str]:
    """Show a page with a button that unsubscribes. To open it changes nothing, because mail scanners open links."""
    del token  # the POST request checks it
    text = get_language(language).text
    return _page(language, text("unsubscribe.question"), BUTTON.format(escape(text("unsubscribe.button"))))


@router.post("/unsubscribe", responses=HTML)
def unsubscribe_with_one_click(token: Token, language: LinkLanguage = None) -> Response[str]:
    """Turn off the kind of mails that the link names, unless the customer turned it on after the mail. Safe to repeat.

    The body is the form `List-Unsubscribe=One-Click` of mail programs and of the page, or empty.
    """
    text = get_language(language).text
    return _page(language, text("unsubscribe.done") if unsubscribe(shop(), token) else text("unsubscribe.outdated"))


def _page(language: str | None, text: str, form: str = "") -> Response[str]:
    name = escape(environment.load_environment(environment.ApiEnvironment).shop_name)
    code = get_language(language).code
    head = f'<!doctype html><html lang="{code}"><head><meta charset="utf-8"><title>{name}</title></head>'
    body = f"<h1>{name}</h1><p>{escape(text)}</p>{form}"
    return Response(200, "text/html; charset=utf-8", f"{head}<body>{body}</body></html>", HEADERS)
