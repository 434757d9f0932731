"""Export worker Lambda: write the next part of a list export to S3. Each saved part requests the next one."""

from collections.abc import Callable
from functools import partial

from functions.adapters import object_store
from functions.model.events import ReceivedEvent
from functions.runtime import observability
from functions.runtime.environment import ExportWorkerEnvironment
from functions.runtime.queue_batch import MessageBatch, queue_handler
from functions.shop.list_exports import write_next_part
from functions.shop.shop import ShopContext


@queue_handler(ExportWorkerEnvironment, margin_seconds=40)  # to read a page, and to write two objects
def handler(batch: MessageBatch, shop: ShopContext, environment: ExportWorkerEnvironment) -> None:
    """Lambda entry point: write the requested part of each queued export."""
    batch.apply_each(lambda event: write_part(shop, environment.exports_bucket, event, batch.is_out_of_time))


def write_part(shop: ShopContext, bucket: str, event: ReceivedEvent, is_out_of_time: Callable[[], bool]) -> None:
    """Write the part that an event requests, and log how many rows the export has now. Safe to repeat."""
    store = partial(object_store.put, bucket)
    export = write_next_part(shop, event.data.export_id, event.version, store, is_out_of_time)
    counts = {"rows": export.rows, "parts": len(export.part_hashes), "status": export.status} if export else {}
    effect = f"{export.export_id}/{len(export.part_hashes)}" if export else None
    observability.log_effect(
        "export_part_written", shop, event, effect=effect, export_id=event.data.export_id, **counts
    )
