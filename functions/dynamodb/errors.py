"""The errors of reading and writing items. Do not rename these classes: the failure store has their names."""


class Permanent(Exception):
    """A record can never be processed. It is parked in the failure store at once, so that it does not block others."""


class Unreadable(ValueError):
    """An image cannot be decoded: an attribute is missing or malformed, or its type or schema version is unknown."""


class WriteImpossible(Permanent):
    """DynamoDB will never accept this write: the item is too large, or a key is malformed."""


class TableBusy(Exception):
    """Other processes use the same items, or DynamoDB throttles the requests. The operation is safe to retry later."""

    def __init__(self, retry_after_seconds: int = 1) -> None:
        super().__init__("too many requests for the same items at once")
        self.retry_after_seconds = retry_after_seconds
