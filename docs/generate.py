"""Writes the pages of docs/ that follow from the model: `python -m docs.generate`, or `make docs`."""

from pathlib import Path

from docs.pages import cost, events, model, patterns, settings, states, table

DOCS = Path(__file__).parent


def pages() -> dict[str, str]:
    """Every generated file by its path in docs/."""
    return {
        "cost.md": cost.page(),
        "table.md": table.page(),
        "model.md": model.page(),
        "access-patterns.md": patterns.page(),
        "events.md": events.page(),
        "settings.md": settings.page(),
        "states.md": states.page(),
        **{f"events/{name}.json": text for name, text in events.schemas().items()},
    }


def main() -> None:
    """Write them all, and remove the schemas of events that are no more."""
    written = pages()
    for path in (DOCS / "events").glob("*.json"):
        if f"events/{path.name}" not in written:
            path.unlink()
    for name, text in written.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
