"""Read items by key without decoding them, and find the type of an item from its key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from functions.dynamodb.codec import Image
from functions.dynamodb.keys import Row
from functions.shop.shop import ShopContext

ItemKey = tuple[str, str]


def item_key(image: Image) -> ItemKey:
    return image["PK"]["S"], image["SK"]["S"]


def parse_key(text: str) -> ItemKey:
    """Return the key in a text of the form "PK / SK"."""
    partition, _, sort = text.partition(" / ")
    return partition, sort


def match_key(row: Row[Any], key: ItemKey) -> dict[str, str] | None:
    """Return the attributes in an item's key, such as {"order_id": "7"}, unchecked; None for another type."""
    found = [re.fullmatch(pattern, half) for pattern, half in zip(_key_patterns(row), key, strict=True)]
    if not all(found):
        return None
    return {name: text for one in found if one for name, text in one.groupdict().items()}


@cache
def _key_patterns(row: Row[Any]) -> list[str]:
    def pattern(text: str) -> str:
        return re.sub(r"{(\w+)(:\w+)?}", r"(?P<\1>[^#]+)", text)

    return [pattern(half.text) for half in row.templates("main")]


def load_existing(shop: ShopContext, item_keys: Sequence[ItemKey]) -> dict[ItemKey, Image]:
    """Read the items with these keys, with strong consistency. The result has no entry for a key without an item."""
    keys = [{"PK": {"S": pk}, "SK": {"S": sk}} for pk, sk in dict.fromkeys(item_keys)]
    return {item_key(image): image for image in shop.table.batch_get_raw(keys, consistent=True)} if keys else {}
