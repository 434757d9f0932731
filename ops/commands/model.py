"""The `model` command: export the declarations of all item types in model/table.py as a model for NoSQL Workbench.

NoSQL Workbench is AWS's design tool for DynamoDB tables. The model has the format of its exports (version 3.0): the
indexes, and a facet (a view) with sample items for each item type. Samples are generated from the declared types, and
encoded by the code of the shop, so their keys are correct.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

from docs.pages import model
from functions.dynamodb.codec import is_list, is_map, unwrap_newtype, unwrap_optional
from functions.dynamodb.keys import KEY_ATTRIBUTES, IndexName, Instant, Row, instant_from_epoch
from functions.model import entities as e
from functions.model import table as t
from ops import targets
from ops.attribute_types import attribute_types

MODEL_NAME = "Orderstream"
WRITTEN_AT = "Nov 21, 2026, 09:30 AM"
"""The creation date in the exported file. The date is fixed, so that the file changes only if the model changes."""
SAMPLE_EPOCH = 1_795_253_400
SAMPLE_TIME = instant_from_epoch(SAMPLE_EPOCH)
SAMPLE_VALUES: Mapping[str, Any] = {  # for these fields, a value generated from the type may be invalid
    "country": "AT",
    "parent": e.ROOT_CATEGORY,
    "catalog": e.DEFAULT_CATALOG,
    "part": 0,
    "season": SAMPLE_TIME[:7],
    "shard": "0",
    "event": "OrderPlaced",
    "ttl": 2**33,
    "valid_until": None,  # None: the item is valid without an end date
    "discontinued": False,
    "currency": "EUR",
    "discount": None,
    "guest_id": None,
    "joined_version": None,
}
NUMBERED_VALUES: Mapping[str, Sequence[Any]] = {
    "customer_id": ("ann", "bob", "cleo"),
    "customer_name": ("Ann Ash", "Bob Birch", "Cleo Cole"),
    "email": ("ann@example.com", "bob@example.com", "cleo@example.com"),
    "company_id": ("acme", "initech", "elm-and-sons"),
    "order_id": ("order-1", "order-2", "order-3"),
    "product_id": ("blue-mug", "teapot", "milk-jug"),
    "code": ("SPRING", "SUMMER", "AUTUMN"),
    "carrier": ("DHL", "UPS", "DHL"),
    "reason": ("broken handle", "wrong colour", "too late"),
    "text": ("Does not drip.", "The handle came off.", "Bluer than it looks."),
    "street": ("1 Elm Row", "2 Oak Lane", "3 Ash Way"),
    "postcode": ("1010", "8010", "5020"),
    "city": ("Wien", "Graz", "Salzburg"),
    "stars": (5, 1, 4),
    "price": (1250, 3400, 990),
    "total": (1840, 3990, 1580),
    "paid": (1840, 3990, 1580),
    "amount": (1840, 3990, 1580),
    "shipping": (590, 590, 590),
    "tax_rate": (2000, 2000, 2000),
    "path": ("/kitchen/", "/kitchen/mugs/", "/kitchen/tea/"),
    "category": ("/kitchen/", "/kitchen/mugs/", "/kitchen/tea/"),
}
"""The values of these fields in the samples with the numbers 1, 2 and 3, so that the samples differ visibly."""
NAMES: Mapping[str, Sequence[str]] = {
    "Company": ("Acme", "Initech", "Elm & Sons"),
    "Category": ("Kitchen", "Mugs", "Tea"),
    **dict.fromkeys(("Product", "Sale", "Line"), ("Blue mug", "Teapot", "Milk jug")),
}
"""The names in the samples of these classes. Samples of all other classes have the name of a customer."""
PRODUCT_MAPS = ("lines", "quantities", "restocked", "backordered")
"""The fields whose keys are product ids."""


def render_model() -> str:
    """Return the data model for NoSQL Workbench as JSON."""
    return json.dumps(build_data_model(), indent=2, ensure_ascii=False)


def build_data_model() -> dict[str, Any]:
    keys = [name for index, pair in KEY_ATTRIBUTES.items() if index != "main" for name in pair]
    return {
        "ModelName": MODEL_NAME,
        "ModelMetadata": {
            "Author": MODEL_NAME,
            "DateCreated": WRITTEN_AT,
            "DateLastModified": WRITTEN_AT,
            "Description": (t.__doc__ or "").partition("\n")[0],
            "AWSService": "Amazon DynamoDB",
            "Version": "3.0",
        },
        "DataModel": [
            {
                "TableName": MODEL_NAME,
                "KeyAttributes": _key_attributes("main"),
                "NonKeyAttributes": [
                    *({"AttributeName": name, "AttributeType": "S"} for name in keys),
                    *({"AttributeName": name, "AttributeType": tag} for name, tag in attribute_types().items()),
                ],
                "TableFacets": [_build_facet(row) for row in t.ROWS],
                "GlobalSecondaryIndexes": [
                    {
                        "IndexName": index.upper(),
                        "KeyAttributes": _key_attributes(index),
                        "Projection": t.projection(index.upper()),
                    }
                    for index in KEY_ATTRIBUTES
                    if index != "main"
                ],
                "DataAccess": {"MySql": {}},
                "BillingMode": t.create_table_request(MODEL_NAME)["BillingMode"],
            }
        ],
    }


def sample_items(row: Row[Any]) -> Iterator[dict[str, Any]]:
    """Yield sample items in DynamoDB JSON, with bytes as base64: of Ann, and of Cleo if the key differs.

    A type that replaces another type under the same key, such as an archived order, has one sample, of Bob.
    """
    first, *others = [_sample_item(row, number) for number in ((1, 3) if row.replaces is None else (2,))]
    yield first
    yield from (item for item in others if (item["PK"], item["SK"]) != (first["PK"], first["SK"]))


def _sample_item(row: Row[Any], number: int) -> dict[str, Any]:
    image = row.encode(_choose_indexed_state(row, _make_sample(row.entity, number)))
    return {
        name: {"B": base64.b64encode(value["B"]).decode()} if "B" in value else value for name, value in image.items()
    }


def _choose_indexed_state(row: Row[Any], item: Any) -> Any:
    """Return the item with a status that puts it into all indexes of its type, or unchanged if there is none."""
    keys = {name for index in row.indexes for name in KEY_ATTRIBUTES[index]}
    states = typing.get_args(typing.get_type_hints(row.entity).get("status"))
    variants = [item, *(replace(item, status=state) for state in states)]
    return next((one for one in variants if keys <= row.encode(one).keys()), item)


def _build_facet(row: Row[Any]) -> dict[str, Any]:
    partition, sort = row.templates("main")
    keys = [name for index in row.indexes if index != "main" for name in KEY_ATTRIBUTES[index]]
    return {
        "FacetName": row.type,
        "KeyAttributeAlias": {"PartitionKeyAlias": partition.text, "SortKeyAlias": sort.text},
        "TableData": list(sample_items(row)),
        "NonKeyAttributes": [*keys, "type", "schema", *row.fields],
        "DataAccess": {"MySql": {}},
    }


def _key_attributes(index: IndexName) -> dict[str, Any]:
    names = zip(("PartitionKey", "SortKey"), KEY_ATTRIBUTES[index], strict=True)
    return {key: {"AttributeName": name, "AttributeType": "S"} for key, name in names}


def _make_sample(cls: type[Any], number: int) -> Any:
    hints = typing.get_type_hints(cls)
    values = {name: _sample_value(name, hints[name], number) for name in hints}
    if cls is e.Customer:
        values |= {"order_id": None, "link": None}  # a registered customer, not a guest
    if hints.get("name") is str:
        values["name"] = NAMES.get(cls.__name__, NUMBERED_VALUES["customer_name"])[number - 1]
    return cls(**values)


def _sample_value(name: str, hint: Any, number: int) -> Any:
    """Return a sample value for a field: the value in SAMPLE_VALUES or NUMBERED_VALUES, or else a value of its type."""
    if name in SAMPLE_VALUES:
        return SAMPLE_VALUES[name]
    hint = unwrap_optional(hint) or hint
    if name in NUMBERED_VALUES and unwrap_newtype(hint) is type(NUMBERED_VALUES[name][0]):
        return NUMBERED_VALUES[name][number - 1]
    choices = typing.get_args(hint)
    if hint is Instant:
        return instant_from_epoch(SAMPLE_EPOCH + (number - 1) * 86_400)
    if is_list(hint):
        return (_sample_value(name, choices[0], number),)
    if is_map(hint):
        key = NUMBERED_VALUES["product_id"][number - 1] if name in PRODUCT_MAPS else f"{name}-{number}"
        return {key: _sample_value(name, choices[1], number)}
    if isinstance(hint, type) and is_dataclass(hint):
        return _make_sample(hint, number)
    if typing.get_origin(hint) is typing.Literal:
        return choices[0]
    return {str: f"{name}-{number}", int: number, bool: True, bytes: name.encode()}[hint]


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser("model", help="export the key table as a diagram or a NoSQL Workbench model")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--diagram", action="store_true", help="print an entity diagram as Mermaid text")
    which.add_argument(
        "--workbench",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write a data model for NoSQL Workbench (default: to stdout)",
    )
    parser.set_defaults(run=export_model)


def export_model(args: argparse.Namespace) -> None:
    """Export the declarations as a diagram, or as a model for NoSQL Workbench, to stdout or to a file."""
    if args.diagram:
        print(model.render_diagram())
    elif args.workbench == "-":
        print(render_model())
    else:
        try:
            Path(args.workbench).write_text(render_model() + "\n", encoding="utf-8")
        except OSError as error:
            sys.exit(f"Cannot write the file: {error}")
