"""Reads HTML as a browser shows it."""

from html.parser import HTMLParser

VOID = {"meta", "br"}


class ShownHtml(HTMLParser):
    """The elements of a page, the names of their attributes, and the words shown. Fails if an element is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("title", "style"):
            self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)
