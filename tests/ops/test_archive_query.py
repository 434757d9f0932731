"""`python -m ops archive-query`: SQL over the archive of the shop on this machine."""

from pathlib import Path

import pytest

from local.world.harness import ShopHarness
from ops.__main__ import main
from proof.support.archiving import create_delivered_order, expire_everything, run_archive

TYPES = """
SELECT items[i].type.s AS type, count(*) AS items, max(items[i].reason.s) AS reason
FROM orders CROSS JOIN UNNEST(sequence(1, cardinality(items))) AS numbers (i)
GROUP BY items[i].type.s
ORDER BY type
"""


pytestmark = pytest.mark.usefixtures("local_shop")


def test_a_query_in_a_file_shows_the_archived_orders(
    harness: ShopHarness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_delivered_order(harness)
    assert run_archive(*expire_everything(harness)) == []
    (tmp_path / "types.sql").write_text(TYPES)
    main(["archive-query", str(tmp_path / "types.sql")])
    assert capsys.readouterr().out.splitlines() == [
        "type      items  reason",
        "Invoice   1      -",
        "Order     1      -",
        "Payment   1      -",
        "Shipment  1      -",
    ]


def test_a_query_of_an_empty_archive_has_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    main(["archive-query", "SELECT order_id, day FROM orders"])
    main(["archive-query", "SELECT count(*) AS entries FROM activity"])
    assert capsys.readouterr().out.splitlines() == ["order_id  day", "entries", "0"]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT nothing FROM orders", 'Binder Error: Referenced column "nothing" not found in FROM clause!\n'),
        ("absent.sql", "cannot read absent.sql: No such file or directory\n"),
    ],
)
def test_a_query_that_cannot_run_is_a_sentence(query: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["archive-query", query])
    assert ended.value.code == 2
    assert capsys.readouterr().err == why
