"""The page Glossary of the site: where things are, and each word of the project with the names that are not used."""

from collections.abc import Iterator

from docs import glossary_check, markdown


def render_page() -> str:
    return markdown.join_page("Glossary", _sections())


def _sections() -> Iterator[str]:
    glossary = glossary_check.load()
    yield """
The project has one word for one concept, in code, logs, events, command line, page and docs. Add a new word to
docs/glossary.toml first. The names after *Not* are not used for the word, in the scopes in brackets:
`make check` reports the file and line of each such name. Words with many meanings, such as *page* or *log*, are never
forbidden alone.
"""
    yield "## Where things are"
    yield markdown.render_table(
        ("folder", "contents"), [(f"`{name}`", text) for name, text in glossary.folders.items()]
    )
    yield """
The Lambdas, by their module in `functions/handlers`. Logs, metrics, alarms, keys of the failure store and reactions
use the module's name without `_worker`. On AWS, the names of a Lambda's resources contain this name: the function
`EventPublisherFunction…`, the queue `RefundReactionQueue…`, the log group `/orderstream/prod/refund`.
"""
    yield markdown.render_table(("module", "task"), [(f"`{name}`", text) for name, text in glossary.lambdas.items()])
    for title, words in glossary.groups.items():
        yield f"## {title}"
        yield markdown.render_table(("word", "meaning"), [(word.word, _meaning(word)) for word in words])


def _meaning(word: glossary_check.Word) -> str:
    scopes: dict[str, list[str]] = {}
    for scope, names in word.not_used.items():
        for name in names:
            scopes.setdefault(name, []).append(scope)
    not_used = ", ".join(f"{name} ({', '.join(scopes)})" for name, scopes in scopes.items())
    return f"{word.meaning} Not: {not_used}." if not_used else word.meaning
