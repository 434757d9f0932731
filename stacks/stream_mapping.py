"""The event source mapping of one of the two stream readers."""

from collections.abc import Sequence

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from functions.model.stream_readers import READERS
from stacks.function import ShopFunction
from stacks.stage import Stage


class StreamMapping(Construct):
    """An event source mapping, which invokes a function with the stream records that match the filter patterns.

    A failing batch is split until only the failing records are left. When they reach the maximum age, Lambda writes
    them to the failure store.
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
    ) -> None:
        super().__init__(scope, id)
        mapping = lambda_.CfnEventSourceMapping
        reader = next(one for one in READERS if one.name == function.lambda_name)
        # Use the L1 resource: the L2 construct would allow the function to read and delete objects in the failure
        # store.
        made = mapping(
            self,
            "Mapping",
            function_name=function.name,
            event_source_arn=stream_arn,
            starting_position="TRIM_HORIZON",
            batch_size=stage.number_for("batch_size", reader.name, reader.batch_size),
            maximum_batching_window_in_seconds=stage.number_for("batch_window_seconds", function.lambda_name),
            parallelization_factor=stage.parallelization,
            function_response_types=["ReportBatchItemFailures"],
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=reader.max_retries,
            maximum_record_age_in_seconds=reader.max_record_age_seconds,
            filter_criteria=mapping.FilterCriteriaProperty(
                filters=[mapping.FilterProperty(pattern=pattern) for pattern in patterns]
            ),
            metrics_config=mapping.MetricsConfigProperty(metrics=["EventCount"]),
            destination_config=mapping.DestinationConfigProperty(
                on_failure=mapping.OnFailureProperty(destination=failures_arn)
            ),
        )
        self.mapping_id: str = made.ref
