"""The load test finds the rate with which a shop keeps up."""

import pytest

from local.load_test import MIN_RATE, RATE_PRECISION, find_highest


@pytest.mark.parametrize("capacity", [0.3, 1.0, 6.4, 40.0])
def test_the_highest_possible_rate_is_found_in_a_few_tries(capacity: float) -> None:
    tried: list[float] = []

    def is_possible(rate: float) -> bool:
        tried.append(rate)
        return rate <= capacity

    found = find_highest(is_possible)
    assert found <= capacity <= found * RATE_PRECISION
    assert len(tried) <= 12


def test_if_no_rate_is_possible_the_search_ends() -> None:
    assert find_highest(lambda rate: False) < MIN_RATE
