"""Write the documentation as plain Markdown, from which a generator builds the site: `python -m docs.site FOLDER`.

On GitHub, the pages link to code and tests. The site has only the pages, so such a link becomes a link into the
repository, if the environment variable SITE_REPOSITORY has its address, or plain text. Pages that git does not have are
linked by their source, such as docs/glossary.toml: in the site, this link leads to the page.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from docs.pages import causes, commands, conformance, glossary, model, personal_data, states

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TOP_PAGES = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""The pages of the site that are not in docs/: their file in the top folder, and their name in the site."""
RENDERED_PAGES: Mapping[str, Callable[[], str]] = {
    "causes.md": causes.render_page,
    "commands.md": commands.render_page,
    "conformance.md": conformance.render_page,
    "glossary.md": glossary.render_page,
    "model.md": model.render_page,
    "personal-data.md": personal_data.render_page,
    "states.md": states.render_page,
}
"""The generated pages that git does not have, by their name in the site."""
SOURCES = {
    **TOP_PAGES,
    "Makefile": "commands.md",
    "docs/glossary.toml": "glossary.md",
    "functions/model/entities": "model.md",
    "docs/pages/personal_data.py": "personal-data.md",
    "functions/model/states.py": "states.md",
    "functions/shop/diagnosis.py": "causes.md",
    "proof/conformance/probes": "conformance.md",
    "proof/conformance/results.json": "conformance.md",
}
"""The source of each page that is no file of docs/: links lead to the source on GitHub, and to the page in the site."""
ASSETS = {
    "site.js": DOCS / "assets" / "site.js",
    "site.css": DOCS / "assets" / "site.css",
    "mermaid.js": ROOT / "node_modules" / "@mermaid-js" / "tiny" / "dist" / "mermaid.tiny.js",
}
SEARCH_BOOSTS = (("how-to/", 4.0), ("decisions/", 0.1), ("conformance.md", 0.1), ("changelog.md", 0.1))
"""How much the search prefers the pages of a folder, or puts them after the others."""
SYNONYMS = {
    "personal-data.md": ["GDPR", "privacy", "delete customer's data", "right to erasure"],
    "runbooks/restore-table.md": ["backup", "recovery"],
    "local.md": ["localhost", "docker"],
}
"""Words that readers type and that a page does not have, or has like many others."""
LINK = re.compile(r"(?<!!)(\[(?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*\])\(([^)\s]+)\)")
IMAGE = re.compile(r"(!\[[^\]]*\])\(([^)\s]+)\)")
NUMBERED = re.compile(r"\d+\. ")
FENCE = re.compile(r"^( *```.*?^ *```)", re.DOTALL | re.MULTILINE)


def write_pages(folder: Path) -> None:
    """Write all pages, pictures and assets of the site into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    texts = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}
    texts |= {name: (ROOT / source).read_text(encoding="utf-8") for source, name in TOP_PAGES.items()}
    texts |= {name: render() for name, render in RENDERED_PAGES.items()}
    files = {picture.name: picture for picture in DOCS.iterdir() if picture.suffix in (".png", ".gif")}
    files |= {f"assets/{name}": file for name, file in ASSETS.items()}
    for name, text in texts.items():
        page = folder / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(_front_matter(name) + convert_page(name, text, {*texts, *files}), encoding="utf-8")
    for name, file in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / name)


def _front_matter(name: str) -> str:
    """Return what the search of Material for MkDocs reads: a factor for the page's rank, and more words."""
    boost = next((boost for start, boost in SEARCH_BOOSTS if name.startswith(start)), 1.0)
    return f"---\nsearch:\n  boost: {boost}\ntags: {json.dumps(SYNONYMS.get(name, []))}\n---\n"


def separate_list_items(markdown: str) -> str:
    """Add what Python-Markdown needs to find the items of a list, and GitHub does not need.

    These are an empty line before the list, four spaces instead of three before the blocks of a numbered item, and an
    empty line after these blocks.
    """
    lines, in_code, in_item, has_blocks = [""], False, False, False
    for line in markdown.split("\n"):
        in_code ^= line.lstrip().startswith("```")
        if NUMBERED.match(line) and not in_code:
            lines += [""] * (has_blocks or (line.startswith("1. ") and bool(lines[-1])))
            in_item, has_blocks = True, False
        elif line.startswith("- ") and not in_code and lines[-1] and not lines[-1].startswith(("- ", " ")):
            lines.append("")
        elif line.strip() and not line.startswith("   "):
            in_item = False
        has_blocks = in_item and (has_blocks or not line.strip())
        lines.append(f" {line}" if in_item and line.startswith("   ") else line)
    return "\n".join(lines[1:])


def convert_page(here: str, markdown: str, names: set[str]) -> str:
    """Replace the links of a page that lead out of the site, and separate the items of its lists.

    `here`: the page's name in the site. `names`: all files of the site.
    """
    source = {name: file for file, name in TOP_PAGES.items()}.get(here, f"docs/{here}")
    folder = (ROOT / source).parent

    def replace(link: re.Match[str]) -> str:
        path, mark, anchor = link[2].partition("#")
        if "://" in path or not path:
            return link[0]
        target = (folder / path).resolve()
        name = _name_in_site(target)
        if name in names:
            return f"{link[1]}({os.path.relpath(name, Path(here).parent)}{mark}{anchor})"
        repository = os.environ.get("SITE_REPOSITORY")
        text = link[1]
        return f"{text}({repository}/blob/main/{target.relative_to(ROOT).as_posix()})" if repository else text[1:-1]

    parts = FENCE.split(separate_list_items(markdown))
    return "".join(part if FENCE.match(part) else LINK.sub(replace, IMAGE.sub(replace, part)) for part in parts)


def _name_in_site(target: Path) -> str:
    """Return the name that a file, or the page of a source, has in the site if the site has it."""
    path = target.relative_to(ROOT).as_posix()
    return SOURCES.get(path) or path.removeprefix("docs/")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
