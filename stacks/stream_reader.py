"""The event source mapping of one of the two stream readers.

DynamoDB supports at most two readers per shard, and only one if the table is a global table.
"""

from collections.abc import Sequence

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks.function import ShopFunction
from stacks.stage import Stage

UNLIMITED_RETRIES = -1
"""The number of retries. -1 means that Lambda retries a failed batch until its records reach MAX_RECORD_AGE_SECONDS.

If the table or the bus is unavailable, the retries succeed as soon as the table or bus is available again. A reader
does not retry a record that it can never process, but parks it (stores it in the failure store) at once. So only a
batch that crashes the function is retried without success.
"""
MAX_RECORD_AGE_SECONDS = 12 * 60 * 60
"""After how many seconds Lambda stops retrying a record that keeps failing.

12 hours are enough time to react to the lag alarms. The stream keeps records for 24 hours, so an operator can still
inspect the records afterwards.
"""


class StreamReader(Construct):
    """An event source mapping, which invokes a function with the stream records that match the filter patterns.

    Records are delivered without delay, unless the stage has a batch window, and in order for each item. A failing
    batch is split until only the failing records are left. When these records reach the maximum age, Lambda writes them
    to the failure store (an S3 bucket).
    `mapping_id`: the id of the mapping.
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
        # Use the L1 resource: the L2 construct would allow the function to read and delete objects in the failure
        # store.
        made = mapping(
            self,
            "Mapping",
            function_name=function.name,
            event_source_arn=stream_arn,
            starting_position="TRIM_HORIZON",
            batch_size=stage.number_for("batch_size", function.lambda_name, batch_size),
            maximum_batching_window_in_seconds=stage.number_for("batch_window_seconds", function.lambda_name),
            parallelization_factor=stage.parallelization,
            function_response_types=["ReportBatchItemFailures"],
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=UNLIMITED_RETRIES,
            maximum_record_age_in_seconds=MAX_RECORD_AGE_SECONDS,
            filter_criteria=mapping.FilterCriteriaProperty(
                filters=[mapping.FilterProperty(pattern=pattern) for pattern in patterns]
            ),
            metrics_config=mapping.MetricsConfigProperty(metrics=["EventCount"]),
            destination_config=mapping.DestinationConfigProperty(
                on_failure=mapping.OnFailureProperty(destination=failures_arn)
            ),
        )
        self.mapping_id: str = made.ref
