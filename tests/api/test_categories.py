"""Categories: staff create them, and all users read them."""

from itertools import accumulate
from typing import Any

from proof.support.http_client import STAFF, ApiHarness

TREE = ("/kitchen/", "/kitchen/cups/", "/kitchen/mugs/", "/kitchen/mugs/blue/", "/garden/")


def grow(api: ApiHarness, *paths: str, **more: Any) -> None:
    for path in paths:
        made = api.call("POST", "/categories", STAFF, {"path": path, "name": f"Name of {path}"[:200], **more})
        assert made.status == 201, made.text


def listed(api: ApiHarness, route: str, **query: Any) -> list[str]:
    """Return the paths of a list's categories."""
    return [category["path"] for category in api.call("GET", f"/categories/{route}", **query).body["items"]]


def test_a_new_category_is_shown_to_all_users_with_its_ancestors(bare: ApiHarness) -> None:
    grow(bare, *TREE)
    made = bare.call("POST", "/categories", STAFF, {"path": "/kitchen/mugs/red/", "name": "Red mugs"})
    location = "/categories?path=%2Fkitchen%2Fmugs%2Fred%2F&catalog=main"
    assert (made.status, made.headers["location"]) == (201, location)
    seen = bare.call("GET", "/categories", path_="/kitchen/mugs/red/", catalog="main").body
    assert [one["path"] for one in seen.pop("ancestors")] == ["/kitchen/", "/kitchen/mugs/"]
    assert seen == made.body
    assert (seen["catalog"], seen["parent"], seen["name"], seen["version"]) == (
        "main", "/kitchen/mugs/", "Red mugs", 1,
    )  # fmt: skip


def test_a_list_continues_after_the_longest_possible_path(bare: ApiHarness) -> None:
    above = list(accumulate((f"{'x' * 40}/" for _ in range(23)), initial="/"))[1:]
    longest = [f"{above[-1]}{letter * 40}/" for letter in "ab"]
    assert {len(path) for path in longest} == {985}
    grow(bare, *above, *longest)
    for route in ("children", "descendants"):
        first = bare.call("GET", f"/categories/{route}", path_=above[-1], limit=1).body
        assert [first["items"][0]["path"]] == longest[:1]
        assert listed(bare, route, path_=above[-1], limit=1, cursor=first["cursor"]) == longest[1:]
