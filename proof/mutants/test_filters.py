"""Filters of the template: a stream reader or a queue that does not get a change leaves its work undone."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from functions.model.lambdas import resource_prefix
from functions.shop import erasure
from local.event_source_mappings import FilterCriteria
from local.world.harness import ANN, READERS, WORKERS, ShopHarness
from proof.mutants.edits import detects, edit_template, replace_in_filters
from proof.mutants.items import stored_order, text
from stacks import synth_cache


def deliver_what_passes_the_filters(harness: ShopHarness) -> None:
    """Deliver all records and messages to the handlers, but only those that the filters of the template let pass."""
    resources = synth_cache.load_template("orderstream-dev", {"laptop": "true"})["Resources"]
    filters = {name: _stream_filter(resources, resource_prefix(name)) for name in READERS}
    events = {name: _events_of_queue(resources, resource_prefix(name)) for name in WORKERS if name != "webhook"}

    def is_delivered(name: str, record: Mapping[str, Any]) -> bool:
        if name in filters:
            return filters[name].matches(record)
        return name in events and json.loads(record["body"])["detail-type"] in events[name]

    harness.process_all(is_delivered=is_delivered)


def _stream_filter(resources: dict[str, Any], reader: str) -> FilterCriteria:
    """Return the filter of a stream reader. `reader`: its name in the ids of the template, such as "CopiesReader"."""
    mappings = [one["Properties"] for one in resources.values() if one["Type"] == "AWS::Lambda::EventSourceMapping"]
    (filters,) = [
        one["FilterCriteria"]["Filters"]
        for one in mappings
        if "FilterCriteria" in one and one["FunctionName"]["Ref"].startswith(f"{reader}Function")
    ]
    return FilterCriteria(tuple(one["Pattern"] for one in filters))


def _events_of_queue(resources: dict[str, Any], reaction: str) -> set[str]:
    """Return the names of the events that the rule of a queue matches. `reaction`: for example "Fulfilment"."""
    (rule,) = [
        one["Properties"]
        for id, one in resources.items()
        if id.startswith(f"{reaction}Reaction") and one["Type"] == "AWS::Events::Rule"
    ]
    return set(rule["EventPattern"]["detail-type"])


@detects(
    "name worker gets no erased customers",
    edit_template(partial(replace_in_filters, '"CustomerRenamed","CustomerErased"', '"CustomerRenamed"')),
)
def test_an_erased_customer_has_no_name_on_an_open_order(harness: ShopHarness) -> None:
    harness.open_shop()
    order_id = harness.place_order()
    deliver_what_passes_the_filters(harness)
    assert text(stored_order(harness, order_id), "customer_name") == "Ann Ash"
    erasure.erase_customer(harness.shop, ANN, ANN.id)
    deliver_what_passes_the_filters(harness)
    assert text(stored_order(harness, order_id), "customer_name") == ""
