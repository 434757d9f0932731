"""Tests that independent calls run at the same time, in threads that the whole process shares."""

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from threading import Barrier, get_ident

import pytest

from functions.dynamodb.table import MAX_THREADS, run_parallel


def test_calls_run_at_the_same_time_and_answer_in_their_order() -> None:
    met = Barrier(MAX_THREADS, timeout=20)

    def ask(number: int) -> int:
        met.wait()
        return number

    assert run_parallel([partial(ask, number) for number in range(MAX_THREADS)]) == [*range(MAX_THREADS)]


def test_a_call_that_runs_more_calls_runs_them_in_its_own_thread() -> None:
    """Otherwise, calls that wait for a free thread could occupy all threads, and none would ever become free."""

    def ask() -> set[int]:
        return {get_ident(), *run_parallel([get_ident] * 3)}

    asked = run_parallel([ask] * (2 * MAX_THREADS))
    assert all(len(threads) == 1 for threads in asked)
    assert get_ident() not in set().union(*asked)


@pytest.mark.parametrize("within", [False, True], ids=["from outside", "from another call"])
def test_all_calls_run_and_then_the_first_error_is_raised(within: bool) -> None:
    ran: list[str] = []

    def act(name: str, error: Exception | None) -> Callable[[], None]:
        def run() -> None:
            ran.append(name)
            if error:
                raise error

        return run

    calls = [act("a", None), act("b", KeyError("b")), act("c", ValueError("c")), act("d", None)]
    with pytest.raises(KeyError):
        run_parallel([lambda: run_parallel(calls), lambda: None] if within else calls)
    assert sorted(ran) == ["a", "b", "c", "d"]


def test_calls_see_the_callers_context() -> None:
    name: ContextVar[str] = ContextVar("name", default="none")
    name.set("copies")
    assert run_parallel([name.get] * 3) == ["copies"] * 3
    assert run_parallel([lambda: run_parallel([name.get] * 2)] * 2) == [["copies"] * 2] * 2
