"""SQL over the archive with Athena: a database with two tables and flat views, a workgroup, and a bucket for results.

Athena computes the partitions from the day in each key (partition projection), so no crawler is needed:
https://docs.aws.amazon.com/athena/latest/ug/partition-projection.html
"""

import base64
import json
from collections.abc import Mapping

from aws_cdk import Duration, Stack
from aws_cdk import aws_athena as athena
from aws_cdk import aws_glue as glue
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from functions.model.archive_columns import ColumnType, Structure, View, archive_columns, archive_views
from stacks.archive_bucket import ArchiveBucket
from stacks.data_bucket import DataBucket
from stacks.stage import Stage

RESULT_DAYS = 7
"""How many days S3 keeps a query's result, which may have personal data. The result is gone before an erasure ends."""
FIRST_DAY = "2020-01-01"
"""The first day of the tables' partitions. Athena does not look for objects of earlier days."""
HIVE_JSON = "org.apache.hive.hcatalog.data.JsonSerDe"
"""The Hive class with which Athena reads the objects. The other JSON class (OpenX) changes keys of maps to lower case.

https://docs.aws.amazon.com/athena/latest/ug/hive-json-serde.html
"""
TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
TEXT_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"


class Analytics(Construct):
    """The database, the workgroup and the results of queries, by name or ARN. `tables`: also the views."""

    def __init__(
        self, scope: Construct, id: str, *, stage: Stage, key: kms.IKey, archive_bucket: ArchiveBucket
    ) -> None:
        super().__init__(scope, id)
        stack = Stack.of(self)
        self.database = f"{stack.stack_name}_archive".replace("-", "_")  # SQL would need quotes for a hyphen
        self.workgroup = stack.stack_name
        database = glue.CfnDatabase(
            self,
            "Database",
            catalog_id=stack.account,
            database_input=glue.CfnDatabase.DatabaseInputProperty(name=self.database),
        )
        tables = archive_columns()
        views = archive_views()
        self.tables = [*tables, *views]
        for name, columns in tables.items():
            self._create_table(name, columns, f"s3://{archive_bucket.name}/{name}/").add_dependency(database)
        for name, view in views.items():
            self._create_view(name, view).add_dependency(database)
        results = self._create_results_bucket(stage, key)
        self.results_arn: str = results.bucket_arn
        self._create_workgroup(stage, key, results)

    def _create_table(self, name: str, columns: Structure, location: str) -> glue.CfnTable:
        made = glue.CfnTable
        return glue.CfnTable(
            self,
            name.capitalize(),
            catalog_id=Stack.of(self).account,
            database_name=self.database,
            table_input=made.TableInputProperty(
                name=name,
                table_type="EXTERNAL_TABLE",
                parameters=_project_days(location),
                partition_keys=[made.ColumnProperty(name="day", type="string")],
                storage_descriptor=made.StorageDescriptorProperty(
                    columns=[
                        made.ColumnProperty(name=column, type=hive_type(kind)) for column, kind in columns.items()
                    ],
                    location=location,
                    input_format=TEXT_INPUT,
                    output_format=TEXT_OUTPUT,
                    serde_info=made.SerdeInfoProperty(serialization_library=HIVE_JSON),
                ),
            ),
        )

    def _create_view(self, name: str, view: View) -> glue.CfnTable:
        """Create a view in the form in which Athena's CREATE VIEW stores it in the data catalog."""
        made = glue.CfnTable
        text = {
            "originalSql": view.query,
            "catalog": "awsdatacatalog",
            "schema": self.database,
            "columns": [{"name": column, "type": kind} for column, kind in view.columns.items()],
        }
        return glue.CfnTable(
            self,
            "".join(word.capitalize() for word in name.split("_")),
            catalog_id=Stack.of(self).account,
            database_name=self.database,
            table_input=made.TableInputProperty(
                name=name,
                table_type="VIRTUAL_VIEW",
                parameters={"presto_view": "true", "comment": "Presto View"},
                view_original_text=f"/* Presto View: {base64.b64encode(json.dumps(text).encode()).decode()} */",
                view_expanded_text="/* Presto View */",
                storage_descriptor=made.StorageDescriptorProperty(
                    columns=[
                        made.ColumnProperty(name=column, type="string" if kind == "varchar" else kind)
                        for column, kind in view.columns.items()
                    ]
                ),
            ),
        )

    def _create_results_bucket(self, stage: Stage, key: kms.IKey) -> s3.Bucket:
        return DataBucket(
            self,
            "Results",
            stage=stage,
            key=key,
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=Duration.days(RESULT_DAYS),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
            ],
        )

    def _create_workgroup(self, stage: Stage, key: kms.IKey, results: s3.Bucket) -> None:
        made = athena.CfnWorkGroup
        athena.CfnWorkGroup(
            self,
            "Workgroup",
            name=self.workgroup,
            description=f"Queries of the archive of {stage.shop_name} ({stage.name})",
            recursive_delete_option=True,  # the stack can be deleted although queries were run
            work_group_configuration=made.WorkGroupConfigurationProperty(
                enforce_work_group_configuration=True,  # no query can choose another bucket, encryption or limit
                bytes_scanned_cutoff_per_query=stage.analytics_limit_mb * 1_000_000,
                publish_cloud_watch_metrics_enabled=True,
                engine_version=made.EngineVersionProperty(selected_engine_version="Athena engine version 3"),
                result_configuration=made.ResultConfigurationProperty(
                    output_location=f"s3://{results.bucket_name}/",
                    encryption_configuration=made.EncryptionConfigurationProperty(
                        encryption_option="SSE_KMS", kms_key=key.key_arn
                    ),
                ),
            ),
        )


def _project_days(location: str) -> Mapping[str, str]:
    """Return the Glue parameters of a table with a partition for each day, such as `day=2026-11-24/` in `location`."""
    return {
        "EXTERNAL": "TRUE",
        "projection.enabled": "true",
        "projection.day.type": "date",
        "projection.day.format": "yyyy-MM-dd",
        "projection.day.range": f"{FIRST_DAY},NOW",
        "projection.day.interval": "1",
        "projection.day.interval.unit": "DAYS",
        "storage.location.template": f"{location}day=${{day}}/",
    }


def hive_type(kind: ColumnType) -> str:
    """Return a type of archive_columns.py in Glue's notation, with field names in lower case, as Athena writes them."""
    match kind:
        case str(name):
            return name
        case ("array", inner):
            return f"array<{hive_type(inner)}>"
        case ("map", inner):
            return f"map<string,{hive_type(inner)}>"
        case structure:
            return f"struct<{','.join(f'{n.lower()}:{hive_type(part)}' for n, part in dict(structure).items())}>"
