"""Check the languages: each has the same texts with the same placeholders as English, and each key that code uses.

functions/languages has the texts of mails and documents, page/languages those of the order page. Code finds a text by
its key: `text("total")`. A part of a key may be a value: `text(f"mail.{event}.subject")`. FOLDERS declares all values
that it can have.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any, get_args

from functions.model import mail_kinds, states
from functions.model.entities import orders, payments, shipments

PROJECT = Path(__file__).parents[1]
ENGLISH = "en"
CALL = r"""\b{}[\[(]\s*f?["'`]([^"'`]+)["'`](\s*~)?"""
CALLS = {
    ".js": re.compile(CALL.format("textOf")),
    **dict.fromkeys((".html", ".py", ".txt"), re.compile(CALL.format("texts?"))),
}
"""By suffix of a file: how it uses a key. In a template, ~ appends a value to the key."""
VALUE = re.compile(r"\$?\{[^}]*\}")


@dataclass(frozen=True)
class Folder:
    """A folder of languages. `code`: the folder whose code uses its texts.

    `values`: for each key with a value in it, written as `{}`, all values that it can have.
    """

    path: Path
    code: Path
    values: Mapping[str, set[str]]


def _values(*kinds: Any) -> set[str]:
    return {value for kind in kinds for value in get_args(kind)}


MAILS = set(mail_kinds.MAIL_KIND_BY_EVENT)
CAUSES, METHODS = _values(payments.RefundCause), _values(payments.PaymentMethod)
STATES = _values(orders.OrderStatus, payments.PaymentStatus, payments.RefundStatus, shipments.ShipmentStatus)
STEPS = {"OrderPlaced", "OrderPaid"} | {move.change_name for move in states.ORDER_TRANSITIONS}
FOLDERS = (
    Folder(
        PROJECT / "functions/languages",
        PROJECT / "functions",
        {
            "mail.{}.subject": MAILS,
            "mail.{}.opening": MAILS,
            "cause.{}": CAUSES - {"OTHER"},
            "method.{}": METHODS,
            "status.{}": _values(orders.OrderStatus),
        },
    ),
    Folder(
        PROJECT / "page/languages",
        PROJECT / "page",
        {
            "state.{}": STATES,
            "step.{}": STEPS,
            "method.{}": METHODS,
            "cause.{}": CAUSES,
            "why.{}": _values(payments.RefundReason),
            "dispute.{}": _values(payments.DisputeStatus),
        },
    ),
)


def find_wrong_languages(folders: tuple[Folder, ...] = FOLDERS) -> Iterator[str]:
    """Yield one line for each text that is missing, unknown or unused, and for each difference of placeholders."""
    found = [{path.stem: path for path in sorted(folder.path.glob("*.json"))} for folder in folders]
    for folder, files in zip(folders, found, strict=True):
        missing = {code for other in found for code in other} - files.keys()
        yield from (f"{_shown(folder.path)}/{code}.json is missing" for code in sorted(missing))
        texts = {code: json.loads(file.read_text(encoding="utf-8")) for code, file in files.items()}
        yield from _wrong_uses(folder, texts[ENGLISH])
        for code, file in files.items():
            yield from _differences(_shown(file), texts[code], texts[ENGLISH])


def _differences(file: str, texts: Mapping[str, str], english: Mapping[str, str]) -> Iterator[str]:
    yield from (f"{file} lacks the text {key}" for key in english if key not in texts)
    for key, text in texts.items():
        if key not in english:
            yield f"{file} has the text {key}, which English lacks"
        elif (own := _placeholders(text)) != (wanted := _placeholders(english[key])):
            yield f"{file}: {key} has the placeholders {own or 'none'}, but in English {wanted or 'none'}"


def _placeholders(text: str) -> list[str]:
    try:
        return sorted({name for _, name, _, _ in Formatter().parse(text) if name is not None})
    except ValueError as error:
        return [f"invalid: {error}"]


def _wrong_uses(folder: Folder, english: Mapping[str, str]) -> Iterator[str]:
    unused = set(english)
    for file in sorted(path for path in folder.code.rglob("*") if path.suffix in CALLS):
        source = file.read_text(encoding="utf-8")
        for use in CALLS[file.suffix].finditer(source):
            at = f"{_shown(file)}:{source.count(chr(10), 0, use.start()) + 1}"
            template = VALUE.sub("{}", use[1]) + "{}" * bool(use[2])
            values = folder.values.get(template, set()) if "{}" in template else {""}
            if not values:
                yield f"{at}: declare the values of the key {template} in tools/languages.py"
            keys = {template.replace("{}", value) for value in values}
            unused -= keys
            lacking = f"{_shown(folder.path)}/{ENGLISH}.json lacks the text"
            yield from (f"{lacking} {key}, which {at} uses" for key in sorted(keys - set(english)))
    yield from (f"{_shown(folder.path)}/{ENGLISH}.json: no code uses the text {key}" for key in sorted(unused))


def _shown(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix() if path.is_relative_to(PROJECT) else path.name


if __name__ == "__main__":
    if wrong := [*find_wrong_languages()]:
        raise SystemExit("\n".join(wrong))
