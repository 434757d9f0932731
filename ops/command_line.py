"""Parse command lines like argparse, and suggest the correct word for a misspelled command or value."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from ops.terminal_text import colored, suggest


class CommandLineParser(argparse.ArgumentParser):
    """A parser whose errors say "Did you mean …?". On a terminal, they are red."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise argparse.ArgumentError if the value is not one of the choices. argparse calls this for each value."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        hint = suggest(str(value), known) or f" Choose from: {', '.join(known)}"
        raise argparse.ArgumentError(action, f"{value!r} does not exist.{hint}")

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error to stderr, and exit with 2."""
        self.print_usage(sys.stderr)
        self.exit(2, colored(f"{self.prog}: error: {message}", "red", sys.stderr) + "\n")
