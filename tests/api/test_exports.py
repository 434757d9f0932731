"""List exports: the request, the progress with links, and problems that name the field."""

from urllib.parse import parse_qs, urlsplit

from functions.dynamodb.writes import put_if_absent
from functions.model.table import LIST_EXPORT
from proof.support.http_client import STAFF, ApiHarness
from proof.support.samples import AT, SAMPLES

NOVEMBER = {"list": "orders", "from": "2026-11-01", "to": "2026-12-01"}


def test_an_export_is_accepted_and_its_progress_has_no_links_before_its_first_part(api: ApiHarness) -> None:
    accepted = api.call("POST", "/exports", STAFF, NOVEMBER, key="k")
    assert (accepted.status, list(accepted.body)) == (202, ["export_id"])
    again = api.call("POST", "/exports", STAFF, NOVEMBER, key="k")
    assert (again.status, again.body, again.headers["idempotent-replayed"]) == (202, accepted.body, "true")
    found = api.call("GET", accepted.headers["location"], STAFF).body
    assert found.pop("created_at") == found.pop("updated_at") < found.pop("expires_at")
    assert (found["from"], found["to"]) == ("2026-11-01T00:00:00.000Z", "2026-12-01T00:00:00.000Z")
    assert (found["list"], found["status"], found["rows"], found["parts"]) == ("orders", "REQUESTED", 0, [])


def test_a_written_part_has_links_that_live_15_minutes(bare: ApiHarness) -> None:
    export = SAMPLES[LIST_EXPORT]
    bare.shop.table.write(put_if_absent(LIST_EXPORT, export))
    found = bare.call("GET", f"/exports/{export.export_id}", STAFF).body
    assert (found["status"], found["rows"], found["reached"]) == ("RUNNING", 3, AT)
    (part,) = found["parts"]
    assert list(part) == ["csv", "ndjson"]
    for ending, url in part.items():
        assert urlsplit(url).path.endswith(f"{export.object_names[0]}.{ending}")
        assert parse_qs(urlsplit(url).query)["X-Amz-Expires"] == ["900"]
