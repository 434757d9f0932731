"""MkDocs hooks for the documentation site: adds pages that are not files of docs/, and mends links that leave docs/.

On GitHub, the pages link to code and tests. The site has only the pages, so such a link becomes a link into the
repository, if the environment variable SITE_REPOSITORY has its address, or plain text. Pages that git does not have are
linked by their source, such as docs/glossary.toml: in the site, this link leads to the page.
https://www.mkdocs.org/user-guide/configuration/#hooks
"""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.pages import commands, glossary, model, personal_data, states

ROOT = Path(__file__).resolve().parent.parent
TOP_PAGES = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""The pages of the site that are not in docs/: their file in the top folder, and their name in the site."""
RENDERED_PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands.render_page,
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
}
"""The source of each page that is no file of docs/: links lead to the source on GitHub, and to the page in the site."""
MERMAID = ROOT / "node_modules" / "@mermaid-js" / "tiny" / "dist" / "mermaid.tiny.js"
MERMAID_SCRIPT = re.compile(r'<script src="[^"]*assets/mermaid\.js"></script>')
LINK = re.compile(r"(?<!!)(\[(?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*\])\(([^)\s]+)\)")
IMAGE = re.compile(r"(!\[[^\]]*\])\(([^)\s]+)\)")
NUMBERED = re.compile(r"\d+\. ")
FENCE = re.compile(r"^( *```.*?^ *```)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the sections whose pages are too many for mkdocs.yml: runbooks and decisions."""
    sections = [{"Runbooks": _pages_of("runbooks")}, {"Decisions": _pages_of("decisions")}]
    config.nav = [*(config.nav or []), *sections]
    return config


def _pages_of(folder: str) -> list[str]:
    pages = sorted((ROOT / "docs" / folder).glob("*.md"), key=lambda page: (page.stem != "README", page.name))
    return [f"{folder}/{page.name}" for page in pages]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the top folder, and the generated pages that git does not have."""
    texts = {name: (ROOT / source).read_text(encoding="utf-8") for source, name in TOP_PAGES.items()}
    texts |= {name: render() for name, render in RENDERED_PAGES.items()}
    for name, text in texts.items():
        files.append(File.generated(config, name, content=text))
    return files


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


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: object) -> str:
    """Replace the links of a page that lead out of docs/, and separate the items of its lists."""
    markdown = separate_list_items(markdown)
    here = page.file.src_uri
    folder = (ROOT / {name: file for file, name in TOP_PAGES.items()}.get(here, f"docs/{here}")).parent

    def replace(link: re.Match[str]) -> str:
        path, mark, anchor = link[2].partition("#")
        if "://" in path or not path:
            return link[0]
        target = (folder / path).resolve()
        name = _name_in_site(target)
        if name and files.get_file_from_path(name):
            return f"{link[1]}({os.path.relpath(name, Path(here).parent)}{mark}{anchor})"
        repository = os.environ.get("SITE_REPOSITORY")
        text = link[1]
        return f"{text}({repository}/blob/main/{target.relative_to(ROOT).as_posix()})" if repository else text[1:-1]

    parts = FENCE.split(markdown)
    return "".join(part if FENCE.match(part) else LINK.sub(replace, IMAGE.sub(replace, part)) for part in parts)


def _name_in_site(target: Path) -> str | None:
    """Return the name of a file or of its page in the site, or None if the site does not have it."""
    path = target.relative_to(ROOT).as_posix()
    return SOURCES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)


def on_post_page(output: str, **_: object) -> str:
    """Remove the library of the diagrams from a page without diagrams, because it has three megabytes."""
    return output if 'class="mermaid"' in output else MERMAID_SCRIPT.sub("", output)


def on_post_build(config: MkDocsConfig) -> None:
    """Copy the library of the diagrams."""
    shutil.copyfile(MERMAID, Path(config.site_dir) / "assets" / "mermaid.js")
