"""Read items by key, and match keys against the key table, whatever the items contain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from functions.dynamodb.images import Image
from functions.dynamodb.keys import Row
from functions.shop.shop import Shop

ItemKey = tuple[str, str]


def item_key(image: Image) -> ItemKey:
    return image["PK"]["S"], image["SK"]["S"]


def match_key(row: Row[Any], key: ItemKey) -> dict[str, str] | None:
    """Return the attributes in a key of this row; None if it is another row's key. The values are not validated."""
    found = [re.fullmatch(pattern, half) for pattern, half in zip(_key_patterns(row), key, strict=True)]
    if not all(found):
        return None
    return {name: text for one in found if one for name, text in one.groupdict().items()}


@cache
def _key_patterns(row: Row[Any]) -> list[str]:
    def pattern(text: str) -> str:
        return re.sub(r"{(\w+)(:\w+)?}", r"(?P<\1>[^#]+)", text)

    return [pattern(half.text) for half in row.templates("main")]


def load_existing(shop: Shop, item_keys: Sequence[ItemKey]) -> dict[ItemKey, Image]:
    """Return the items with these keys that exist."""
    keys = [{"PK": {"S": pk}, "SK": {"S": sk}} for pk, sk in dict.fromkeys(item_keys)]
    return {item_key(image): image for image in shop.table.batch_get_raw(keys, consistent=True)} if keys else {}
