"""Declares the checked mutants: single faults in the product, each with a check of its own that detects it.

Only faults that the simulation and the other tests miss are here. A check calls the product through handlers, HTTP
requests and commands, and compares stored items, mails and metrics with literal values. It computes no expected value
with the product's code. Each check is an ordinary test too, which passes without the fault.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from functions.dynamodb import writes
from functions.dynamodb.table import Table
from functions.handlers import (
    copies_reader,
    customer_erasure,
    product_alert_worker,
)
from functions.model import copies, patterns, timelines, totals
from functions.model.entities import Shards
from functions.runtime import clients
from functions.shop import (
    archive,
    erasure,
    idempotency,
    order_notifications,
    payments,
    placing,
    product_alerts,
    refunds,
)
from functions.shop.shop import Caller
from local.world.harness import ShopHarness
from ops.commands import migrate, restore
from ops.repair import copy_checks
from proof.mutants import (
    test_access,
    test_concurrency,
    test_credit_notes,
    test_erasures,
    test_filters,
    test_log_lines,
    test_mails,
    test_migrations,
    test_money,
    test_outdated_reads,
    test_permissions,
    test_retries,
    test_sales,
    test_timelines,
    test_times,
    test_totals,
)
from proof.mutants.edits import edit_code, edit_template, remove_action, replace_in_filters
from proof.simulation.mutations import Plant, patch_attribute, without_condition


@dataclass(frozen=True)
class CheckedMutant:
    """A fault that `plant` plants in the product, and the `check` that raises AssertionError while it is planted.

    `check`: a test of this folder. It gets an empty shop.
    """

    name: str
    plant: Plant
    check: Callable[[ShopHarness], None]


REFRESH_NAME = """
    if changed.row is ORDER and changed.event_name == "INSERT":
        customer_names.refresh_name(shop, changed.item)
"""
CHECKED_MUTANTS = (
    # The next faults concern the erasure of a customer's data.
    CheckedMutant(
        "erasure deletes the next archive object",
        edit_code(customer_erasure._delete_earlier_archives, ("> order.version", "> order.version + 1")),
        test_erasures.test_an_erasure_keeps_the_object_of_a_restored_order_that_is_archived_again_meanwhile,
    ),
    CheckedMutant(
        "erasure deletes every archive object but the one it knows",
        edit_code(
            customer_erasure._rewrite_archive_without_address,
            (
                "_delete_earlier_archives(bucket, stub, key)",
                "object_store.delete_all_versions(bucket, archive_prefix(stub), lambda other: other == key)",
            ),
        ),
        test_erasures.test_an_erasure_keeps_the_object_of_an_order_that_is_restored_and_archived_meanwhile,
    ),
    CheckedMutant(
        "erasure deletes the object of an order that is being archived",
        edit_code(customer_erasure.remove_address, (' or order.status == "ARCHIVING"', "")),
        test_erasures.test_an_erasure_keeps_the_object_of_a_restored_order_whose_archiving_was_interrupted,
    ),
    CheckedMutant(
        "erasure updates a stub without a condition",
        patch_attribute(erasure, "update", without_condition(writes.update)),
        test_erasures.test_an_erasure_does_not_write_its_object_key_into_an_order_that_is_restored_meanwhile,
    ),
    CheckedMutant(
        "settle period counts from the request",
        edit_code(erasure.finish_erasure, ("< erased.updated_at", "< erased.erased_at")),
        test_erasures.test_an_erasure_ends_14_days_after_the_last_data_was_removed_and_not_after_the_request,
    ),
    # The next faults concern refunds and disputes.
    CheckedMutant(
        "events of an archived order are forgotten by its restore",
        edit_code(payments._record, (" or (order is not None and order.restored_at is not None)", "")),
        test_money.test_an_event_that_was_ignored_while_its_order_was_archived_is_ignored_after_the_restore,
    ),
    CheckedMutant(
        "retry of a refund does not check the payment",
        edit_code(refunds.retry_refund, ("check_unchanged(PAYMENT, payment), ", "")),
        test_money.test_a_refund_is_not_retried_if_its_payment_is_disputed_at_the_same_time,
    ),
    CheckedMutant(
        "retry of a refund checks no version",
        edit_code(
            refunds.retry_refund,
            (
                "update(REFUND, before, after), check_unchanged(PAYMENT, payment),",
                'Write("Put", REFUND, {"Item": REFUND.encode(after)}, lambda _: WriteConflict(REFUND.type)),',
            ),
        ),
        test_money.test_two_retries_of_a_refund_at_once_pay_it_once,
    ),
    CheckedMutant(
        "31 days count from the first refund",
        edit_code(archive._days_until_money_settles, ("max(done)", "min(done)")),
        test_money.test_an_order_stays_in_the_table_until_31_days_after_the_later_of_its_two_refunds,
    ),
    # The next faults concern requests and deliveries that come twice, late, or at the same moment.
    CheckedMutant(
        "idempotency keys have 16 bits",
        edit_code(idempotency.IdempotencyKey.of, (".hex()[:32]", ".hex()[:4]")),
        test_retries.test_two_receipts_add_to_the_stock_although_the_hashes_of_their_keys_begin_alike,
    ),
    CheckedMutant(
        "name is refreshed before the summary exists",
        edit_code(
            copies_reader.apply_record,
            ("        customer_names.refresh_name(shop, changed.item)\n", "        pass\n"),
            (
                "    write_copies(shop.table, changed, copies_todo)\n",
                REFRESH_NAME + "    write_copies(shop.table, changed, copies_todo)\n",
            ),
        ),
        test_retries.test_an_order_gets_the_new_name_if_its_customer_is_renamed_just_before_its_summary_is_written,
    ),
    CheckedMutant(
        "late page is not compared with its campaign",
        edit_code(
            product_alerts.get_follower_page,
            ("found.event_id == event.id else None", "(found.event_id == event.id or after) else None"),
        ),
        test_retries.test_a_late_page_of_an_old_campaign_sends_no_mails_to_the_followers_of_a_new_one,
    ),
    CheckedMutant(
        "SES client retries once",
        edit_code(clients.client_config, ('"total_max_attempts"', '"max_attempts"')),
        test_mails.test_a_mail_is_sent_with_one_request_if_ses_fails,
    ),
    CheckedMutant(
        "SES client has the retries of the other clients",
        edit_code(clients.client_config, ('service == "sesv2"', 'service == "ses"')),
        test_mails.test_a_mail_is_sent_with_one_request_if_ses_fails,
    ),
    # The next faults concern periods of time, invoices and credit notes.
    CheckedMutant(
        "month of 31 days is final a month early",
        edit_code(totals.season_final_at, ("days=31", "days=30")),
        test_times.test_totals_of_january_change_until_60_days_after_its_31st_day,
    ),
    CheckedMutant(
        "an order is archived before its credit note",
        edit_code(archive.start_archiving, ("RECHECK_DAYS if lacks_credit_note(order, images) else ", "")),
        test_credit_notes.test_an_order_is_not_archived_before_its_credit_note,
    ),
    # The next faults are results of eventually consistent reads that are not confirmed.
    CheckedMutant(
        "a write that DynamoDB never accepts is an answer",
        edit_code(Table._prepare_transaction, ("< len(writes):", "< 0:")),
        test_outdated_reads.test_a_dispatch_that_reads_only_the_order_outdated_is_decided_again,
    ),
    CheckedMutant(
        "payments of an order are counted eventually",
        patch_attribute(refunds, "PAYMENTS_OF_ORDER", replace(patterns.PAYMENTS_OF_ORDER, consistent=False)),
        test_outdated_reads.test_an_order_takes_no_more_payments_than_allowed_although_a_replica_lacks_the_last_one,
    ),
    CheckedMutant(
        "a payment is updated without a condition",
        patch_attribute(payments, "update", without_condition(writes.update)),
        test_outdated_reads.test_a_late_failure_does_not_change_a_payment_that_a_replica_shows_before_its_capture,
    ),
    CheckedMutant(
        "an event that changes nothing does not check its payment",
        edit_code(payments._record, ("[check_unchanged(PAYMENT, existing)]", "[]")),
        test_outdated_reads.test_an_event_that_changes_nothing_is_answered_with_the_current_state_of_its_payment,
    ),
    CheckedMutant(
        "an event about an archived order does not check its payment",
        edit_code(payments._record, ("order), same_payment], result", "order)], result")),
        test_outdated_reads.test_an_event_about_a_payment_beside_an_archived_order_is_answered_with_this_payment,
    ),
    CheckedMutant(
        "totals of former shards are read eventually",
        edit_code(copies_reader.total_writes, ("batch_get(elsewhere, consistent=True)", "batch_get(elsewhere)")),
        test_outdated_reads.test_an_order_leaves_the_total_of_a_former_shard_although_a_replica_does_not_have_this_total,
    ),
    # The next faults concern the totals of a batch.
    CheckedMutant(
        "a batch counts two changes of an order",
        edit_code(copies_reader._fold, ("sorted(latest.values()", "sorted(counted")),
        test_totals.test_of_two_changes_of_an_order_in_a_batch_the_later_counts,
    ),
    CheckedMutant(
        "orders are counted in the order of the stream",
        edit_code(
            copies_reader._fold,
            ("sorted(latest.values(), key=lambda one: _busiest_total(one[1], uses))", "latest.values()"),
        ),
        test_totals.test_the_orders_of_the_best_selling_product_of_a_batch_share_a_transaction,
    ),
    CheckedMutant(
        "a busy total is sent again",
        patch_attribute(copies_reader, "conflict_if_busy", lambda write: write),
        test_totals.test_totals_that_another_transaction_changes_are_read_again_and_not_sent_again,
    ),
    CheckedMutant(
        "totals are updated without a condition",
        patch_attribute(copies_reader, "update", without_condition(writes.update)),
        test_totals.test_two_readers_that_count_the_same_product_at_once_lose_nothing,
    ),
    # The next faults concern the list of an order's mails.
    CheckedMutant(
        "mails are listed from the exact time of the order",
        patch_attribute(order_notifications, "subtract_clock_difference", lambda at: at),
        test_mails.test_a_mail_is_listed_although_the_clock_that_made_its_event_was_behind,
    ),
    # The next faults concern sales and purchases.
    CheckedMutant(
        "a later write moves the end of a sale",
        edit_code(copies.sales_of_order, ("fromisoformat(order.placed_at)", "fromisoformat(order.updated_at)")),
        test_sales.test_a_sale_ends_400_days_after_its_order_was_placed_whatever_is_written_later,
    ),
    CheckedMutant(
        "a restore moves the end of a sale",
        edit_code(
            copies.sales_of_order,
            ("fromisoformat(order.placed_at)", "fromisoformat(order.restored_at or order.placed_at)"),
        ),
        test_sales.test_a_restored_order_has_the_sales_that_it_had_before,
    ),
    CheckedMutant(
        "an order does not keep its number of shards",
        edit_code(placing._build_order, ("sales_shards=SALE_SHARDS.written if SALE_SHARDS.written > 1 else None,", "")),
        test_sales.test_an_order_keeps_the_shard_of_its_sales_while_the_number_of_shards_changes,
    ),
    CheckedMutant(
        "more shards are written than read",
        edit_code(Shards.__post_init__, ("if not 1 <= self.written <= self.read:", "if not 1 <= self.written:")),
        lambda _: test_sales.test_no_item_can_be_written_to_a_shard_that_queries_do_not_read(),
    ),
    CheckedMutant(
        "drift deletes the sales of archived orders",
        edit_code(copy_checks.find_orphaned_snapshot, ("isinstance(item, ArchivedOrder) and", "False and")),
        test_sales.test_drift_leaves_the_sales_of_archived_orders_and_finds_those_of_no_order,
    ),
    CheckedMutant(
        "drift leaves each sale of an archived order",
        edit_code(copy_checks.find_orphaned_snapshot, ('("customer_id", "placed_at", "currency")', "()")),
        test_sales.test_drift_leaves_the_sales_of_archived_orders_and_finds_those_of_no_order,
    ),
    # The next faults concern timelines.
    CheckedMutant(
        "a free order begins as placed",
        edit_code(timelines.first_entry, ("if order.total:", "if True:")),
        test_timelines.test_the_timeline_of_a_free_order_begins_with_its_payment,
    ),
    CheckedMutant(
        "a restore brings back retired index keys",
        edit_code(restore._missing_items, ("_with_index_keys(row, archived)", "archived")),
        test_timelines.test_a_restore_brings_back_only_the_index_keys_that_are_declared_now,
    ),
    # The next faults concern the copies of an order.
    CheckedMutant(
        "copies of a change are sent one after the other",
        edit_code(
            copies_reader.write_copies,
            (
                "table.run_concurrently([partial(write_unless_newer, table, write)",
                "print([write_unless_newer(table, write)",
            ),
        ),
        test_concurrency.test_the_copies_of_a_change_are_sent_at_the_same_time,
    ),
    CheckedMutant(
        "items of a batch are processed one after the other",
        patch_attribute(copies_reader, "ITEMS_AT_ONCE", 1),
        test_concurrency.test_the_copies_of_several_orders_are_sent_at_the_same_time,
    ),
    # The next faults concern migrations and repairs.
    CheckedMutant(
        "migrations delete no items",
        edit_code(
            migrate.build_migration_action, ("if not dry:\n                shop", "if dry:\n                shop")
        ),
        test_migrations.test_the_migrations_write_missing_sales_numbers_and_lines_of_summaries,
    ),
    CheckedMutant(
        "a repair takes a summary of an earlier version for right",
        edit_code(copy_checks._expected_snapshots, ("item.version if copies.is_last(row, into) else 1", "1")),
        test_migrations.test_a_summary_that_is_behind_gets_the_version_of_its_order_so_that_the_archive_can_begin,
    ),
    CheckedMutant(
        "a repair writes the summary first",
        edit_code(
            copy_checks._compare_copies,
            ("copies.is_last(row, one[1][0])", "not copies.is_last(row, one[1][0])"),
        ),
        test_migrations.test_the_archive_waits_for_a_repair_that_died_before_it_wrote_all_copies,
    ),
    # The next faults concern the data that a caller may see.
    CheckedMutant(
        "ownership compares the beginning of an id",
        edit_code(Caller.can_see, ("self.id == customer_id", "customer_id.startswith(self.id)")),
        test_access.test_a_customer_gets_no_data_of_a_customer_whose_id_begins_with_theirs,
    ),
    CheckedMutant(
        "ownership finds an id in another",
        edit_code(Caller.can_see, ("self.id == customer_id", "customer_id in self.id")),
        test_access.test_a_customer_gets_no_data_of_a_customer_whose_id_is_the_beginning_of_theirs,
    ),
    CheckedMutant(
        "caller without an id sees everything",
        edit_code(Caller.can_see, ("self.id == customer_id", "self.id in (customer_id, '')")),
        test_access.test_a_caller_without_an_id_gets_no_data_of_any_customer,
    ),
    # The next faults concern personal data in log lines.
    CheckedMutant(
        "rejected product alert logs its address",
        edit_code(
            product_alert_worker._send_alerts,
            ('"product_alert_rejected", extra={', '"product_alert_rejected", extra={"to": customer.email, '),
        ),
        test_log_lines.test_no_log_line_contains_a_word_of_a_customer_if_mails_are_rejected_or_fail,
    ),
    CheckedMutant(
        "failed product alert logs the text of SES",
        edit_code(
            product_alert_worker._send_alerts,
            (
                '"product_alert_failed", extra={"event_id": event.id, "error": type(reason).__name__}',
                '"product_alert_failed", extra={"event_id": event.id, "error": str(reason)}',
            ),
        ),
        test_log_lines.test_no_log_line_contains_a_word_of_a_customer_if_mails_are_rejected_or_fail,
    ),
    # The next faults are actions that a role in the template lacks.
    CheckedMutant(
        "name worker may not store the position of the next page",
        edit_template(partial(remove_action, "dynamodb:PutItem", "customer_name_worker")),
        test_permissions.test_a_customer_with_more_than_100_orders_is_renamed_and_erased_with_the_actions_of_the_roles,
    ),
    CheckedMutant(
        "product alert worker may not queue the next page",
        edit_template(partial(remove_action, "sqs:SendMessage", "product_alert_worker")),
        test_permissions.test_more_than_100_followers_get_a_mail_with_the_actions_of_the_roles,
    ),
    # The next faults are filters in the template that let too little pass.
    CheckedMutant(
        "name worker gets no erased customers",
        edit_template(partial(replace_in_filters, '"CustomerRenamed","CustomerErased"', '"CustomerRenamed"')),
        test_filters.test_an_erased_customer_has_no_name_on_an_open_order,
    ),
)
