"""Tests the table of routes, by which the API imports only the module that a request needs."""

from itertools import combinations

import pytest

from functions.api.app import app
from functions.api.http.router import Route
from tests.support.route_table import TABLE, route_table


def test_the_table_has_each_route_of_each_module(pytestconfig: pytest.Config) -> None:
    """The API answers 404 to a route that is not in the table."""
    file, text = pytestconfig.rootpath / TABLE, route_table()
    if pytestconfig.getoption("record"):
        file.write_text(text, encoding="utf-8")
    elif file.read_text(encoding="utf-8") != text:
        pytest.fail(f"{TABLE} lacks routes, or has too many: run `make record`", pytrace=False)


def test_no_path_belongs_to_two_routes_of_a_method() -> None:
    """Powertools uses the first route that matches a path. With two such routes, the order of imports would decide."""
    assert not [(one.key, two.key) for one, two in combinations(app.known_routes, 2) if overlap(one, two)]


def overlap(one: Route, two: Route) -> bool:
    mine, other = one.path.split("/"), two.path.split("/")
    if one.method != two.method or len(mine) != len(other):
        return False
    return all("{" in (a[:1], b[:1]) or a == b for a, b in zip(mine, other, strict=True))
