"""The errors of reading and writing items.

Do not rename these classes. If a record can never be processed, it is stored in the failure store (an S3 bucket) with
the name of the error class in the reason. After a rename, stored reasons would contain two names for the same error.
"""


class Permanent(Exception):
    """A record can never be processed successfully.

    The record is parked (stored in the failure store, an S3 bucket) at once. So it does not block later records.
    """


class Unreadable(ValueError):
    """An image (an item in DynamoDB's JSON) cannot be decoded.

    There are two cases: an attribute is missing, malformed or of the wrong type, or the code does not know the item's
    type or schema version.
    """


class WriteImpossible(Permanent):
    """DynamoDB will never accept this write: the item is too large, or a key is malformed."""


class TableBusy(Exception):
    """The operation cannot be done now: other processes use the same items, or DynamoDB throttles the requests.

    The operation is safe to retry later.
    """

    def __init__(self, retry_after_seconds: int = 1) -> None:
        super().__init__("too many requests for the same items at once")
        self.retry_after_seconds = retry_after_seconds
