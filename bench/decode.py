"""Measure how long it takes to decode an image and a record of the stream.

The item is an order of five lines as Lambda delivers it. A MODIFY record has it before and after its payment. The usual
shop applies boto3's TypeDeserializer to every attribute of every image. Our shop compares the encoded images first: it
decodes the lines of a MODIFY only when code reads them, and equal lines only once. `event_publisher` never reads the
lines, `copies_reader` always does (the rows "and its lines"). Our shop also computes the id, name and time of the
change; the usual shop does not.

In the rows "from its text", both shops need most of the time for `json.loads`. Their floor parses the text with orjson.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from boto3.dynamodb.types import TypeDeserializer

from bench import BENCH_PACKAGES
from bench.measure import Figure, Spread, measure_in_turns
from functions.model import changes
from functions.model.entities import Line, Order
from functions.model.table import ORDER
from local.dynamodb_engine import Engine
from tests.support.samples import moment, order

TIMES, ROUNDS = 200, 31
Way = Callable[[], object]
_deserialize = TypeDeserializer().deserialize


def figures(engine: Engine) -> list[Figure]:  # noqa: ARG001  every section gets it
    """Measure how many microseconds it takes to decode an image, a change and a stream record."""
    loads = _orjson_loads()
    placed, paid = images()
    inserted, modified = record("INSERT", None, placed), record("MODIFY", placed, paid)
    insert, modify = json.dumps(inserted), json.dumps(modified)
    one, both = partial(deserialize, placed), partial(deserialize, placed, paid)
    rows: list[tuple[str, Way, Way, Way | None, float | None]] = [
        ("an image, INSERT", partial(ORDER.decode, placed), one, None, 1 / 2),
        ("both images, MODIFY", partial(read_lazily, placed, paid), both, None, 1 / 5),
        ("both images, MODIFY, and its lines", lambda: count_lines(*read_lazily(placed, paid)), both, None, 2 / 5),
        ("the change, INSERT", partial(changes.parse_change, inserted), one, None, None),
        ("the change, MODIFY", partial(changes.parse_change, modified), both, None, None),
        ("the change, MODIFY, and its lines", lambda: count_lines_of_record(modified), both, None, None),
        (
            "the change, INSERT, from its text",
            lambda: changes.parse_change(json.loads(insert)),
            lambda: deserialize_record(json.loads(insert)),
            partial(loads, insert),
            None,
        ),
        (
            "the change, MODIFY, from its text",
            lambda: changes.parse_change(json.loads(modify)),
            lambda: deserialize_record(json.loads(modify)),
            partial(loads, modify),
            4 / 5,
        ),
        (
            "the change, MODIFY, from its text, and its lines",
            lambda: count_lines_of_record(json.loads(modify)),
            lambda: deserialize_record(json.loads(modify)),
            partial(loads, modify),
            4 / 5,
        ),
    ]
    found = []
    for what, ours, theirs, floor, most in rows:
        ways = {"ours": ours, "usual": theirs} | ({"floor": floor} if floor else {})
        took = _microseconds(ways)
        found.append(Figure(what, "µs", took["ours"], took["usual"], took.get("floor"), most))
    for what, text in {"INSERT": insert, "MODIFY": modify}.items():
        alone = _microseconds({"both": partial(json.loads, text)})["both"]
        found.append(Figure(f"json.loads of the text, {what}", "µs", alone, alone))
    return found


def _microseconds(ways: Mapping[str, Way]) -> dict[str, Spread]:
    """Return the processor time of one call in microseconds. It is also the elapsed time: decoding never waits."""
    took = measure_in_turns(ways, rounds=ROUNDS, times=TIMES, clock=time.process_time)
    return {name: it.scaled(1e6) for name, it in took.items()}


def deserialize(*images: Any) -> list[dict[str, Any]]:
    """Decode every attribute of images, as the usual shop does."""
    return [{name: _deserialize(value) for name, value in image.items()} for image in images]


def deserialize_record(record: Any) -> list[dict[str, Any]]:
    stream_record = record["dynamodb"]
    return deserialize(*(stream_record[image] for image in ("OldImage", "NewImage") if image in stream_record))


def read_lazily(before: Any, after: Any) -> tuple[Order, Order]:
    """Decode the images of a changed order as our shop does: it decodes order lines only when code reads them."""
    is_now = ORDER.decode_lazy(after, None)
    return ORDER.decode_lazy(before, is_now), is_now


def count_lines(before: Order, after: Order) -> int:
    return len(after.lines) + len(before.lines)


def count_lines_of_record(record: Any) -> int:
    change = changes.parse_change(record)
    assert change is not None
    return count_lines(change.before, change.after)


def _orjson_loads() -> Callable[[str], object]:
    sys.path.append(str(BENCH_PACKAGES))
    try:
        loads: Callable[[str], object] = importlib.import_module("orjson").loads
    finally:
        sys.path.remove(str(BENCH_PACKAGES))
    return loads


def images() -> tuple[Any, Any]:
    """Return the images of an order of five lines: placed, and paid. As in Lambda, the images share no objects."""
    lines = {f"product-{n}": Line(name=f"Blue product {n}", price=1250 + n, quantity=1 + n % 2) for n in range(5)}
    placed = order(
        lines=lines, order_id="g4xouvh65duoz5hu2sws4jhtyq", customer_id="6c84fb90-12c4-11e1-840d-7b25c5ee775a"
    )
    paid = replace(placed, status="PAID", paid=placed.total, paid_at=moment(1), updated_at=moment(1), version=2)
    before, after = (json.loads(json.dumps(ORDER.encode(it))) for it in (placed, paid))
    return before, after


def record(name: str, before: Any, after: Any) -> dict[str, Any]:
    """Return a stream record as Lambda delivers it. `name`: "INSERT" or "MODIFY"."""
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
