"""`python -m ops export`: the files of a list, without the API."""

import json
from pathlib import Path

import pytest

from functions.shop import list_exports
from local.world.harness import ShopHarness
from ops.__main__ import main

pytestmark = pytest.mark.usefixtures("local_shop")


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_all_parts_are_in_one_file_of_each_format_with_one_header(
    harness: ShopHarness,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
) -> None:
    monkeypatch.setattr(list_exports, "ROWS_PER_PART", 1)
    harness.open_shop()
    ids = [harness.place_order(f"key-{number}") for number in range(count)]
    harness.process_all()
    year = harness.now().year
    folder = tmp_path / "new"
    main(["export", "orders", "--from", f"{year}-01-01", "--to", f"{year + 1}-01-01", "--out", str(folder)])
    header, *lines = (folder / "orders.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("order_id,customer_id,")
    rows = [json.loads(line) for line in (folder / "orders.ndjson").read_text(encoding="utf-8").splitlines()]
    assert [line.partition(",")[0] for line in lines] == [row["order_id"] for row in rows] == ids
    assert capsys.readouterr().out == f"{folder}/orders.csv and .ndjson: rows: {count}\n"


@pytest.mark.parametrize(
    ("since", "until", "why"),
    [
        ("2026-02-01", "2026-01-01", "--from must be before to\n"),
        ("2026-01-01", "2028-01-01", "--to must be at most 366 days after from\n"),
    ],
)
def test_a_wrong_range_is_a_sentence(since: str, until: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", "orders", "--from", since, "--to", until])
    assert ended.value.code == 2
    assert capsys.readouterr().err == why
