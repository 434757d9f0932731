"""How stacks/stage.py declares a setting: with its default, its allowed values, and the text of an error."""

import re
from collections.abc import Callable, Iterator
from dataclasses import field, fields
from typing import Any, NamedTuple


class Rule(NamedTuple):
    """The allowed values of a setting. `check`: raises ValueError, whose text follows the name ("is 0: it must be …").

    `allowed`: the values for docs/settings.md. Empty: they follow from the type.
    """

    check: Callable[[Any], None]
    allowed: str = ""


def setting(
    default: Any, rule: Rule | str | None = None, hint: str = "", *, group: str = "", required: str = ""
) -> Any:
    """Declare a setting as a field of a dataclass. The string below the field describes it in docs/settings.md.

    `default`: always allowed. `rule`: other values; a str is a regular expression for a text, or each text of a list,
    and `hint` says what to write instead. `group`: the heading in docs/settings.md from here on. `required`: a
    protected stage must set it; the text follows "set NAME".
    """
    rule = _matches(rule, hint) if isinstance(rule, str) else rule
    return field(default=default, metadata={"rule": rule, "group": group, "required": required})


def find_wrong_values(settings: Any) -> Iterator[str]:
    """Yield a sentence for each setting of a dataclass whose rule does not allow its value."""
    for one in fields(settings):
        rule, value = one.metadata.get("rule"), getattr(settings, one.name)
        if rule and value != one.default:
            try:
                rule.check(value)
            except ValueError as error:
                yield f"{one.name} {error}"


def between(lowest: int, highest: int) -> Rule:
    def check(value: int) -> None:
        if not lowest <= value <= highest:
            raise ValueError(f"is {value}: it must be from {lowest} to {highest}")

    return Rule(check, f"{lowest} to {highest}")


def one_of(*choices: int | str, hint: str = "it must be one of") -> Rule:
    allowed = ", ".join(map(str, choices))

    def check(value: int | str) -> None:
        if value not in choices:
            raise ValueError(f"is {value!r}: {hint} {allowed}")

    return Rule(check, allowed)


def _matches(pattern: str, hint: str) -> Rule:
    def check(value: str | tuple[str, ...]) -> None:
        verb, texts = ("has", value) if isinstance(value, tuple) else ("is", (value,))
        for text in texts:
            if not re.fullmatch(pattern, text):
                raise ValueError(f"{verb} {text!r}: {hint}")

    return Rule(check)


def named_numbers(names: tuple[str, ...], lowest: int, highest: int, because: str = "", *, zero: bool = True) -> Rule:
    """Allow a number for each name, such as api:1024, or * for all others. `because`: the reason for `lowest`."""

    def check(entries: tuple[str, ...]) -> None:
        for entry, text in _parse_entries(entries, names, r"\d{1,7}", f"{lowest}"):
            number = int(text)
            if number < lowest and (number or not zero):
                raise ValueError(f"has {entry!r}: use at least {lowest}{because}")
            if number > highest:
                raise ValueError(f"has {entry!r}: use at most {highest}")

    return Rule(check)


def named_ranges(names: tuple[str, ...], highest: int) -> Rule:
    """Require a minimum and a maximum for each name, such as table:5-400; * names all others."""

    def check(entries: tuple[str, ...]) -> None:
        limits = f"a minimum of at least 1 and a maximum of at most {highest}, minimum first"
        for entry, text in _parse_entries(entries, names, r"\d{1,6}-\d{1,6}", "5-400"):
            least, most = map(int, text.split("-"))
            if not 1 <= least <= most <= highest:
                raise ValueError(f"has {entry!r}: use {limits}")
        given = {entry.partition(":")[0] for entry in entries}
        if "*" not in given and (missing := [name for name in names if name not in given]):
            raise ValueError(f"has no entry for {', '.join(missing)}: add entries for them, or one entry for *")

    return Rule(check)


def _parse_entries(
    entries: tuple[str, ...], names: tuple[str, ...], pattern: str, example: str
) -> Iterator[tuple[str, str]]:
    """Yield each entry NAME:VALUE and its value, as the `pattern`. Raises ValueError for a wrong or repeated name."""
    for entry in entries:
        name, _, value = entry.partition(":")
        if name not in ("*", *names) or not re.fullmatch(pattern, value):
            raise ValueError(f"has {entry!r}: use the form {names[0]}:{example}, with {', '.join(names)} or *")
        yield entry, value
    given = [entry.partition(":")[0] for entry in entries]
    if len({*given}) < len(given):
        raise ValueError(f"has a name twice: {', '.join(given)}")
