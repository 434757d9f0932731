"""The whole shop on AWS: what there is, what feeds what, and what each function may do. Read `may` as a sentence."""

from typing import Any

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from functions import environment as env
from functions.model import lives
from functions.model.reactions import REACTIONS
from stacks import filters
from stacks.api import Api
from stacks.archive_bucket import ArchiveBucket
from stacks.bus import Bus
from stacks.every_minute import EveryMinute
from stacks.failure_store import FailureStore
from stacks.function import Function
from stacks.identity import Identity
from stacks.reaction_queue import ReactionQueue
from stacks.secrets import Secrets
from stacks.stage import Stage
from stacks.stream_reader import StreamReader
from stacks.table import Table

BY_STREAM = "Its mapping gives up to the failure bucket, which keeps the records, too."
BY_QUEUE = "Its queue has a dead-letter queue."
BY_CALL = "It is called while somebody waits for the answer, and gets it."
BY_SCHEDULE = "Its on-failure destination tells more than a dead-letter queue would."
ONE_EACH = "An object for each record, named by what is in it."


class OrdersStack(Stack):
    def __init__(self, scope: Construct, id: str, *, settings: Stage, code: lambda_.Code) -> None:
        super().__init__(
            scope,
            id,
            description=f"Orderstream: {settings.shop_name} ({settings.name})",
            termination_protection=settings.protect,
        )
        lives.check()
        shared: dict[str, Any] = {"stage": settings, "code": code}
        closing = {"retention_days": settings.retention_days, "return_window_days": settings.return_window_days}

        # What is kept
        key = kms.Key(
            self,
            "Key",
            description=f"All data of {self.stack_name}",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.RETAIN if settings.protect else RemovalPolicy.DESTROY,
        )
        table = Table(self, "Table", stage=settings, key=key)
        failures = FailureStore(self, "Failures", stage=settings, key=key)
        archived = ArchiveBucket(self, "Archived", stage=settings, key=key)
        secrets = Secrets(self, "Secrets", stage=settings, key=key)
        bus = Bus(self, "Bus")
        on_table = {"table_name": table.name, "failures_bucket": failures.name}

        # The way in
        api = Function(
            self,
            "Api",
            **shared,
            module="api.handler",
            environment=env.Api(
                table_name=table.name,
                pepper_secret=secrets.pepper_arn,
                webhook_secret=secrets.webhook_arn,
                **closing,
            ),
            failures_go=BY_CALL,
            timeout_seconds=15,
            memory_mb=1024,
        )
        api.may("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", on=table.arn)
        api.may("dynamodb:Query", on=list(table.index_arns.values()))
        api.may("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem", on=table.arn)
        api.may("secretsmanager:GetSecretValue", on=[secrets.pepper_arn, secrets.webhook_arn])
        api.may("kms:Decrypt", on=key.key_arn)
        identity = Identity(self, "Identity", stage=settings)
        http = Api(self, "Http", stage=settings, function=api, identity=identity)

        # The stream's two readers
        copies = Function(
            self,
            "Copies",
            **shared,
            module="copies",
            environment=env.Copies(**on_table),
            failures_go=BY_STREAM,
            timeout_seconds=120,
        )
        copies.may("dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:Query", "dynamodb:BatchWriteItem", on=table.arn)
        relay = Function(
            self,
            "Relay",
            **shared,
            module="relay",
            environment=env.Relay(bus_name=bus.name, failures_bucket=failures.name),
            failures_go=BY_STREAM,
            timeout_seconds=60,
        )
        relay.may("events:PutEvents", on=bus.arn)
        for reader, patterns, batch_size in ((copies, filters.of_copies(), 50), (relay, filters.of_relay(), 100)):
            reader.may("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", on=table.stream_arn)
            reader.may("dynamodb:ListStreams", on=f"{table.arn}/stream/*", because="A stream is listed by its table.")
            reader.may("s3:PutObject", on=failures.given_up_arn, because="Lambda writes what this mapping gives up.")
            reader.may("s3:ListBucket", on=failures.arn)
            StreamReader(
                reader,
                "Stream",
                stage=settings,
                function=reader,
                stream_arn=table.stream_arn,
                failures_arn=failures.arn,
                patterns=patterns,
                batch_size=batch_size,
            )

        # The reactions
        fulfilment = Function(
            self,
            "Fulfilment",
            **shared,
            module="fulfilment",
            environment=env.Fulfilment(**on_table),
            failures_go=BY_QUEUE,
            timeout_seconds=30,
        )
        fulfilment.may("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", on=table.arn)
        fulfilment.may("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem", on=table.arn)
        notifications = Function(
            self,
            "Notifications",
            **shared,
            module="notifications.handler",
            environment=env.Notifications(**on_table, sender=settings.sender, shop_name=settings.shop_name),
            failures_go=BY_QUEUE,
            timeout_seconds=60,
        )
        notifications.may("dynamodb:GetItem", "dynamodb:BatchGetItem", on=table.arn)
        notifications.may("dynamodb:PutItem", "dynamodb:UpdateItem", on=table.arn)
        # Whichever of the two is verified: SES asks for the narrower, if there is one.
        senders = [settings.sender, settings.sender.partition("@")[2]]
        notifications.may(
            "ses:SendEmail", on=[self.format_arn(service="ses", resource="identity", resource_name=x) for x in senders]
        )
        archive = Function(
            self,
            "Archive",
            **shared,
            module="archive",
            environment=env.Archive(**on_table, archive_bucket=archived.name),
            failures_go=BY_QUEUE,
            timeout_seconds=120,
        )
        archive.may("dynamodb:GetItem", "dynamodb:Query", on=table.arn)
        archive.may("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:BatchWriteItem", on=table.arn)
        archive.may("s3:PutObject", "s3:GetObject", on=archived.object_arns, because="An object for each order, or day.")
        workers = {"fulfilment": fulfilment, "notifications": notifications, "archive": archive}
        queues: dict[str, ReactionQueue] = {}
        for reaction in REACTIONS:
            worker = workers[reaction.function] if reaction.function else None
            queues[reaction.name] = reacting = ReactionQueue(
                self, f"{reaction.name.capitalize()}Reaction", stage=settings, bus=bus.bus, reaction=reaction, function=worker
            )
            if worker:
                receive = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
                worker.may(*receive, on=reacting.queue.queue_arn)
        for parking in (copies, relay, fulfilment, notifications, archive):
            parking.may("s3:PutObject", on=failures.parked_arn, because=ONE_EACH)
            parking.may("kms:Decrypt", "kms:GenerateDataKey", on=key.key_arn)

        # The passing of time
        lapse = Function(
            self,
            "Lapse",
            **shared,
            module="lapse",
            environment=env.Lapse(
                table_name=table.name,
                payment_window_minutes=settings.payment_window_minutes,
                assumed_delivered_days=settings.assumed_delivered_days,
                **closing,
            ),
            failures_go=BY_SCHEDULE,
            timeout_seconds=50,
        )
        every_minute = EveryMinute(lapse, "Schedule", stage=settings, function=lapse)
        lapse.may("dynamodb:GetItem", "dynamodb:Query", on=table.arn)
        lapse.may("dynamodb:Query", on=table.index_arns["GSI2"])
        lapse.may("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem", on=table.arn)
        lapse.may("kms:Decrypt", on=key.key_arn)
        lapse.may("sqs:SendMessage", on=every_minute.dead_letters.queue_arn)

        told = {
            "ApiUrl": http.url,
            "UserPoolId": identity.pool.user_pool_id,
            "UserPoolClientId": identity.client.user_pool_client_id,
            "TableName": table.name,
            "BusName": bus.name,
            "FailuresBucket": failures.name,
            "ArchiveBucket": archived.name,
            "WarehouseQueueUrl": queues["warehouse"].queue.queue_url,
            "PepperSecret": secrets.pepper_arn,
            "WebhookSecret": secrets.webhook_arn,
        }
        functions = (api, copies, relay, fulfilment, notifications, archive, lapse)
        for name, value in (told | {f"{one.node.id}Function": one.name for one in functions}).items():
            CfnOutput(self, name, value=value)
