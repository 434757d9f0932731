"""The `archive-query` command: run SQL over the archive of the local shop, with DuckDB.

On AWS, Athena runs the same SQL over the same columns (docs/analytics.md).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from functions.model.archive_columns import ColumnType, archive_columns, archive_views
from ops import targets
from ops.cli_errors import UsageError
from ops.scan.progress import ProgressReport
from ops.terminal_text import align_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PATHS = {"orders": "orders/day=*/*/*.json", "activity": "activity/day=*/*.ndjson.gz"}
"""The objects of each table, as a pattern. As in Athena, the pattern leaves out objects of S3 with old keys (without
`day=`)."""
TRINO_FUNCTIONS = (
    "CREATE MACRO cardinality(list) AS len(list)",
    "CREATE MACRO sequence(first, last) AS generate_series(first, last)",
)
"""Functions of Athena (Trino) in docs/analytics.md, defined for DuckDB, where they have other names."""


def open_archive(folder: Path, live: Path | None = None) -> DuckDBPyConnection:
    """Return a database in memory with the tables and views of the archive. `folder`: a copy of the archive bucket.

    `live`: an NDJSON file of exported orders. The view `order_facts` then also has these.
    """
    import duckdb  # noqa: PLC0415  the other tools do not need it, and it takes a while to import

    database = duckdb.connect()
    for function in TRINO_FUNCTIONS:
        database.execute(function)
    for table, columns in archive_columns().items():
        types = {name: duckdb_type(kind) for name, kind in columns.items()}
        declared = [f'"{name}" {kind}' for name, kind in {**types, "day": "VARCHAR"}.items()]
        database.execute(f"CREATE TABLE {table} ({', '.join(declared)})")
        if any(folder.glob(PATHS[table])):
            objects = database.read_json(
                str(folder / PATHS[table]),
                columns=types,
                format="newline_delimited",
                hive_partitioning=True,
                hive_types_autocast=False,
            )
            objects.insert_into(table)
    for name, view in archive_views().items():
        query = view.query
        if live and name == "order_facts":
            plain = {column: kind for column, kind in view.columns.items() if column != "day"}
            database.read_json(str(live), columns=plain, format="newline_delimited").create("exported")
            rest = "FROM exported WHERE order_id NOT IN (SELECT order_id FROM orders)"
            query += f" UNION ALL SELECT substr(placed_at, 1, 10), {', '.join(plain)} {rest}"
        database.execute(f"CREATE VIEW {name} AS {query}")
    return database


def duckdb_type(kind: ColumnType) -> str:
    """Return a type of functions/model/archive_columns.py in the notation of DuckDB."""
    match kind:
        case str(name):
            return {"string": "VARCHAR", "int": "INTEGER", "boolean": "BOOLEAN"}[name]
        case ("array", inner):
            return f"{duckdb_type(inner)}[]"
        case ("map", inner):
            return f"MAP(VARCHAR, {duckdb_type(inner)})"
        case structure:
            parts = (f'"{name}" {duckdb_type(part)}' for name, part in dict(structure).items())
            return f"STRUCT({', '.join(parts)})"


def copy_archive(s3: Any, bucket: str, folder: Path) -> int:
    """Copy all objects of the archive bucket into a folder. Return their number."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [one["Key"] for page in pages for one in page.get("Contents", ())]
    progress = ProgressReport("archive")
    for number, key in enumerate(keys, 1):
        progress.update(number / len(keys), f"{number:,} of {len(keys):,} objects")
        file = folder / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    return len(keys)


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "archive-query",
        help="run SQL over the archive of the local shop, as Athena does on AWS",
        description="The tables are orders and activity, and flat views such as order_facts: see docs/analytics.md.",
    )
    targets.add_state_option(parser)
    parser.add_argument(
        "--live", type=Path, metavar="FILE", help="let order_facts also have the orders of `ops export orders`"
    )
    parser.add_argument("query", metavar="FILE|SQL", help="a file with a query, or the query itself")
    parser.set_defaults(run=run_query)


def run_query(args: argparse.Namespace) -> None:
    """Print the result of a query."""
    import duckdb  # noqa: PLC0415  slow

    query, where = _read_query(args.query), args.find_local_target(args.state)
    with TemporaryDirectory() as name:
        copy_archive(where.client("s3"), where.outputs["ArchiveBucket"], Path(name))
        try:
            result = open_archive(Path(name), args.live).execute(query)
        except duckdb.Error as error:
            raise UsageError(str(error).partition("\n")[0]) from None
        columns, rows = [one[0] for one in result.description or ()], result.fetchall()
    cells = (["-" if cell is None else str(cell) for cell in row] for row in rows)
    print("\n".join(align_columns(columns, cells, indent="")))


def _read_query(text: str) -> str:
    """Return the query: the text itself if it has several words, otherwise the content of the file with this name."""
    if len(text.split()) > 1:
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {text}: {error.strerror}") from None
