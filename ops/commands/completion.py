"""The `completion` command: print a script that lets a shell complete the operator tools' command lines.

It defines the shell function `ops`, because a shell cannot complete `python -m ops`, and contains all words.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from functions.model.patterns import PATTERNS
from ops import targets

PROJECT = Path(__file__).resolve().parents[2]
SHELLS = {
    "bash": """\
ops() { PYTHONPATH=%(project)s %(python)s -m ops "$@"; }
_ops_words() { case "$1" in
%(cases)s
esac; }
_ops_complete() {
  local word at= found
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $word != -* && -n "$(_ops_words "${at:+$at }$word")" ]]; then at="${at:+$at }$word"; fi
  done
  found=$(_ops_words "$at ${COMP_WORDS[COMP_CWORD-1]}")
  COMPREPLY=($(compgen -W "${found:-$(_ops_words "$at")}" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _ops_complete ops
""",
    "zsh": """\
ops() { PYTHONPATH=%(project)s %(python)s -m ops "$@"; }
_ops_words() { case "$1" in
%(cases)s
esac; }
_ops_complete() {
  local word at= found
  for word in ${words[2,CURRENT-1]}; do
    if [[ $word != -* && -n "$(_ops_words "${at:+$at }$word")" ]]; then at="${at:+$at }$word"; fi
  done
  found=$(_ops_words "$at ${words[CURRENT-1]}")
  [[ -n $found ]] || found=$(_ops_words "$at")
  compadd -- ${=found} || _files
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _ops_complete ops
""",
    "fish": """\
function ops; env PYTHONPATH=%(project)s %(python)s -m ops $argv; end
function _ops_words
  switch "$argv[1]"
%(cases)s
  end
end
function _ops_complete
  set -l typed (commandline -opc)
  set -l at ''
  for word in $typed[2..]
    set -l next (string trim -- "$at $word")
    if not string match -q -- '-*' $word; and count (_ops_words $next) > /dev/null
      set at $next
    end
  end
  set -l found (_ops_words "$at $typed[-1]")
  count $found > /dev/null; or set found (_ops_words $at)
  printf '%%s\\n' $found
end
complete -c ops -a '(_ops_complete)'
complete -c ops -f -n '_ops_complete | string match -qr "^[^-]"' # no files where a word is expected
""",
}
"""The script for each shell. `_ops_words` prints the words that may follow a command or an option."""


def list_words(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the words that may follow each command, such as "failures list", and each option with a choice of values.

    The first element is the command, or the command and the option, such as "drift --only".
    """
    words: list[str] = [pattern.id for pattern in PATTERNS] if path == "query" else []
    for action in parser._actions:
        choices = [str(choice) for choice in action.choices or ()]
        words += action.option_strings or choices
        if choices and action.option_strings:
            yield from ((f"{path} {option}", choices) for option in action.option_strings)
        if isinstance(action.choices, dict):
            for name, command in action.choices.items():
                yield from list_words(command, f"{path} {name}".strip())
    yield path, words


def render_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script of a shell that completes the command lines of a parser."""
    case = "  case %s; printf '%%s\\n' %s" if shell == "fish" else "  %s) echo %s ;;"
    cases = [case % (shlex.quote(path), shlex.join(words)) for path, words in list_words(parser) if words]
    names = {"project": shlex.quote(str(PROJECT)), "python": shlex.quote(sys.executable)}
    return SHELLS[shell] % {**names, "cases": "\n".join(cases)}


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "completion",
        help="print a script that defines the function ops, with completion",
        description='Put this line into the start file of your shell: eval "$(…/.venv/bin/python -m ops completion '
        'bash)". For fish: …/.venv/bin/python -m ops completion fish | source',
    )
    parser.add_argument("shell", choices=list(SHELLS))
    parser.set_defaults(run=lambda args: print(render_script(args.main_parser, args.shell), end=""))
