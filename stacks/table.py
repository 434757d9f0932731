"""The DynamoDB table. Its keys, indexes and projections come from functions/model/table.py."""

from typing import Any, cast

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from functions.model.table import INDEX_PROJECTIONS, key_schema, projection
from stacks.stage import Stage


class OrdersTable(Construct):
    """The DynamoDB table. `stream_arn`: the ARN of its stream. `index_arns`: the ARN of each index, by its name."""

    def __init__(self, scope: Construct, id: str, *, stage: Stage, key: kms.IKey) -> None:
        super().__init__(scope, id)
        found = _restored_table_names(stage.stream_arn) if stage.stream_arn else self._create_table(stage, key)
        self.name, self.arn, self.stream_arn = found
        self.index_arns = {index: f"{self.arn}/index/{index}" for index in INDEX_PROJECTIONS}

    def _create_table(self, stage: Stage, key: kms.IKey) -> tuple[str, str, str]:
        table = dynamodb.TableV2(
            self,
            "Table",
            **_key_attributes("main"),
            global_secondary_indexes=[_index_properties(name, stage) for name in INDEX_PROJECTIONS],
            time_to_live_attribute="ttl",
            dynamo_stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES,
            billing=_billing(stage),
            warm_throughput=_warm_throughput(stage, "table"),
            table_class=dynamodb.TableClass(stage.table_class),
            encryption=dynamodb.TableEncryptionV2.aws_managed_key(),
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            contributor_insights_specification=_contributor_insights() if stage.contributor_insights else None,
            deletion_protection=stage.has_protections,
            removal_policy=stage.removal_policy,
        )
        # The L2 construct takes a customer managed key only if synth knows the region. The L1 resource always takes it.
        resource = cast(dynamodb.CfnGlobalTable, table.node.default_child)
        resource.add_property_override("Replicas.0.SSESpecification", {"KMSMasterKeyId": key.key_arn})
        return table.table_name, table.table_arn, table.table_stream_arn


def _restored_table_names(stream_arn: str) -> tuple[str, str, str]:
    """Return the name, ARN and stream ARN of a restored table outside the stack (docs/runbooks/restore-table.md)."""
    arn = stream_arn.partition("/stream/")[0]
    return arn.rpartition("/")[2], arn, stream_arn


def _key_attributes(index: str) -> dict[str, dynamodb.Attribute]:
    """Return the partition key and the sort key of an index as CDK arguments."""
    role = {"HASH": "partition_key", "RANGE": "sort_key"}
    return {
        role[key["KeyType"]]: dynamodb.Attribute(name=key["AttributeName"], type=dynamodb.AttributeType.STRING)
        for key in key_schema(index)
    }


def _index_properties(name: str, stage: Stage) -> dynamodb.GlobalSecondaryIndexPropsV2:
    projected = projection(name)
    return dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=name,
        **_key_attributes(name.lower()),
        projection_type=dynamodb.ProjectionType(projected["ProjectionType"]),
        non_key_attributes=projected.get("NonKeyAttributes"),
        warm_throughput=_warm_throughput(stage, name),
        **_capacity(stage, name),
    )


def _contributor_insights() -> dynamodb.ContributorInsightsSpecification:
    """Enable contributor insights for the table and each index, only of throttled keys, which costs nothing extra."""
    throttled = dynamodb.ContributorInsightsMode.THROTTLED_KEYS
    return dynamodb.ContributorInsightsSpecification(enabled=True, mode=throttled)


def _billing(stage: Stage) -> dynamodb.Billing:
    capacity = _capacity(stage, "table")
    by_request = stage.billing == "on-demand"
    return dynamodb.Billing.on_demand(**capacity) if by_request else dynamodb.Billing.provisioned(**capacity)


def _capacity(stage: Stage, where: str) -> dict[str, Any]:
    """Return the capacity of the table or an index: the maximum units on demand, or the autoscaling ranges."""
    if stage.billing == "on-demand":
        most = {"read": stage.max_read_units, "write": stage.write_limit}
        return {f"max_{way}_request_units": units for way, units in most.items() if units}
    return {
        f"{way}_capacity": _autoscaled_capacity(*stage.capacity_range(f"{way}_units", where), stage)
        for way in ("read", "write")
    }


def _warm_throughput(stage: Stage, where: str) -> dynamodb.WarmThroughput | None:
    """Return the warm throughput of the table or an index. None if the stage does not set it."""
    units = {f"{way}_units_per_second": stage.number_for(f"warm_{way}_units", where) for way in ("read", "write")}
    given = {name: number for name, number in units.items() if number}
    return dynamodb.WarmThroughput(**given) if given else None


def _autoscaled_capacity(least: int, most: int, stage: Stage) -> dynamodb.Capacity:
    return dynamodb.Capacity.autoscaled(
        min_capacity=least,
        max_capacity=most,
        seed_capacity=least,  # CloudFormation needs this to change an on-demand table to provisioned
        target_utilization_percent=stage.utilization,
    )
