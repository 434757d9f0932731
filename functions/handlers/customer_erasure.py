"""Hourly job that erases the personal data of customers who asked for erasure.

The job deletes the customer's items, such as reviews and follows. It removes the address and the name from the
customer's closed orders, in the table and in the archive. An open order keeps its address until it is closed. The rows
of functions/model/table.py declare which items and attributes these are.

The job also redacts the failure store, an S3 bucket with stream records and messages that a Lambda could not process.
It removes the personal attributes, such as names and addresses, from the customer's records there.

Each step is safe to repeat. Each hourly run repeats all steps. When the job has found no personal data of a customer
for 14 days, the erasure is finished. The job waits because a delayed stream record could write a copy of the data. If
the job fails to redact an object in the failure store, no erasure is finished, because the object may contain data of
any customer.

The job stops before its timeout. At most half of the time is for the failure store. Each run begins with another
customer, order and object. So runs with too little time do not always skip the same data. An erasure is finished only
by a run that has seen all orders of the customer and the whole failure store.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Literal, TypeVar

from functions.adapters import object_store
from functions.dynamodb.keys import KEY_ATTRIBUTES
from functions.model.entities import ArchivedOrder, ErasedCustomer, Order, archive_prefix, hash_to_bucket
from functions.model.personal_data import erase_image, erased_rows, personal_attributes
from functions.model.table import ORDER
from functions.runtime import clients, observability
from functions.runtime.environment import ArchiveEnvironment, load_environment
from functions.runtime.log import log
from functions.runtime.scheduled_jobs import ScheduledRun, WorkList
from functions.runtime.time_limit import TimeLimit
from functions.shop.erasure import (
    erase_items,
    finish_erasure,
    holds_personal_data,
    list_account_ids_of_customer,
    list_order_ids_of_customer,
    list_unfinished_erasures,
    point_stub_to_object,
    remove_address_from_order,
    restart_settle_period,
)
from functions.shop.shop import ShopContext

T = TypeVar("T")
INDEX_KEYS = [name for index, pair in KEY_ATTRIBUTES.items() if index != "main" for name in pair]
CHANGED_TEXT = "-"
"""Replaces a personal text in a new image; "" replaces that in the old one, so that they still differ."""


@observability.instrument_handler
def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """Lambda entry point for a scheduled event: run the unfinished erasures for which there is time.

    Returns how many erasures were unfinished before this run, and how many of them it finished. Raises RunIncomplete at
    the end if a step failed, so that the invocation counts as failed.
    """
    environment = load_environment(ArchiveEnvironment)
    shop = clients.create_shop(environment.table_name)
    now = datetime.fromisoformat(event["time"])
    run = ScheduledRun("customer_erasure", TimeLimit(context))
    waiting = list(_begin_anywhere(list_unfinished_erasures(shop), event["time"]))
    failure_store_redacted = not waiting or redact_failure_store(
        run, environment.failures_bucket, {one.customer_id for one in waiting}, event["time"]
    )

    def erase_and_finish(customer: ErasedCustomer) -> bool:
        order_ids = _begin_anywhere(list_order_ids_of_customer(shop, customer.customer_id), event["time"])
        found = erase_customer_data(shop, environment.archive_bucket, customer, order_ids, run.time_limit)
        if "taken" in found:
            restart_settle_period(shop, customer, now)
            return False
        return "kept" not in found and failure_store_redacted and finish_erasure(shop, customer, now)

    erasures = WorkList(iter(waiting), erase_and_finish, lambda customer: customer.customer_id)
    run.process(erasures)
    summary = {"waiting": len(waiting), "finished": erasures.done}
    log.info("erasures_processed", extra=summary)
    run.raise_if_failed()
    return summary


def _begin_anywhere(items: Iterable[T], seed: str) -> Iterator[T]:
    """Read all items. Yield them in their order, but begin with the item that a hash of `seed` chooses."""
    found = [*items]
    first = hash_to_bucket(seed, len(found)) if found else 0
    yield from found[first:] + found[:first]


ErasureOutcome = Literal["none", "taken", "kept"]
"""The outcome of removing personal data: there was `none`, it was `taken`, or it is `kept` until a later run.

An open order needs its address. The others are being archived, or there was no time.
"""


def erase_customer_data(
    shop: ShopContext, archive_bucket: str, customer: ErasedCustomer, order_ids: Iterable[str], time_limit: TimeLimit
) -> set[ErasureOutcome]:
    """Erase a customer's items, and remove the address and name from the closed orders. Return the different outcomes.

    If the time limit is reached, the remaining orders are "kept".
    """
    own = erase_items(shop, "customer_id", customer.customer_id)
    for account_id in list_account_ids_of_customer(shop, customer.customer_id) if erased_rows("account_id") else ():
        own |= erase_items(shop, "account_id", account_id)
    return {
        "taken" if own else "none",
        *(
            "kept" if time_limit.is_reached() else remove_address(shop, archive_bucket, order_id)
            for order_id in order_ids
        ),
    }


def remove_address(shop: ShopContext, bucket: str, order_id: str) -> ErasureOutcome:
    """Remove the personal data of an order from the table, and from its archive object in S3. Return the outcome."""
    order, taken = remove_address_from_order(shop, order_id)
    if isinstance(order, Order) and (holds_personal_data(ORDER, order) or order.status == "ARCHIVING"):
        return "kept"
    taken |= erase_items(shop, "order_id", order_id)
    if isinstance(order, ArchivedOrder):
        taken |= _rewrite_archive_without_address(shop, bucket, order)
    elif order and order.restored_at:
        taken |= _delete_earlier_archives(bucket, order)
    return "taken" if taken else "none"


def _delete_earlier_archives(bucket: str, order: Order | ArchivedOrder, current_key: str = "") -> bool:
    """Delete all archive objects of an order except `current_key`. Return whether one was deleted.

    Objects of a later version are kept: the order may have been archived again after it was read.
    """

    def should_keep(key: str) -> bool:
        return key == current_key or int(key.rpartition("/")[2].removesuffix(".json")) > order.version

    return object_store.delete_all_versions(bucket, archive_prefix(order), should_keep)


def _rewrite_archive_without_address(shop: ShopContext, bucket: str, stub: ArchivedOrder) -> bool:
    """Replace an order's archive object by one without personal data, and delete its others. Return whether it did.

    `stub`: the small item that points to the object. Invoices keep their personal data.
    """
    key = stub.object_key
    whole = json.loads(object_store.get(bucket, key))
    left = [image for image in map(erase_image, whole["items"]) if image is not None]
    taken = bool(left != whole["items"])
    if taken:
        whole["items"] = left
        key = f"{archive_prefix(stub)}{stub.version + 1}.json"
        body = object_store.put_if_absent(bucket, key, object_store.to_canonical_json(whole), "application/json")
        point_stub_to_object(shop, stub, key, hashlib.sha256(body).hexdigest())
    _delete_earlier_archives(bucket, stub, key)
    return taken


# The functions below redact the failure store: the S3 bucket with records and messages that could not be processed.
def redact_failure_store(run: ScheduledRun, bucket: str, customer_ids: set[str], seed: str) -> bool:
    """Remove the personal data of these customers from all records and messages in the failure store, an S3 bucket.

    Returns True if no object has their personal data any more. `seed`: chooses the first object. An operator can still
    process a redacted record again, because the tool reads the current item from the table.
    """
    keys = (key for key in object_store.list_keys(bucket) if not key.startswith(object_store.REDRIVEN_PREFIX))
    documents = WorkList(_begin_anywhere(keys, seed), lambda key: _redact_document(bucket, key, customer_ids))
    run.process(documents, time_limit=run.time_limit.share(0.5))
    return documents.is_complete and not run.failed_count


def _redact_document(bucket: str, key: str, customer_ids: set[str]) -> bool:
    """Remove the customers' personal data from one object in the failure store. Returns True if data was removed."""
    document = json.loads(object_store.get(bucket, key))
    given_up = json.loads(document["payload"]) if "payload" in document else None
    records = given_up["Records"] if given_up else [document["record"]]
    if not sum(_redact_record(record, customer_ids) for record in records):
        return False
    if given_up:
        document["payload"] = json.dumps(given_up)
    object_store.put(bucket, key, json.dumps(document).encode(), "application/json")
    return True


def _redact_record(record: Any, customer_ids: set[str]) -> int:
    """Remove the personal data of these customers from a stream record, and return how many values were redacted.

    What differed between the old and the new image still differs, so the record describes the same change. The keys of
    indexes go, too, because they can contain personal data, such as the hash of a guest's e-mail address.
    """
    old, new = _image(record, "OldImage"), _image(record, "NewImage")
    names = {*personal_attributes(old), *personal_attributes(new)}  # the types can differ: Customer, ErasedCustomer
    changed = {name for name in names if name in old and name in new and old[name] != new[name]}
    found = 0
    for image, word in ((old, ""), (new, CHANGED_TEXT)):
        if _customer_id_of(image) not in customer_ids:
            continue
        found += sum(image.pop(name, None) is not None for name in INDEX_KEYS if names)
        for name in names & image.keys():
            emptied = _redact_value(image[name], word if name in changed else "")
            found += emptied != image[name]
            image[name] = emptied
    return found


def _image(record: Any, name: str) -> dict[str, Any]:
    images = record.get("dynamodb") if isinstance(record, dict) else None
    image = images.get(name) if isinstance(images, dict) else None
    return image if isinstance(image, dict) else {}


def _redact_value(value: Any, replacement: str) -> dict[str, Any]:
    """Return an attribute value with every text replaced. Texts and maps keep their types; any other becomes NULL."""
    match value:
        case {"S": _}:
            return {"S": replacement}
        case {"M": dict(inner)}:
            return {"M": {name: _redact_value(one, replacement) for name, one in inner.items()}}
    return {"NULL": True}


def _customer_id_of(image: dict[str, Any]) -> str | None:
    """Return the id of the customer to whom an image belongs, or None, also if the image is malformed."""
    for name, prefix in (("customer_id", ""), ("PK", "CUSTOMER#")):
        text = image.get(name, {}).get("S") if isinstance(image.get(name), dict) else None
        if isinstance(text, str) and text.startswith(prefix):
            return text.removeprefix(prefix)
    return None
