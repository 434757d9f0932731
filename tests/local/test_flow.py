"""Tests that the page's drawing of the shop is made from the declarations, so that it shows each new part."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from functions.model.reactions import REACTIONS, Reaction
from local.laptop.poller import mapping_id
from local.laptop.shop_client import PROJECT
from local.page import flow, flow_monitor
from local.page.flow import describe_flow
from local.page.flow_monitor import count_by_node, read_last_calls
from proof.support.synthesized import synthesize

Drawn = dict[str, Any]


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    found: dict[str, Any] = synthesize("orderstream-dev").body
    return found


@pytest.fixture(scope="module")
def drawn(template: dict[str, Any]) -> Drawn:
    return describe_flow(template)


def nodes(drawn: Drawn) -> dict[str, Any]:
    return {node["id"]: node for node in drawn["nodes"]}


def targets(drawn: Drawn, source: str) -> set[str]:
    return {edge["to"] for edge in drawn["edges"] if edge["from"] == source}


def test_every_reaction_and_every_lambda_is_drawn(drawn: Drawn) -> None:
    handlers = {file.stem for file in (PROJECT / "functions" / "handlers").glob("*.py")} - {"__init__", "canary"}
    modules = {module for node in drawn["nodes"] for module in (node.get("module") or "").split(", ")}
    assert {Path(module).stem for module in modules if module.startswith("functions/handlers/")} == handlers
    assert targets(drawn, "bus") == {reaction.name for reaction in REACTIONS}
    ends = {edge[end] for edge in drawn["edges"] for end in ("from", "to")}
    assert ends == nodes(drawn).keys(), "each node has an edge, and both ends of each edge are nodes"


def test_a_new_reaction_appears_by_itself(template: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    survey = Reaction("survey", ("OrderDelivered",), effect="asks the customer", idempotent_by="the order")
    resources = copy.deepcopy(template["Resources"])
    [rule] = [one for id, one in resources.items() if id.startswith("WarehouseReactionRule")]
    resources["Survey"] = rule | {"Properties": rule["Properties"] | {"Description": f"survey: {survey.effect}"}}
    monkeypatch.setattr(flow, "REACTIONS", (*REACTIONS, survey))
    drawn = describe_flow({**template, "Resources": resources})
    assert nodes(drawn)["survey"]["about"] == "Asks the customer."
    assert nodes(drawn)["survey"]["events"] == ["OrderDelivered"]
    assert "survey" in targets(drawn, "bus")


def test_the_drawing_has_the_edges_of_the_docs(drawn: Drawn) -> None:
    [diagram] = re.findall(r"```mermaid\n(.*?)```", (PROJECT / "docs" / "flow.md").read_text(), re.DOTALL)
    assert {name.removesuffix("_worker") for name in re.findall(r"bus --> (\w+)", diagram)} == targets(drawn, "bus")
    assert set(re.findall(r"table -->\|stream\| (\w+)", diagram)) == targets(drawn, "table")
    scheduled = set(re.findall(r"\(\(.*\)\) --> (\w+)", diagram))
    assert {name for name, _ in nodes(drawn)["schedules"]["settings"]} == scheduled


def test_the_effects_of_a_reaction_follow_from_its_permissions(drawn: Drawn) -> None:
    assert {one.name: targets(drawn, one.name) for one in REACTIONS} == {
        "fulfilment": {"table"},
        "order_notification": {"mail"},
        "product_alert": {"mail"},
        "refund": {"provider"},
        "customer_name": {"table"},
        "archive": {"archive_bucket"},
        "import": {"table"},
        "export": {"table"},
        "webhook": {"table"},
        "warehouse": {"api"},
    }
    assert targets(drawn, "copies_reader") == {"table"}
    assert targets(drawn, "event_publisher") == {"bus"}


def test_the_settings_of_a_node_are_those_of_the_template(drawn: Drawn) -> None:
    refund, reader = nodes(drawn)["refund"], nodes(drawn)["copies_reader"]
    assert {"Maximum receive count": "15", "Timeout": "180 s", "Batch size": "10"}.items() <= dict(
        refund["settings"]
    ).items()
    assert dict(reader["settings"])["Maximum record age"] == "12 h"
    assert dict(reader["settings"])["Retries"] == "until the record is too old"
    assert "Order" in dict(reader["settings"])["Filter"]
    assert {"Table", "SecretsProvider", "RefundReactionQueue"} <= set(refund["reads"])
    assert "FailuresBucket/parked/*" in refund["writes"]


def test_every_switch_of_a_node_names_what_it_breaks(drawn: Drawn) -> None:
    for name, node in nodes(drawn).items():
        for switch in node["switches"]:
            assert {switch.get("of"), switch.get("name")} <= {name, None}
    assert {one["switch"] for node in drawn["nodes"] for one in node["switches"]} == {
        "fail", "twice", "reader", "poison", "kill", "mails", "slow", "delivery"
    }  # fmt: skip


def test_stored_failures_count_at_their_node_until_they_are_redriven() -> None:
    given_up = f"aws/lambda/{mapping_id('CopiesReader')}/shardId-1/2026/11/25/x"
    keys = {"parked/refund/a.json", "parked/refund/b.json", "redriven/parked/refund/a.json", given_up, "odd"}
    assert count_by_node(keys, {mapping_id("CopiesReader"): "copies_reader"}) == {
        "refund": 1, "copies_reader": 1, "unknown": 1
    }  # fmt: skip


def test_the_last_calls_of_a_function_are_read_with_their_lines(tmp_path: Path) -> None:
    log = tmp_path / "functions.log"

    def line(call: int, function: str = "refund", **more: Any) -> str:
        about = {"timestamp": f"2026-11-25T00:00:{call:02}.000Z", "level": "INFO", "message": "refund_processed"}
        return json.dumps(about | {"function": function, "invocation": str(call)} | more)

    assert read_last_calls(log, {"refund"}) == []
    metrics = json.dumps({"_aws": {}, "function": "refund", "ReadUnits": 1})
    lines = [line(number, order_id="o") for number in range(12)]
    log.write_text("\n".join([*lines, line(11, level="ERROR"), line(3, "archive"), metrics, "no JSON", "[]", ""]))
    calls = read_last_calls(log, {"refund"})
    assert [call["invocation"] for call in calls] == [str(number) for number in range(11, 1, -1)]
    assert [one["level"] for one in calls[0]["lines"]] == ["INFO", "ERROR"]
    assert calls[0]["lines"][0]["fields"] == {"order_id": "o"}


def test_a_long_log_is_read_only_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_monitor, "LOG_TAIL_BYTES", 500)
    log = tmp_path / "functions.log"
    lines = [{"function": "refund", "invocation": str(number), "message": "done"} for number in range(100)]
    log.write_text("\n".join(map(json.dumps, lines)))
    assert read_last_calls(log, {"refund"})[0]["invocation"] == "99"
    assert len(read_last_calls(log, {"refund"})) < 10
