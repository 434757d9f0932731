"""One of the two readers of the table's stream: a shard serves no more, and one less beside a global table's own."""

from collections.abc import Sequence

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks.function import ShopFunction
from stacks.stage import Stage

UNLIMITED_RETRIES = -1
"""As often as it takes: what fails because the table or the bus does not answer goes by itself when they do, however
long that was. What can never be worked a reader parks at once; so only a batch that kills its function waits here."""
MAX_RECORD_AGE_SECONDS = 12 * 60 * 60
"""A shard waits no longer for what does not heal. Longer than the alarms of lag need to be heard, all of them; and the
stream itself forgets after 24 hours, before which somebody must have looked at what was given up."""


class StreamReader(Construct):
    """`mapping_id`. Calls the function with what the patterns let through, at once and in order per item.

    What still fails when it is so old, split down to the records that do, goes to the failure bucket with its records.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: Stage,
        function: ShopFunction,
        stream_arn: str,
        failures_arn: str,
        patterns: Sequence[str],
        batch_size: int,
    ) -> None:
        super().__init__(scope, id)
        mapping = lambda_.CfnEventSourceMapping
        # The resource itself, because the construct above it would let the function read and delete in the bucket.
        made = mapping(
            self,
            "Mapping",
            function_name=function.name,
            event_source_arn=stream_arn,
            starting_position="TRIM_HORIZON",
            batch_size=batch_size,
            maximum_batching_window_in_seconds=0,
            parallelization_factor=stage.parallelization,
            function_response_types=["ReportBatchItemFailures"],
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=UNLIMITED_RETRIES,
            maximum_record_age_in_seconds=MAX_RECORD_AGE_SECONDS,
            filter_criteria=mapping.FilterCriteriaProperty(
                filters=[mapping.FilterProperty(pattern=pattern) for pattern in patterns]
            ),
            destination_config=mapping.DestinationConfigProperty(
                on_failure=mapping.OnFailureProperty(destination=failures_arn)
            ),
        )
        self.mapping_id: str = made.ref
