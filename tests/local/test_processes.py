"""The limits of the operating system, and the end of child processes, of the local shop."""

import resource

import pytest

from local import processes


@pytest.mark.parametrize(
    ("hard", "wanted"),
    [(resource.RLIM_INFINITY, processes.MAX_OPEN_FILES), (4096, 4096), (1 << 20, processes.MAX_OPEN_FILES)],
)
def test_the_limit_of_open_files_is_raised_to_a_number_that_macos_accepts(
    monkeypatch: pytest.MonkeyPatch, hard: int, wanted: int
) -> None:
    accepted: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: accepted.append(limits))
    assert processes.raise_open_files_limit() == wanted
    assert accepted == [(wanted, hard)]


def test_a_refused_limit_of_open_files_leaves_the_old_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1 << 20))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert processes.raise_open_files_limit() == 1024


def test_a_shop_with_too_few_open_files_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with pytest.raises(processes.ProcessFailed, match=str(processes.MIN_OPEN_FILES)):
        processes.require_open_files()
