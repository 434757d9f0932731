"""The errors of reading and writing items.

Do not rename these classes: their names are stored in the failure store as the reason why a record was parked.
"""


class Permanent(Exception):
    """A record can never be processed successfully.

    The record is parked (stored in the failure store) at once, so that it does not block later records.
    """


class Unreadable(ValueError):
    """An image cannot be decoded into its class: an attribute is missing, of another type, or malformed."""


class UnreadableWithin(Unreadable):
    """A value in a lazily decoded map is malformed. Raised on first access to the map, not when the item is decoded."""


class Impossible(Permanent):
    """DynamoDB will never accept this write: the item is too large, or a key is malformed."""


class TableBusy(Exception):
    """The operation cannot be done now: other processes use the same items, or DynamoDB throttles the requests.

    The operation is safe to retry later.
    """

    def __init__(self, retry_after_seconds: int = 1) -> None:
        super().__init__("too many requests for the same items at once")
        self.retry_after_seconds = retry_after_seconds
