"""Where items lie, and what their keys tell of them, whatever lies there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from functions.dynamodb.images import Image
from functions.dynamodb.keys import Row
from functions.shop.shop import Shop

Place = tuple[str, str]


def place_of(image: Image) -> Place:
    return image["PK"]["S"], image["SK"]["S"]


def fields_of(row: Row[Any], place: Place) -> dict[str, str] | None:
    """What a key tells of an item of this row; None where it is another row's. Its attributes may be false."""
    found = [re.fullmatch(pattern, half) for pattern, half in zip(_patterns(row), place, strict=True)]
    if not all(found):
        return None
    return {name: text for one in found if one for name, text in one.groupdict().items()}


@cache
def _patterns(row: Row[Any]) -> list[str]:
    def pattern(text: str) -> str:
        return re.sub(r"{(\w+)(:\w+)?}", r"(?P<\1>[^#]+)", text)

    return [pattern(half.text) for half in row.templates("main")]


def there(shop: Shop, places: Sequence[Place]) -> dict[Place, Image]:
    """What lies at these places."""
    keys = [{"PK": {"S": pk}, "SK": {"S": sk}} for pk, sk in dict.fromkeys(places)]
    return {place_of(image): image for image in shop.table.images(keys, consistent=True)} if keys else {}
