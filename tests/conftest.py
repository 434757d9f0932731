"""Fixtures of the tests in several folders."""

import io

import pytest


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """The log of all functions."""
    from functions.runtime.log import log as function_log  # noqa: PLC0415  the model is checked before its import

    text = io.StringIO()
    monkeypatch.setattr(function_log.handlers[0], "stream", text)
    return text
