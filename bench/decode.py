"""Decoding: images and records of the stream, per image and per record.

The item is an order of five lines as it comes through the stream: as Lambda hands it over, once parsed and once as the
text that is parsed first. A MODIFY is the same order as it was and as it is, paid meanwhile. The usual way is boto3's
TypeDeserializer on every attribute of every image. Ours reads a MODIFY up to the typed change (its id, name and time),
which the usual way would still have to find out, and leaves the lines, alike in both images, until somebody asks; the
line "and its lines" asks. The floor parses the text by orjson.
"""

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from boto3.dynamodb.types import TypeDeserializer

from bench.measure import Figure, side_by_side
from functions.model import changes
from functions.model.entities import Line
from functions.model.table import ORDER
from local.engine import Engine
from stacks import PROJECT
from tests.model.samples import moment, order

TIMES, ROUNDS = 400, 31
Way = Callable[[], object]


def figures(engine: Engine) -> list[Figure]:  # noqa: ARG001  the same for all sections
    """Microseconds per image, per change and per record."""
    sys.path.append(str(PROJECT / "build" / "bench"))
    loads = importlib.import_module("orjson").loads
    placed, paid = images()
    inserted, modified = record("INSERT", None, placed), record("MODIFY", placed, paid)
    text = json.dumps(modified)
    deserialize = TypeDeserializer().deserialize

    def usual(*images: Any) -> Any:
        return [{name: deserialize(value) for name, value in image.items()} for image in images]

    def glanced() -> Any:
        return ORDER.glance(placed, ORDER.glance(paid, None))

    def with_lines() -> int:
        change = changes.read(modified)
        assert change is not None
        return len(change.before.lines) + len(change.after.lines)

    def parsed() -> Any:
        return changes.read(json.loads(text))

    def both(told: Any) -> Any:
        return usual(told["dynamodb"]["OldImage"], told["dynamodb"]["NewImage"])

    rows: list[tuple[str, Way, Way, Way | None, float | None]] = [
        ("an image, INSERT", lambda: ORDER.read(placed), lambda: usual(placed), None, 1 / 5),
        ("both images, MODIFY", glanced, lambda: usual(placed, paid), None, 1 / 12),
        ("the change, INSERT", lambda: changes.read(inserted), lambda: usual(placed), None, None),
        ("the change, MODIFY", lambda: changes.read(modified), lambda: usual(placed, paid), None, None),
        ("the change, MODIFY, and its lines", with_lines, lambda: usual(placed, paid), None, None),
        ("the change, MODIFY, from its text", parsed, lambda: both(json.loads(text)), lambda: loads(text), 1 / 1.9),
    ]
    found = []
    for what, ours, theirs, floor, most in rows:
        ways = {"ours": ours, "usual": theirs} | ({"floor": floor} if floor else {})
        took = {name: it.times(1e6) for name, it in side_by_side(ways, rounds=ROUNDS, times=TIMES).items()}
        found.append(Figure(what, "µs", took["ours"], took["usual"], took.get("floor"), most))
    return found


def images() -> tuple[Any, Any]:
    """An order of five lines as it was placed, and as it is paid; two separate texts, parsed."""
    lines = {f"product-{n}": Line(name=f"Blue product {n}", price=1250 + n, quantity=1 + n % 2) for n in range(5)}
    placed = order(
        lines=lines, order_id="g4xouvh65duoz5hu2sws4jhtyq", customer_id="6c84fb90-12c4-11e1-840d-7b25c5ee775a"
    )
    paid = replace(
        placed, status="PAID", paid=placed.total, paid_at=moment(1), updated_at=moment(1), version=2, reached=2
    )
    before, after = (json.loads(json.dumps(ORDER.write(it))) for it in (placed, paid))
    return before, after


def record(name: str, before: Any, after: Any) -> dict[str, Any]:
    """A record as Lambda hands it over."""
    images = {"NewImage": after} | ({"OldImage": before} if before else {})
    about = {
        "Keys": {key: after[key] for key in ("PK", "SK")},
        "SequenceNumber": "100000000000000000001",
        "SizeBytes": 2048,
    }
    return {
        "eventID": "c4ca4238a0b923820dcc509a6f75849b",
        "eventName": name,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-central-1",
        "dynamodb": {
            **about,
            **images,
            "ApproximateCreationDateTime": 1795255800,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
        "eventSourceARN": "arn:aws:dynamodb:eu-central-1:123456789012:table/orders/stream/2026-11-21T09:30:00.000",
    }
