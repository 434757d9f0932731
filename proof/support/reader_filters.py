"""The filters of the stream readers' event source mappings."""

from collections.abc import Mapping
from typing import Any

from local.event_source_mappings.filters import FilterCriteria
from stacks import filters

FILTERS = {
    "copies_reader": FilterCriteria(tuple(filters.build_copies_patterns())),
    "event_publisher": FilterCriteria(tuple(filters.build_publisher_patterns())),
}


def is_delivered(function: str, record: Mapping[str, Any]) -> bool:
    """Return whether Lambda passes a stream record or a message to a function. The queues have no filters."""
    return function not in FILTERS or FILTERS[function].matches(record)
