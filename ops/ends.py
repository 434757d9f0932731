"""How a tool ends that cannot go on: with a sentence, and with 2 where it cannot be meant so, with 1 for all else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from functions.dynamodb.images import Unreadable
from functions.dynamodb.keys import BadKey
from functions.dynamodb.patience import Busy
from functions.dynamodb.streams import Permanent
from ops.kept import InHand


class Misused(Exception):
    """What cannot be meant, in one sentence."""


class Missing(Exception):
    """What is asked for is not there (any more)."""


@contextmanager
def said() -> Iterator[None]:
    """Whatever stops a tool here is said, and ends it."""
    try:
        yield
    except (Misused, BadKey) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except (Missing, Permanent, Unreadable) as error:
        sys.exit(str(error))
    except (BotoCoreError, Busy, ClientError, InHand) as error:
        sys.exit(f"Not done to the end: {error}. The same command goes on with it.")
