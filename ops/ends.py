"""How a tool ends that cannot go on: with a sentence, and with 2 where it cannot be meant so, with 1 for all else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.images import Unreadable
from functions.dynamodb.keys import InvalidKeyValue
from functions.dynamodb.patience import TableBusy
from functions.dynamodb.streams import Permanent
from ops.kept import Locked


class UsageError(Exception):
    """What cannot be meant, in one sentence."""


class RecordNotFound(Exception):
    """What is asked for is not there (any more)."""


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Whatever stops a tool here is said, and ends it."""
    try:
        yield
    except (UsageError, InvalidKeyValue) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except (RecordNotFound, Permanent, Unreadable) as error:
        sys.exit(str(error))
    except (BotoCoreError, TableBusy, ClientError, Locked) as error:
        sys.exit(f"Not done to the end: {error}. The same command goes on with it.")
