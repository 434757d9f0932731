"""Tests schedules: when the local clock advances, each schedule of the template runs at least once, and at the end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local.laptop.deploy import DeployedStack
from local.laptop.schedules import Schedule, find_schedules, parse_rate, run_schedules, run_times
from local.up import synthesize_template

START = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


def test_every_schedule_of_the_template_is_found() -> None:
    template = synthesize_template()
    rules = {
        id
        for id, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Events::Rule" and "ScheduleExpression" in resource["Properties"]
    }
    found = find_schedules(DeployedStack(template, {}, {id: id for id in template["Resources"]}))
    assert {one.rule_arn.rpartition("/")[2] for one in found} == rules
    intervals = {name.partition("Function")[0]: one.interval for one in found for name, _ in one.targets}
    minute = timedelta(minutes=1)
    assert intervals == {
        "OrderDeadlines": minute,
        "BacklogMetrics": 5 * minute,
        "CustomerErasure": 60 * minute,
        "WebhookRetries": minute,
    }


@pytest.mark.parametrize("by", [timedelta(seconds=30), timedelta(hours=1), timedelta(days=400)])
def test_a_schedule_runs_at_least_once_and_at_the_end(by: timedelta) -> None:
    times = list(run_times(timedelta(hours=1), START, START + by))
    assert times[-1] == START + by
    assert times == sorted(set(times))


def test_an_erasure_of_today_has_two_runs_that_are_14_days_apart() -> None:
    times = list(run_times(timedelta(hours=1), START, START + timedelta(days=15)))
    assert times[-1] - times[0] >= timedelta(days=14)


def test_schedules_run_in_the_order_of_time() -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    minute = Schedule("arn:minute", timedelta(minutes=1), [("often", None)])
    hour = Schedule("arn:hour", timedelta(hours=1), [("seldom", None)])
    run_schedules([hour, minute], START, START + timedelta(hours=2), lambda *call: calls.append(call))
    assert [event["time"] for _, event in calls] == sorted(event["time"] for _, event in calls)
    assert [event["time"][11:16] for name, event in calls if name == "seldom"] == ["10:30", "11:30"]
    assert next(event["resources"] for name, event in calls if name == "often") == ["arn:minute"]


def test_the_results_of_all_runs_of_the_schedules_are_added_up() -> None:
    hour = Schedule("arn:hour", timedelta(hours=1), [("lapse", None), ("other", None)])
    results: dict[str, Any] = {"lapse": {"lapsed": 2, "assumed_delivered": 0}, "other": None}
    done = run_schedules([hour], START, START + timedelta(hours=3), lambda name, event: results[name])
    assert done == {"lapsed": 6, "assumed_delivered": 0}


def test_a_schedule_that_is_no_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="use a rate in minutes, hours or days"):
        parse_rate("cron(0 12 * * ? *)")


def test_an_advance_starts_each_run_of_a_schedule_with_its_own_event() -> None:
    transformer = {"InputPathsMap": {"time": "$.time"}, "InputTemplate": '{"time":<time>,"group":1,"groups":2}'}
    schedule = Schedule("arn:minute", timedelta(minutes=1), [("lapse", transformer), ("watch", None)])
    (first, own), (second, whole) = schedule.invocations(START)
    assert (first, own) == ("lapse", {"time": "2026-11-21T09:30:00Z", "group": 1, "groups": 2})
    assert (second, whole) == ("watch", schedule.event(START))
