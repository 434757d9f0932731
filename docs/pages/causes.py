"""The page Causes of the site: what can hold up an order, and what a person can do about it."""

from docs import markdown
from functions.shop.diagnosis import ACTIONS, CAUSES


def render_page() -> str:
    rows = [
        (f"`{one.name}`", one.text, _format_wait(one.after.total_seconds()), ACTIONS[one.action] + _source(one.find))
        for one in CAUSES
    ]
    return markdown.join_page("What an order waits for", [INTRODUCTION, markdown.render_table(HEAD, rows)])


HEAD = ("cause", "what the order waits for", "shown after", "what to do")
INTRODUCTION = """
`python -m ops order ID`, `GET /orders/{order_id}/diagnosis` and, for staff, the page of an order show each cause that
holds, with its item, since when it holds, and when the shop goes on if that is known. Without a cause, they show what
comes next.
"""


def _format_wait(seconds: float) -> str:
    days, minutes = int(seconds) // 86_400, int(seconds) // 60
    return f"{days} d" if days else f"{minutes} min" if minutes else "at once"


def _source(find: object) -> str:
    return "" if find else " Only `ops order` shows it."
