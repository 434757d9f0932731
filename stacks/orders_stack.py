"""The main stack: creates and connects all resources of the shop, and grants the permissions of each function."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aws_cdk import CfnOutput, Duration, SecretValue, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.model import personal_data, retention
from functions.model.entities import STATUS_SHARDS
from functions.model.lambdas import lambda_name, resource_prefix
from functions.model.reactions import REACTIONS
from functions.runtime import environment as env
from stacks import filters, release
from stacks.alarm_definitions import AlarmTarget
from stacks.alarms import Alarms
from stacks.analytics import Analytics
from stacks.api import ShopApi
from stacks.archive_bucket import ArchiveBucket
from stacks.backups import Backups
from stacks.budget import MonthlyBudget
from stacks.bus import ShopEventBus
from stacks.cloudfront import ApiDistribution
from stacks.dashboard import Dashboard
from stacks.data_bucket import DataBucket
from stacks.encryption_key import EncryptionKey
from stacks.failing_resource import FailingResource
from stacks.failure_store import FailureStore
from stacks.function import (
    NO_DLQ_QUEUE,
    NO_DLQ_SCHEDULE,
    NO_DLQ_STREAM,
    NO_DLQ_SYNCHRONOUS,
    USE_KEY_ACTIONS,
    ShopFunction,
)
from stacks.identity import Identity
from stacks.mail import ShopMail
from stacks.operators import OperatorRole
from stacks.order_trace_query import OrderTraceQuery
from stacks.page import ShopPage
from stacks.reaction_queue import ReactionQueue
from stacks.schedule import MAX_TARGETS, Schedule
from stacks.secrets import ShopSecrets
from stacks.stage import Stage, cost_tags
from stacks.stream_mapping import StreamMapping
from stacks.switch_outputs import RunbookResources
from stacks.table import OrdersTable
from tools.declarations import InvalidDeclarations, check_declarations, declared_at

WHOLE_PROCESSOR_MB = 1769
"""The memory at which a function has one whole processor. Lambda gives processor time in proportion to memory.

https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html
"""


class OrdersStack(Stack):
    def __init__(self, scope: Construct, id: str, *, stage: Stage, code: lambda_.Code) -> None:
        description = f"Orderstream: {stage.shop_name} ({stage.name})"
        super().__init__(
            scope,
            id,
            description=description,
            termination_protection=stage.has_protections,
            tags=cost_tags(stage),
        )
        check_declarations()
        if stage.permissions_boundary:
            boundary = iam.ManagedPolicy.from_managed_policy_arn(self, "Boundary", stage.permissions_boundary)
            iam.PermissionsBoundary.of(self).apply(boundary)
        self.stage, self.code = stage, code

        self.key = EncryptionKey(self, "Key", stage=stage)
        self.table = OrdersTable(self, "Table", stage=stage, key=self.key)
        self.failures = FailureStore(self, "Failures", stage=stage, key=self.key)
        self.archive_bucket = ArchiveBucket(self, "Archived", stage=stage, key=self.key)
        expiry = s3.LifecycleRule(expiration=Duration.days(retention.EXPORT_DAYS))
        self.exports_bucket = DataBucket(self, "ListExports", stage=stage, key=self.key, lifecycle_rules=[expiry])
        self.exports_arn = f"{self.exports_bucket.bucket_arn}/exports/*"
        self.secrets = ShopSecrets(self, "Secrets", stage=stage, key=self.key)
        self.bus = ShopEventBus(self, "Bus", stage=stage)
        if stage.daily_backup_days or stage.monthly_backup_days:
            backups = Backups(self, "Backups", stage=stage, table=self.table, key=self.key)
            self.add_outputs(
                BackupVault=backups.vault_name,
                BackupRole=backups.role_arn,
                ArchiveCopyBucket=self.archive_bucket.copy_name,
            )

        self.table_environment: dict[str, Any] = {"table_name": self.table.name, "failures_bucket": self.failures.name}
        self.mail = ShopMail(self, "Mail", stage=stage)
        self.mail_environment = {
            "sender": stage.sender,
            "shop_name": stage.shop_name,
            "language": stage.language,
            "configuration_set": self.mail.configuration_set,
        }
        self.order_end_environment: dict[str, Any] = {
            "closed_order_days": stage.closed_order_days,
            "return_window_days": stage.return_window_days,
        }
        self.monitored: dict[AlarmTarget, dict[str, str]] = defaultdict(dict)
        self.runbook_resources = RunbookResources()
        self.page_url = ""
        functions = [
            *self.create_api(),
            *self.create_stream_readers(),
            *self.create_reaction_workers(),
            *self.create_scheduled_functions(),
            *self.create_canary(),
        ]
        operators = self.create_operator_role()
        if stage.analytics:
            analytics = Analytics(self, "Analytics", stage=stage, key=self.key, archive_bucket=self.archive_bucket)
            operators.allow_queries(analytics, self.archive_bucket)
            self.add_outputs(AnalyticsDatabase=analytics.database, AnalyticsWorkgroup=analytics.workgroup)
        if stage.monthly_budget:
            MonthlyBudget(self, "Budget", stage=stage)
        alarms = Alarms(self, "Alarms", stage=stage, key=self.key, places=self.monitored)
        if self.api_release:
            # The canary is created after the API, because it calls the API. So the API's release cannot wait for it.
            self.api_release.deploy_after([one for one in functions[1:] if one.lambda_name != "canary"])
            self.api_release.roll_back_on(alarms.rollback_alarms)
        Dashboard(self, "Dashboard", places=self.monitored, table=self.table.name)
        OrderTraceQuery(self, "OrderTrace", functions=functions)
        self.add_outputs(
            AlarmsTopic=alarms.topic_arn,
            OperatorsRole=operators.arn,
            TableName=self.table.name,
            BusName=self.bus.name,
            MailConfigurationSet=self.mail.configuration_set,
            KeyArn=self.key.key_arn,
            FailuresBucket=self.failures.name,
            ArchiveBucket=self.archive_bucket.name,
            PaymentWindowMinutes=str(stage.payment_window_minutes),
            ClosedOrderDays=str(stage.closed_order_days),
            ReturnWindowDays=str(stage.return_window_days),
            AuditDays=str(stage.audit_days),
            PepperSecret=self.secrets.pepper_arn,
            WebhookSecret=self.secrets.webhook_arn,
            **({"ProviderSecret": self.secrets.provider_arn} if stage.provider_url else {}),
            **{f"{resource_prefix(function.lambda_name)}Function": function.name for function in functions},
            **self.runbook_resources.outputs,
        )
        if stage.fail_deploy:
            FailingResource(self, "Failing")

    def create_api(self) -> Sequence[ShopFunction]:
        identity = None if self.stage.issuer else Identity(self, "Identity", stage=self.stage, mail=self.mail)
        self.identity = identity
        environment: dict[str, Any] = {
            "table_name": self.table.name,
            "archive_bucket": self.archive_bucket.name,
            "bus_name": self.bus.name,
            "exports_bucket": self.exports_bucket.bucket_name,
            "client_id": identity.client.user_pool_client_id if identity else "",
            **({} if identity else {"issuer": self.stage.issuer, "groups_claim": self.stage.groups_claim}),
            "pepper_secret": self.secrets.pepper_arn,
            "webhook_secret": self.secrets.webhook_arn,
            "shop_name": self.stage.shop_name,
            "language": self.stage.language,
            "customer_writes_per_minute": self.stage.customer_writes_per_minute,
            "customer_write_burst": self.stage.customer_write_burst,
            "unpaid_orders_per_customer": self.stage.unpaid_orders_per_customer,
            "payment_window_minutes": self.stage.payment_window_minutes,
            "audit_days": self.stage.audit_days,
            "public_cache_seconds": self.stage.public_cache_seconds,
            "unit_prices": self.stage.unit_prices,
            "origin_secret": self.secrets.required_origin_secret_arn,
            **self.order_end_environment,
        }
        api = self.create_function(
            "api",
            env.ApiEnvironment(**environment),
            no_dead_letters=NO_DLQ_SYNCHRONOUS,
            timeout_seconds=15,
            memory_mb=1024,
        )
        api.grant("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", on=self.table.arn)
        api.grant("dynamodb:Query", on=list(self.table.index_arns.values()))
        api.grant("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem", on=self.table.arn)
        api.grant("dynamodb:DeleteItem", on=self.table.arn)
        api.grant("secretsmanager:GetSecretValue", on=[self.secrets.pepper_arn, self.secrets.webhook_arn])
        api.grant("s3:GetObject", on=self.archive_bucket.orders_arn, because="One object for each order.")
        api.grant("events:PutEvents", on=self.bus.arn)
        api.grant("s3:GetObject", on=self.exports_arn, because="The links lead to any part of any export.")
        api.grant(*USE_KEY_ACTIONS, on=self.key.key_arn)
        api.grant(
            "ses:GetSuppressedDestination",
            "ses:DeleteSuppressedDestination",
            on="*",
            because="SES has one suppression list for the account, and its actions do not support resources.",
        )

        starter = self.create_payment_starter(environment)
        wanted = release.uses_versions(self.stage)
        self.api_release = release.Release(api, "Release", stage=self.stage, function=api) if wanted else None
        called = self.api_release.alias if self.api_release else api.function
        http = ShopApi(
            self, "Http", stage=self.stage, function=called, payment_starter=starter.function, identity=identity
        )
        self.request_logs = [api.log_group, starter.log_group, http.access_log]
        self.monitored["api"]["api"] = http.api_id
        self.monitored["api's function"]["api"] = api.name
        if self.stage.has_page or self.stage.web_acl:
            front = ApiDistribution(
                self, "CloudFront", stage=self.stage, api_id=http.api_id, secret=self.create_origin_secret(api, starter)
            )
            self.add_outputs(CloudFrontUrl=front.url, **({"DomainTarget": front.target} if self.stage.domain else {}))
            self.public_url = front.url
            if self.stage.has_page:
                page = ShopPage(self, "Page", stage=self.stage, front=front, identity=identity)
                self.add_outputs(PageUrl=page.url)
                self.page_url = page.url
                for function in (api, starter):
                    function.add_environment(page_url=page.url)
        else:
            if self.stage.domain:
                self.add_outputs(DomainTarget=http.use_domain(self.stage.domain, self.stage.certificate))
            self.public_url = http.url
        for function in (api, starter):
            function.add_environment(public_url=self.public_url)
        self.add_outputs(ApiUrl=http.url)
        if identity:
            pool = {"UserPoolId": identity.pool.user_pool_id, "UserPoolClientId": identity.client.user_pool_client_id}
            self.add_outputs(**pool)
        return api, starter

    def create_payment_starter(self, environment: Mapping[str, Any]) -> ShopFunction:
        """Create the function behind the routes that need the API key of the payment provider."""
        starter = self.create_function(
            "payment_starter",
            env.PaymentStarterEnvironment(
                **environment,
                provider_url=self.stage.provider_url,
                provider_secret=self.secrets.provider_arn,
                publishable_key=self.stage.publishable_key,
            ),
            no_dead_letters=NO_DLQ_SYNCHRONOUS,
            timeout_seconds=25,
        )
        starter.grant("dynamodb:GetItem", "dynamodb:Query", on=self.table.arn)
        starter.grant("dynamodb:PutItem", "dynamodb:UpdateItem", on=self.table.arn)
        # The pepper opens the tokens of guests.
        starter.grant("secretsmanager:GetSecretValue", on=[self.secrets.provider_arn, self.secrets.pepper_arn])
        starter.grant(*USE_KEY_ACTIONS, on=self.key.key_arn)
        return starter

    def create_origin_secret(self, *functions: ShopFunction) -> SecretValue | None:
        """Return the secret by which CloudFront proves to the API that it sent a request; None without a firewall."""
        if not self.secrets.origin_secret:
            return None
        self.add_outputs(OriginSecret=self.secrets.origin_secret_arn)
        for function in functions:
            function.grant("secretsmanager:GetSecretValue", on=self.secrets.origin_secret_arn)
        version = self.stage.origin_secret_version or None
        return SecretValue.secrets_manager(self.secrets.origin_secret_arn, json_field="current", version_id=version)

    def create_stream_readers(self) -> Sequence[ShopFunction]:
        copies = self.create_function(
            "copies_reader",
            env.CopiesEnvironment(**self.table_environment, audit_days=self.stage.audit_days),
            no_dead_letters=NO_DLQ_STREAM,
            timeout_seconds=120,
        )
        copies.grant("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", on=self.table.arn)
        copies.grant("dynamodb:Query", "dynamodb:GetItem", "dynamodb:BatchGetItem", on=self.table.arn)
        self.read_stream(copies, patterns=filters.build_copies_patterns())

        environment = env.EventPublisherEnvironment(**self.table_environment, bus_name=self.bus.name)
        publisher = self.create_function("event_publisher", environment, no_dead_letters=NO_DLQ_STREAM)
        publisher.grant("dynamodb:Query", "dynamodb:PutItem", on=self.table.arn)
        publisher.grant("events:PutEvents", on=self.bus.arn)
        self.read_stream(publisher, patterns=filters.build_publisher_patterns())
        return copies, publisher

    def read_stream(self, reader: ShopFunction, **settings: Any) -> None:
        stream = self.table.stream_arn
        reader.grant("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", on=stream)
        reader.grant(
            "dynamodb:ListStreams",
            on=f"{self.table.arn}/stream/*",
            because="ListStreams applies to all streams of the table.",
        )
        reader.grant(
            "s3:PutObject", on=self.failures.given_up_arn, because="Lambda chooses the object names of failed batches."
        )
        reader.grant("s3:ListBucket", on=self.failures.arn)
        self.allow_parking(reader)
        settings |= {"stream_arn": stream, "failures_arn": self.failures.arn}
        made = StreamMapping(reader, "Stream", stage=self.stage, function=reader, **settings)
        self.monitored["reader"][reader.lambda_name] = reader.name
        self.monitored["reader's mapping"][reader.lambda_name] = made.mapping_id
        self.runbook_resources.mappings[reader.lambda_name] = made.mapping_id

    def create_reaction_workers(self) -> Sequence[ShopFunction]:
        """Create a queue for each reaction, and return the functions. An external reader's queue URL is an output."""
        create_worker: Mapping[str | None, Callable[[], ShopFunction | None]] = {
            "archive_worker": self.create_archive_worker,
            "customer_name_worker": self.create_customer_name_worker,
            "export_worker": self.create_export_worker,
            "fulfilment_worker": self.create_fulfilment_worker,
            "import_worker": self.create_import_worker,
            "order_notification_worker": self.create_order_notification_worker,
            "product_alert_worker": self.create_product_alert_worker,
            "refund_worker": self.create_refund_worker,
            "webhook_worker": lambda: self.create_webhook_function("webhook_worker", no_dead_letters=NO_DLQ_QUEUE),
            None: lambda: None,
        }
        workers = []
        for reaction in map(self.stage.tuned, REACTIONS):
            if reaction.function not in create_worker:
                why = f"no stack creates the Lambda {reaction.function}"
                raise InvalidDeclarations(
                    f"{declared_at('reactions', reaction.name)}: {why}: create it in create_reaction_workers of "
                    "stacks/orders_stack.py, with its permissions"
                )
            worker = create_worker[reaction.function]()
            place = f"{resource_prefix(reaction.name)}Reaction"
            settings: dict[str, Any] = {"stage": self.stage, "bus": self.bus.event_bus, "reaction": reaction}
            made = ReactionQueue(self, place, function=worker, **settings)
            queue = made.queue
            self.monitored["queue"][reaction.name] = queue.queue_name
            self.monitored["dead letters"][reaction.name] = made.dead_letter_queue.queue_name
            self.runbook_resources.rules[reaction.name] = made.rule
            if worker is None:
                self.add_outputs(**{f"{reaction.name.capitalize()}QueueUrl": queue.queue_url})
                continue
            worker.grant("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", on=queue.queue_arn)
            worker.grant("sqs:ChangeMessageVisibility", on=queue.queue_arn)
            if reaction.continues_itself:
                worker.allow_continuing(queue)
            self.allow_parking(worker)
            self.runbook_resources.mappings[worker.lambda_name] = made.mapping_id
            workers.append(worker)
        return workers

    def create_fulfilment_worker(self) -> ShopFunction:
        environment = env.FulfilmentEnvironment(**self.table_environment, invoice_series=self.stage.invoice_series)
        worker = self.create_function("fulfilment_worker", environment, no_dead_letters=NO_DLQ_QUEUE)
        worker.grant("dynamodb:GetItem", "dynamodb:Query", on=self.table.arn)
        worker.grant("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem", on=self.table.arn)
        return worker

    def create_order_notification_worker(self) -> ShopFunction:
        environment = env.OrderNotificationsEnvironment(
            **self.table_environment,
            **self.mail_environment,
            order_mails_per_minute=self.stage.mails_per_invocation("order_notification"),
            pepper_secret=self.secrets.pepper_arn,
            public_url=self.public_url,
            page_url=self.page_url,
        )
        runs = retention.MAIL_SENDER_TIMEOUT_SECONDS
        worker = self.create_function(
            "order_notification_worker", environment, no_dead_letters=NO_DLQ_QUEUE, timeout_seconds=runs
        )
        worker.grant("dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", on=self.table.arn)
        worker.grant("secretsmanager:GetSecretValue", on=self.secrets.pepper_arn)
        worker.grant("ses:SendEmail", on=self.mail.sending_arns)
        return worker

    def create_product_alert_worker(self) -> ShopFunction:
        runs = retention.PRODUCT_ALERTS_TIMEOUT_SECONDS
        each = self.stage.mails_per_invocation("product_alert")
        environment = env.ProductAlertsEnvironment(
            **self.table_environment,
            **self.mail_environment,
            product_url=self.stage.product_url,
            pepper_secret=self.secrets.pepper_arn,
            public_url=self.public_url,
            alerts_per_minute=each,
            page_size=max(1, min(100, each * (runs - retention.MAIL_ATTEMPT_SECONDS) // 120)),
        )
        worker = self.create_function(
            "product_alert_worker", environment, no_dead_letters=NO_DLQ_QUEUE, timeout_seconds=runs
        )
        worker.grant("dynamodb:GetItem", "dynamodb:BatchGetItem", on=self.table.arn)
        worker.grant("dynamodb:PutItem", "dynamodb:UpdateItem", on=self.table.arn)
        worker.grant("dynamodb:Query", on=self.table.index_arns["GSI1"])
        worker.grant("secretsmanager:GetSecretValue", on=self.secrets.pepper_arn)
        worker.grant("ses:SendEmail", on=self.mail.sending_arns)
        return worker

    def create_refund_worker(self) -> ShopFunction:
        paying = {"provider_url": self.stage.provider_url, "provider_secret": self.secrets.provider_arn}
        environment = env.RefundsEnvironment(**self.table_environment, **paying)
        worker = self.create_function("refund_worker", environment, no_dead_letters=NO_DLQ_QUEUE, timeout_seconds=180)
        worker.grant("dynamodb:GetItem", "dynamodb:Query", on=self.table.arn)
        worker.grant("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem", on=self.table.arn)
        worker.grant("secretsmanager:GetSecretValue", on=self.secrets.provider_arn)
        return worker

    def create_customer_name_worker(self) -> ShopFunction:
        worker = self.create_function(
            "customer_name_worker",
            env.WorkerEnvironment(**self.table_environment),
            no_dead_letters=NO_DLQ_QUEUE,
            timeout_seconds=120,
        )
        worker.grant("dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", on=self.table.arn)
        return worker

    def create_archive_worker(self) -> ShopFunction:
        environment = env.ArchiveEnvironment(**self.table_environment, archive_bucket=self.archive_bucket.name)
        worker = self.create_function("archive_worker", environment, no_dead_letters=NO_DLQ_QUEUE, timeout_seconds=120)
        worker.grant("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query", on=self.table.arn)
        worker.grant("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:BatchWriteItem", on=self.table.arn)
        worker.grant("dynamodb:DeleteItem", "dynamodb:ConditionCheckItem", on=self.table.arn)  # the erasure of a guest
        worker.grant(
            "s3:PutObject",
            "s3:GetObject",
            on=self.archive_bucket.object_arns,
            because="One object for each order or day.",
        )
        return worker

    def create_import_worker(self) -> ShopFunction:
        environment = env.ImportWorkerEnvironment(
            **self.table_environment, lines_per_second=self.stage.import_lines_per_second
        )
        worker = self.create_function("import_worker", environment, no_dead_letters=NO_DLQ_QUEUE, timeout_seconds=30)
        worker.grant("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", on=self.table.arn)
        return worker

    def create_export_worker(self) -> ShopFunction:
        environment = env.ExportWorkerEnvironment(
            **self.table_environment, exports_bucket=self.exports_bucket.bucket_name
        )
        worker = self.create_function("export_worker", environment, no_dead_letters=NO_DLQ_QUEUE, timeout_seconds=120)
        worker.grant("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:UpdateItem", on=self.table.arn)
        worker.grant("dynamodb:Query", on=[self.table.arn, self.table.index_arns["GSI2"]])
        worker.grant("s3:PutObject", on=self.exports_arn, because="One object for each part and format.")
        return worker

    def create_webhook_function(self, module: str, **settings: Any) -> ShopFunction:
        environment = env.WebhookEnvironment(**self.table_environment, pepper_secret=self.secrets.pepper_arn)
        function = self.create_function(module, environment, timeout_seconds=120, **settings)
        function.grant("dynamodb:GetItem", "dynamodb:Query", on=self.table.arn)
        function.grant("dynamodb:PutItem", "dynamodb:UpdateItem", on=self.table.arn)
        function.grant("secretsmanager:GetSecretValue", on=self.secrets.pepper_arn)
        return function

    def create_scheduled_functions(self) -> Sequence[ShopFunction]:
        table_and_queues = [self.table.arn, self.table.index_arns["GSI2"]]
        stage = self.stage
        deadlines: dict[str, Any] = {
            "payment_window_minutes": stage.payment_window_minutes,
            "assumed_delivered_days": stage.assumed_delivered_days,
        }
        deadlines_environment = env.OrderDeadlinesEnvironment(
            table_name=self.table.name, lapse_lanes=stage.lapse_lanes, **deadlines, **self.order_end_environment
        )
        order_deadlines = self.create_function(
            "order_deadlines",
            deadlines_environment,
            no_dead_letters=NO_DLQ_SCHEDULE,
            timeout_seconds=60,
            memory_mb=WHOLE_PROCESSOR_MB,
        )
        order_deadlines.grant("dynamodb:Query", on=table_and_queues)
        order_deadlines.grant("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", on=self.table.arn)
        self.schedule_function(order_deadlines, every_minutes=1, groups=min(STATUS_SHARDS.read, MAX_TARGETS))

        erasure_environment = env.ArchiveEnvironment(**self.table_environment, archive_bucket=self.archive_bucket.name)
        erasure = self.create_function(
            "customer_erasure", erasure_environment, no_dead_letters=NO_DLQ_SCHEDULE, timeout_seconds=300
        )
        erasure_indexes = [self.table.index_arns[index] for index in personal_data.erasure_indexes()]
        erasure.grant("dynamodb:Query", on=[*table_and_queues, *erasure_indexes])
        erasure.grant(
            "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", on=self.table.arn
        )
        rewrite_objects = "s3:GetObject", "s3:PutObject"
        erasure.grant(
            *rewrite_objects,
            "s3:DeleteObjectVersion",
            on=self.archive_bucket.orders_arn,
            because="One object for each order.",
        )
        erasure.grant("s3:ListBucketVersions", on=self.archive_bucket.arn)
        erasure.grant(
            *rewrite_objects,
            on=[self.failures.parked_arn, self.failures.given_up_arn],
            because="One object for each record.",
        )
        erasure.grant("s3:ListBucket", on=self.failures.arn)
        self.schedule_function(erasure, every_minutes=60)

        backlog_metrics = self.create_function(
            "backlog_metrics",
            env.BacklogMetricsEnvironment(**self.table_environment, **deadlines),
            no_dead_letters=NO_DLQ_SCHEDULE,
        )
        backlog_metrics.grant("dynamodb:Query", on=[self.table.index_arns[index] for index in ("GSI2", "GSI3")])
        backlog_metrics.grant("s3:ListBucket", on=self.failures.arn)
        self.schedule_function(backlog_metrics, every_minutes=5)

        webhook_retries = self.create_webhook_function("webhook_retries", no_dead_letters=NO_DLQ_SCHEDULE)
        webhook_retries.grant("dynamodb:Query", on=self.table.index_arns["GSI3"])
        self.schedule_function(webhook_retries, every_minutes=1)
        return order_deadlines, erasure, backlog_metrics, webhook_retries

    def create_canary(self) -> Sequence[ShopFunction]:
        """Create the function that places and cancels an order every `canary_minutes`, if this setting is not 0."""
        if not self.stage.canary_minutes:
            return ()
        assert self.identity is not None, "a rule of the settings"
        environment = env.CanaryEnvironment(
            public_url=self.public_url,
            client_id=self.identity.client.user_pool_client_id,
            canary_secret=self.secrets.canary_arn,
        )
        canary = self.create_function("canary", environment, no_dead_letters=NO_DLQ_SCHEDULE)
        canary.grant("secretsmanager:GetSecretValue", on=self.secrets.canary_arn)
        self.schedule_function(canary, every_minutes=self.stage.canary_minutes)
        self.add_outputs(CanarySecret=self.secrets.canary_arn)
        return (canary,)

    def create_operator_role(self) -> OperatorRole:
        """Create the IAM role with which operators run the ops tools. No other role may scan the table."""
        return OperatorRole(
            self,
            "Operators",
            stage=self.stage,
            key=self.key,
            table=self.table,
            failures=self.failures,
            archive_bucket=self.archive_bucket,
            bus=self.bus,
            queues=[one for one in self.node.find_all() if isinstance(one, sqs.Queue)],
            request_logs=self.request_logs,
            secrets=self.secrets,
            runbook_resources=self.runbook_resources,
        )

    def schedule_function(self, function: ShopFunction, *, every_minutes: int, groups: int = 1) -> None:
        schedule = Schedule(
            function, "Schedule", stage=self.stage, function=function, minutes=every_minutes, groups=groups
        )
        self.monitored["hourly schedule" if every_minutes == 60 else "schedule"][function.lambda_name] = function.name
        self.monitored["dead letters"][function.lambda_name] = schedule.dead_letter_queue.queue_name
        self.runbook_resources.rules[function.lambda_name] = schedule.rule
        self.runbook_resources.failed_run_queues[function.lambda_name] = schedule.dead_letter_queue
        function.grant("sqs:SendMessage", on=schedule.dead_letter_queue.queue_arn)
        function.grant(*USE_KEY_ACTIONS, on=self.key.key_arn)

    def create_function(self, module: str, environment: Any, **settings: Any) -> ShopFunction:
        """Create the Lambda whose handler is in a module of functions/handlers, with its IAM role and log group."""
        return ShopFunction(
            self,
            resource_prefix(lambda_name(module)),
            stage=self.stage,
            code=self.code,
            module=module,
            environment=environment,
            **settings,
        )

    def allow_parking(self, function: ShopFunction) -> None:
        """Allow the function to store a record that can never be processed in the failure store, with the KMS key."""
        function.grant(
            "s3:PutObject",
            on=self.failures.parked_arn,
            because="One object for each record; the name contains a hash of the record.",
        )
        function.grant(*USE_KEY_ACTIONS, on=self.key.key_arn)

    def add_outputs(self, **outputs: str) -> None:
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
