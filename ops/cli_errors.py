"""Print errors of the operator tools as one line and exit: with 2 for wrong usage, with 1 for all other errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.errors import Permanent, TableBusy, Unreadable
from functions.dynamodb.keys import InvalidKeyValue
from ops.api_client import UnexpectedResponse
from ops.scan.checkpoint import Locked
from ops.terminal_text import colored


class UsageError(Exception):
    """The operator used the command wrongly. The message names the error or the correct usage."""


class RecordNotFound(Exception):
    """The record that the operator asked for does not exist, or no longer exists."""


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Print an expected error of the `with` block as one line, and exit: with 2 for wrong usage, else with 1."""
    try:
        yield
    except (UsageError, InvalidKeyValue) as error:
        print(colored(str(error), "red", sys.stderr), file=sys.stderr)
        sys.exit(2)
    except (RecordNotFound, Permanent, Unreadable, UnexpectedResponse) as error:
        sys.exit(str(error))
    except (BotoCoreError, TableBusy, ClientError, Locked) as error:
        sys.exit(f"Incomplete: {error}. Run the same command again to continue.")
