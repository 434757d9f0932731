"""Declares the checked mutants: single faults in the product, each with a check of its own that detects it.

The simulation and other tests miss most of these faults. A check calls the product through handlers, HTTP
requests and commands, and compares stored items, mails and metrics with literal values. It computes no expected value
with the product's code. Each check is an ordinary test too, which passes without the fault.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from functions.api.http import context
from functions.dynamodb import writes
from functions.dynamodb.keys import Row
from functions.handlers import (
    api,
    archive_worker,
    backlog_metrics,
    copies_reader,
    customer_erasure,
    order_notification_worker,
    product_alert_worker,
)
from functions.model import entities, totals
from functions.runtime import clients, observability
from functions.shop import (
    archive,
    disputes,
    erasure,
    idempotency,
    orders,
    product_alerts,
    refund_processing,
    refunds,
    reviews,
)
from functions.shop.shop import Caller, Shop
from ops.commands import restore
from ops.scan import sweep
from tests.mutants import (
    test_access,
    test_alarms,
    test_erasures,
    test_filters,
    test_log_lines,
    test_mails,
    test_money,
    test_names,
    test_permissions,
    test_retries,
    test_times,
)
from tests.mutants.edits import edit_code, edit_template, remove_action, replace_in_filters, scale_thresholds
from tests.simulation.mutations import Plant, patch_attribute, without_condition
from tests.support.harness import ShopHarness


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
        "erasure leaves objects that an older version archived",
        patch_attribute(customer_erasure, "former_archive_prefix", entities.archive_prefix),
        test_erasures.test_an_erasure_deletes_the_object_that_an_older_version_archived_before_the_order_was_restored,
    ),
    CheckedMutant(
        "an archive that an older version began is finished with a new object",
        patch_attribute(archive, "former_archive_prefix", entities.archive_prefix),
        test_retries.test_an_archive_that_an_older_version_began_is_finished_with_its_object,
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
    CheckedMutant(
        "erasure keeps the settings",
        edit_code(
            erasure.erase_customer,
            ("            *(_delete_settings(shop, customer_id, name) for name in get_args(SettingsName)),\n", ""),
        ),
        test_erasures.test_an_erasure_deletes_the_customers_settings,
    ),
    # The next faults concern refunds and disputes.
    CheckedMutant(
        "fulfils what was cancelled",
        patch_attribute(orders, "update", without_condition(writes.update)),
        test_money.test_an_order_that_is_cancelled_while_it_is_fulfilled_gets_no_invoice_and_no_shipment,
    ),
    CheckedMutant(
        "won dispute pays while another is open",
        edit_code(
            disputes._adjust_order_money, ("if after.is_disputed or after.is_charged_back", "if after.is_charged_back")
        ),
        test_money.test_a_won_dispute_refunds_nothing_while_another_dispute_of_the_payment_is_open,
    ),
    CheckedMutant(
        "won dispute retries refunds after another was lost",
        edit_code(
            disputes._adjust_order_money, ("if after.is_disputed or after.is_charged_back", "if after.is_disputed")
        ),
        test_money.test_a_won_dispute_retries_no_refund_of_a_payment_that_another_dispute_took,
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
        "refunded amount without a condition",
        patch_attribute(refund_processing, "update", without_condition(writes.update)),
        test_money.test_two_refunds_of_a_payment_at_once_are_both_in_its_refunded_amount,
    ),
    CheckedMutant(
        "31 days count from the first refund",
        edit_code(archive._days_until_money_settles, ("max(done)", "min(done)")),
        test_money.test_an_order_stays_in_the_table_until_31_days_after_the_later_of_its_two_refunds,
    ),
    # The next faults concern requests and deliveries that come twice, late, or at the same moment as another.
    CheckedMutant(
        "idempotency keys are odd or even",
        edit_code(
            idempotency.run_idempotently,
            ('shop.digest("command", key).hex()[:32]', 'str(shop.digest("command", key)[0] % 2)'),
        ),
        test_retries.test_receipts_with_different_keys_all_add_to_the_stock_and_a_repeated_one_does_not,
    ),
    CheckedMutant(
        "idempotency keys have 16 bits",
        edit_code(idempotency.run_idempotently, (".hex()[:32]", ".hex()[:4]")),
        test_retries.test_two_receipts_add_to_the_stock_although_the_hashes_of_their_keys_begin_alike,
    ),
    CheckedMutant(
        "order ids have 16 bits",
        edit_code(Shop.derive_id, ("[:16]", "[:2]")),
        test_retries.test_two_orders_are_placed_although_the_hashes_of_their_keys_begin_alike,
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
        "campaign is not compared with its event",
        edit_code(
            product_alerts.get_follower_page,
            ("found if found is not None and found.event_id == event.id else None", "found"),
        ),
        test_retries.test_a_late_page_of_an_old_campaign_sends_no_mails_to_the_followers_of_a_new_one,
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
        "review written again begins at version 1",
        edit_code(reviews.write_review, ("deleted.version + 1 if deleted else 1", "1")),
        test_retries.test_a_review_that_is_deleted_and_written_again_keeps_its_creation_time_and_counts_versions_on,
    ),
    CheckedMutant(
        "review written again has a new creation time",
        edit_code(reviews.write_review, ("deleted.created_at if deleted else now", "now")),
        test_retries.test_a_review_that_is_deleted_and_written_again_keeps_its_creation_time_and_counts_versions_on,
    ),
    CheckedMutant(
        "archive does not wait for the totals",
        edit_code(archive._missing_derivations, ("if counted.get(one.source_id) != one.amounts", "if False")),
        test_retries.test_an_order_stays_in_the_table_until_the_totals_include_it,
    ),
    CheckedMutant(
        "archive does not wait for the copies",
        edit_code(archive._missing_derivations, (" and item.version == order.version", "")),
        test_retries.test_an_order_stays_in_the_table_until_its_copies_are_written,
    ),
    CheckedMutant(
        "summary is written although the version before has none",
        patch_attribute(copies_reader, "put_if_next", without_condition(writes.put_if_next)),
        test_retries.test_an_order_stays_in_the_table_until_its_copies_are_written,
    ),
    CheckedMutant(
        "earlier entries of a timeline are dropped",
        edit_code(orders.save_order, ("*([put_if_absent(EARLIER_TIMELINE, earlier)] if earlier else [])", "")),
        test_retries.test_the_timeline_of_an_order_has_each_of_many_changes,
    ),
    CheckedMutant(
        "part of a restore does not check the stub",
        edit_code(
            restore.restore_order,
            ("check_unchanged(ARCHIVED_ORDER, stub), *map(_put_item, part)", "*map(_put_item, part)"),
        ),
        test_retries.test_an_order_whose_stub_is_gone_gets_no_items_from_a_restore,
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
    CheckedMutant(
        "month of 31 days is final a month early",
        edit_code(totals.season_final_at, ("days=31", "days=30")),
        test_times.test_totals_of_january_change_until_60_days_after_its_31st_day,
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
    CheckedMutant(
        "token without a subject is accepted",
        edit_code(context.authenticate_caller, ("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "[A-Za-z0-9._-]{0,64}")),
        test_access.test_a_caller_without_an_id_gets_no_data_of_any_customer,
    ),
    # The next faults concern personal data in log lines.
    CheckedMutant(
        "order mail logs its address",
        edit_code(
            order_notification_worker.send_notification,
            ("mail=event.name, message_id", "mail=event.name, to=recipient.customer.email, message_id"),
        ),
        test_log_lines.test_no_log_line_contains_a_word_of_a_customer_whose_order_is_handled,
    ),
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
    CheckedMutant(
        "failed record logs the text of the error",
        edit_code(observability.failure_logger, ("type(error).__name__", "str(error)")),
        test_log_lines.test_no_log_line_contains_a_word_of_a_customer_if_mails_are_rejected_or_fail,
    ),
    CheckedMutant(
        "failed record is logged with its images",
        edit_code(
            observability.record_identifiers,
            ('{name: key.get("S") for name, key in keys.items()}', 'dict(record["dynamodb"])'),
        ),
        test_log_lines.test_no_log_line_contains_a_word_of_a_customer_if_items_or_messages_are_damaged,
    ),
    CheckedMutant(
        "request logs its path",
        edit_code(api._handle_request, ('line["route"] = route.key', 'line["route"] = request.path')),
        test_log_lines.test_no_log_line_contains_a_word_of_a_request_to_the_api,
    ),
    # The next faults concern alarms.
    CheckedMutant(
        "alarms on the stream's lag count in seconds",
        edit_template(partial(scale_thresholds, "IteratorAge", 1 / 1000)),
        test_alarms.test_each_alarm_on_a_metric_of_aws_has_its_threshold_in_the_unit_of_the_metric,
    ),
    CheckedMutant(
        "alarms on the queues' lag count in milliseconds",
        edit_template(partial(scale_thresholds, "ApproximateAgeOfOldestMessage", 1000)),
        test_alarms.test_each_alarm_on_a_metric_of_aws_has_its_threshold_in_the_unit_of_the_metric,
    ),
    CheckedMutant(
        "alarms on the queues' lag count in minutes",
        edit_template(partial(scale_thresholds, "ApproximateAgeOfOldestMessage", 1 / 60)),
        test_alarms.test_each_alarm_on_a_metric_of_aws_has_its_threshold_in_the_unit_of_the_metric,
    ),
    CheckedMutant(
        "alarm on throttling counts thousands",
        edit_template(partial(scale_thresholds, "Throttles", 1000)),
        test_alarms.test_throttled_requests_raise_an_alarm_if_there_are_more_than_20,
    ),
    CheckedMutant(
        "alarms are evaluated each 5 hours",
        edit_template(partial(scale_thresholds, "OrdersStalled", 60, attribute="Period")),
        test_alarms.test_each_alarm_is_evaluated_every_5_minutes_but_for_crashes_and_silence,
    ),
    CheckedMutant(
        "paid orders count as stalled after 10 hours",
        patch_attribute(backlog_metrics, "STALLED_AFTER", timedelta(hours=10)),
        test_alarms.test_an_order_without_a_shipment_raises_an_alarm_10_minutes_after_its_payment,
    ),
    CheckedMutant(
        "payment window is in seconds",
        edit_code(backlog_metrics.handler, ("timedelta(minutes=environment", "timedelta(seconds=environment")),
        test_alarms.test_an_unpaid_order_raises_an_alarm_5_minutes_after_its_30_minutes_for_the_payment,
    ),
    CheckedMutant(
        "time for the delivery is in hours",
        edit_code(backlog_metrics.handler, ("timedelta(days=environment", "timedelta(hours=environment")),
        test_alarms.test_a_sent_order_raises_an_alarm_5_minutes_after_its_30_days_for_the_delivery,
    ),
    CheckedMutant(
        "mismatches count as parked",
        edit_code(archive_worker.handler, (".startswith(Mismatch.__name__)", ".endswith(Mismatch.__name__)")),
        test_alarms.test_each_kind_of_object_in_the_failure_store_raises_its_alarm,
    ),
    # The next faults are actions that a role in the template lacks.
    CheckedMutant(
        "name worker may not store the position of the next page",
        edit_template(partial(remove_action, "dynamodb:PutItem", "customer_name_worker")),
        test_permissions.test_a_customer_with_more_than_100_orders_is_renamed_and_erased_with_the_actions_of_the_roles,
    ),
    CheckedMutant(
        "erasure may not delete follows",
        edit_template(partial(remove_action, "dynamodb:DeleteItem", "customer_erasure")),
        test_permissions.test_a_customer_with_more_than_100_orders_is_renamed_and_erased_with_the_actions_of_the_roles,
    ),
    CheckedMutant(
        "archive may not delete items in batches",
        edit_template(partial(remove_action, "dynamodb:BatchWriteItem", "archive_worker")),
        test_permissions.test_an_order_with_many_items_is_archived_with_the_actions_of_the_roles,
    ),
    CheckedMutant(
        "product alert worker may not queue the next page",
        edit_template(partial(remove_action, "sqs:SendMessage", "product_alert_worker")),
        test_permissions.test_more_than_100_followers_get_a_mail_with_the_actions_of_the_roles,
    ),
    CheckedMutant(
        "deadlines Lambda may not store expiry markers",
        edit_template(partial(remove_action, "dynamodb:PutItem", "order_deadlines")),
        test_permissions.test_more_than_100_unpaid_orders_lapse_with_the_actions_of_the_roles,
    ),
    # The next faults concern items under the names of an earlier version.
    CheckedMutant(
        "decoder ignores former names",
        edit_code(Row.current_form, ("if former in image}", "if former in ()}")),
        test_names.test_the_units_that_an_earlier_version_counted_are_subtracted_when_the_order_is_cancelled,
    ),
    CheckedMutant(
        "migration renames an item that changed since it was read",
        edit_code(
            sweep._update_request,
            (
                'f"{alias} = {before_tokens[name]}" if',
                'f"({alias} = {before_tokens[name]} OR attribute_exists(PK))" if',
            ),
        ),
        test_names.test_a_migration_does_not_bring_back_a_campaign_that_ends_meanwhile,
    ),
    # The next faults are filters in the template that let too little pass.
    CheckedMutant(
        "publisher gets no changed refunds",
        edit_template(partial(replace_in_filters, '"Product","Refund","Shipment"', '"Product","Shipment"')),
        test_filters.test_a_customer_gets_a_mail_for_each_step_of_an_order_and_for_its_refund,
    ),
    CheckedMutant(
        "publisher gets no stock that was below zero",
        edit_template(partial(replace_in_filters, '["0",{"prefix":"-"}]', '["0"]')),
        test_filters.test_followers_of_a_product_with_backorders_get_a_mail_when_it_is_in_stock_again,
    ),
    CheckedMutant(
        "copies get no deleted reviews",
        edit_template(partial(replace_in_filters, '"DeletedReview",', "")),
        test_filters.test_a_deleted_review_leaves_the_rating,
    ),
    CheckedMutant(
        "name worker gets no erased customers",
        edit_template(partial(replace_in_filters, '"CustomerRenamed","CustomerErased"', '"CustomerRenamed"')),
        test_filters.test_an_erased_customer_has_no_name_on_an_open_order,
    ),
)
