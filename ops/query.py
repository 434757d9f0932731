"""A question to the table and its answer, as the command line reads and tells them."""

from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from ops.answers import Answer, Group, Request
from ops.questions import Choice, Misused, arguments_of, forms

WIDEST = 40
"""Characters of a value that are shown where nobody chose the fields."""


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """name=value, by name; raises Misused."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Misused(option, f"is given as name=value, not as {text}")
        if name in found:
            raise Misused(f"{option} {name}", "is given twice")
        found[name] = value
    return found


def listing() -> Iterator[str]:
    """Every pattern with its question and its arguments, those in brackets may be left out."""
    rows = [(form.id, form.question, " ".join(arguments_of(form.needs, form.may))) for form in forms()]
    yield from _aligned(("", "question", "arguments"), rows)


def told(answer: Answer, chosen: Choice) -> Iterator[str]:
    """All of an answer, line by line. Long values are shown in full where their fields were chosen."""
    yield f"{answer.id}: {answer.question}"
    yield ""
    yield from _requests(answer.requests)
    for group in answer.groups:
        yield from _table(group, whole=bool(chosen.fields))
    yield ""
    why = "; ".join(_why(answer, chosen))
    yield f"{answer.read} read, {answer.shown} shown" + (f" ({why})" if why else "")
    counted = (answer.units, "unit"), (len(answer.requests), "request"), (answer.pages, "page")
    yield ", ".join(f"{number:g} {what}" + ("" if number == 1 else "s") for number, what in counted)
    if answer.cursor is not None:
        yield f"There is more: --cursor {quote(answer.cursor)} (or --all)"


def _why(answer: Answer, chosen: Choice) -> Iterator[str]:
    """Why fewer are shown than were read, and what that saved: nothing."""
    if answer.passed_over:
        yield f"{answer.passed_over} lie behind the page's end, have expired, or are no answer"
    if chosen.where:
        yield "--where chooses among what was read, it reads no less"
    if chosen.fields:
        yield "--fields chooses what is shown, whole items were read"


def _requests(requests: Sequence[Request]) -> Iterator[str]:
    """Each request: the first whole, of the others what differs from it."""
    for number, request in enumerate(requests, 1):
        yield f"{number}. {request.operation}" + ("" if number == 1 else ", as 1 but for")
        width = max(map(len, requests[0].sent))
        for name, text in request.sent.items():
            yield f"   {name:{width}}  {'(not sent)' if text is None else text}"


def _table(group: Group, *, whole: bool) -> Iterator[str]:
    yield ""
    yield f"{group.type} ({len(group.items)})"
    yield from _aligned(group.fields, [[text if whole else _short(text) for text in item] for item in group.items])


def _aligned(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
