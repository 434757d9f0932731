"""Declares the probes: single faults in the product, each with a check of its own that detects it.

The simulation and the other tests did not detect these faults. A check shares no code with the product: it drives
handlers, HTTP requests and commands, and compares the stored items with literal values. Each check is an ordinary test
too. It passes without the fault.
"""

from collections.abc import Callable
from dataclasses import dataclass

from functions.dynamodb import writes
from functions.handlers import customer_erasure
from functions.shop import erasure
from tests.mutants import test_erasures
from tests.mutants.edits import edit_code
from tests.simulation.mutations import Plant, patch_attribute, without_condition
from tests.support.harness import ShopHarness


@dataclass(frozen=True)
class Probe:
    """A fault that `plant` plants in the product, and the `check` that raises AssertionError while it is planted.

    `check`: a test of this folder. It gets an empty shop.
    """

    name: str
    plant: Plant
    check: Callable[[ShopHarness], None]


PROBES = (
    # The next faults concern the erasure of a customer's data.
    Probe(
        "erasure deletes the next archive object",
        edit_code(customer_erasure._delete_earlier_archives, ("> order.version", "> order.version + 1")),
        test_erasures.test_an_erasure_keeps_the_object_of_a_restored_order_that_is_archived_again_meanwhile,
    ),
    Probe(
        "erasure deletes every archive object but the one it knows",
        edit_code(
            customer_erasure._rewrite_archive_without_address,
            (
                "_delete_earlier_archives(bucket, stub, key)",
                'object_store.delete_all_versions(bucket, f"orders/{stub.order_id}/", lambda other: other == key)',
            ),
        ),
        test_erasures.test_an_erasure_keeps_the_object_of_an_order_that_is_restored_and_archived_meanwhile,
    ),
    Probe(
        "erasure deletes the object of an order that is being archived",
        edit_code(customer_erasure.remove_address, ('(order.address or order.status == "ARCHIVING")', "order.address")),
        test_erasures.test_an_erasure_keeps_the_object_of_a_restored_order_whose_archiving_was_interrupted,
    ),
    Probe(
        "erasure updates a stub without a condition",
        patch_attribute(erasure, "update", without_condition(writes.update)),
        test_erasures.test_an_erasure_does_not_write_its_object_key_into_an_order_that_is_restored_meanwhile,
    ),
    Probe(
        "settle period counts from the request",
        edit_code(erasure.finish_erasure, ("< erased.updated_at", "< erased.erased_at")),
        test_erasures.test_an_erasure_ends_14_days_after_the_last_data_was_removed_and_not_after_the_request,
    ),
    Probe(
        "erasure keeps the settings",
        edit_code(erasure.erase_customer, ("            *(delete(SETTINGS, one) for one in chosen),\n", "")),
        test_erasures.test_an_erasure_deletes_the_customers_settings,
    ),
)
