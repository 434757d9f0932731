"""The whole shop on AWS: what there is, what feeds what, and what each function may do. Read `may` as a sentence."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from aws_cdk import CfnOutput, SecretValue, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions import environment as env
from functions.model import lives
from functions.model.reactions import REACTIONS
from stacks import filters, release
from stacks.alarms import Alarms
from stacks.api import Api
from stacks.archive_bucket import ArchiveBucket
from stacks.backups import Backups
from stacks.bus import Bus
from stacks.conditions import Each
from stacks.dashboard import Dashboard
from stacks.failure_store import FailureStore
from stacks.front import Front
from stacks.function import BY_CALL, BY_QUEUE, BY_SCHEDULE, BY_STREAM, USE_KEY, Function
from stacks.identity import Identity
from stacks.key import Key
from stacks.operators import Operators
from stacks.order_followed import OrderFollowed
from stacks.page import Page
from stacks.reaction_queue import ReactionQueue
from stacks.schedule import Schedule
from stacks.secrets import Secrets
from stacks.stage import Stage
from stacks.stream_reader import StreamReader
from stacks.switches import Switches
from stacks.table import Table


class OrdersStack(Stack):
    def __init__(self, scope: Construct, id: str, *, stage: Stage, code: lambda_.Code) -> None:
        description = f"Orderstream: {stage.shop_name} ({stage.name})"
        super().__init__(scope, id, description=description, termination_protection=stage.protect)
        lives.check()
        self.stage, self.code = stage, code

        self.key = Key(self, "Key", stage=stage)
        self.table = Table(self, "Table", stage=stage, key=self.key)
        self.failures = FailureStore(self, "Failures", stage=stage, key=self.key)
        self.archived = ArchiveBucket(self, "Archived", stage=stage, key=self.key)
        self.secrets = Secrets(self, "Secrets", stage=stage, key=self.key)
        self.bus = Bus(self, "Bus")
        if stage.daily_backup_days or stage.monthly_backup_days:
            backups = Backups(self, "Backups", stage=stage, table=self.table, key=self.key)
            self.tell(BackupVault=backups.vault_name)

        self.on_table: dict[str, Any] = {"table_name": self.table.name, "failures_bucket": self.failures.name}
        self.mailing = {"sender": stage.sender, "shop_name": stage.shop_name}
        self.closing = {"retention_days": stage.retention_days, "return_window_days": stage.return_window_days}
        self.places: dict[Each, dict[str, str]] = defaultdict(dict)
        self.switches = Switches()
        functions = [self.the_way_in(), *self.the_streams_readers(), *self.the_reactions(), *self.the_passing_of_time()]
        operators = self.the_operators()
        alarms = Alarms(self, "Alarms", stage=stage, key=self.key, places=self.places)
        if self.released:
            self.released.after(functions[1:])
            self.released.braked_by(alarms.brakes)
        Dashboard(self, "Dashboard", places=self.places, table=self.table.name)
        OrderFollowed(self, "OrderFollowed", functions=functions)
        self.tell(
            AlarmsTopic=alarms.topic_arn,
            OperatorsRole=operators.arn,
            TableName=self.table.name,
            BusName=self.bus.name,
            KeyArn=self.key.key_arn,
            FailuresBucket=self.failures.name,
            ArchiveBucket=self.archived.name,
            PepperSecret=self.secrets.pepper_arn,
            WebhookSecret=self.secrets.webhook_arn,
            ProviderSecret=self.secrets.provider_arn,
            **{f"{function.node.id}Function": function.name for function in functions},
            **self.switches.outputs,
        )

    def the_way_in(self) -> Function:
        identity = Identity(self, "Identity", stage=self.stage)
        api = self.function(
            "api.handler",
            env.Api(
                table_name=self.table.name,
                client_id=identity.client.user_pool_client_id,
                pepper_secret=self.secrets.pepper_arn,
                webhook_secret=self.secrets.webhook_arn,
                shipping=",".join(self.stage.shipping),
                tax_rate=self.stage.tax_rate,
                shop_name=self.stage.shop_name,
                front_secret=self.secrets.asked_arn,
                **self.closing,
            ),
            no_dead_letters=BY_CALL,
            timeout_seconds=15,
            memory_mb=1024,
        )
        api.may("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", on=self.table.arn)
        api.may("dynamodb:Query", on=list(self.table.index_arns.values()))
        api.may("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem", on=self.table.arn)
        api.may("dynamodb:DeleteItem", on=self.table.arn)
        api.may("secretsmanager:GetSecretValue", on=[self.secrets.pepper_arn, self.secrets.webhook_arn])
        api.may(*USE_KEY, on=self.key.key_arn)

        wanted = release.is_wanted(self.stage)
        self.released = release.Release(api, "Release", stage=self.stage, function=api) if wanted else None
        called = self.released.alias if self.released else api.function
        http = Api(self, "Http", stage=self.stage, function=called, identity=identity)
        self.places["api"]["api"] = http.id
        self.places["api's function"]["api"] = api.name
        if self.stage.page or self.stage.web_acl:
            front = Front(self, "Front", stage=self.stage, api_id=http.id, secret=self.what_the_front_shows(api))
            self.tell(FrontUrl=front.url)
            if self.stage.page:
                page = Page(self, "Page", stage=self.stage, front=front, identity=identity)
                self.tell(PageUrl=page.url)
        self.tell(
            ApiUrl=http.url,
            UserPoolId=identity.pool.user_pool_id,
            UserPoolClientId=identity.client.user_pool_client_id,
        )
        return api

    def what_the_front_shows(self, api: Function) -> SecretValue | None:
        """The secret by which the api knows what came through the firewall; None where there is no firewall."""
        if not self.secrets.front:
            return None
        self.tell(FrontSecret=self.secrets.front_arn)
        api.may("secretsmanager:GetSecretValue", on=self.secrets.front_arn)
        version = self.stage.front_secret_version or None
        return SecretValue.secrets_manager(self.secrets.front_arn, json_field="current", version_id=version)

    def the_streams_readers(self) -> Sequence[Function]:
        copies = self.function("copies", env.Copies(**self.on_table), no_dead_letters=BY_STREAM, timeout_seconds=120)
        copies.may("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", on=self.table.arn)
        copies.may("dynamodb:Query", "dynamodb:GetItem", "dynamodb:BatchGetItem", on=self.table.arn)
        copies.may("dynamodb:BatchWriteItem", on=self.table.arn)
        self.read_stream(copies, patterns=filters.of_copies(), batch_size=50)

        publishing = env.Relay(bus_name=self.bus.name, failures_bucket=self.failures.name)
        relay = self.function("relay", publishing, no_dead_letters=BY_STREAM)
        relay.may("events:PutEvents", on=self.bus.arn)
        self.read_stream(relay, patterns=filters.of_relay(), batch_size=100)
        return copies, relay

    def read_stream(self, reader: Function, **settings: Any) -> None:
        stream = self.table.stream_arn
        reader.may("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", on=stream)
        reader.may("dynamodb:ListStreams", on=f"{self.table.arn}/stream/*", because="Streams are listed by table.")
        reader.may("s3:PutObject", on=self.failures.given_up_arn, because="Lambda names what its mapping gives up.")
        reader.may("s3:ListBucket", on=self.failures.arn)
        self.let_park(reader)
        settings |= {"stream_arn": stream, "failures_arn": self.failures.arn}
        made = StreamReader(reader, "Stream", stage=self.stage, function=reader, **settings)
        self.places["reader"][reader.node.id.lower()] = reader.name
        self.switches.mappings[reader.node.id] = made.mapping_id

    def the_reactions(self) -> Sequence[Function]:
        """Each reaction's queue, and who works it; where nobody of ours does, the stack tells where it is."""
        workers = []
        for reaction in REACTIONS:
            worker: Function | None = getattr(self, reaction.function)() if reaction.function else None
            place = f"{reaction.name.capitalize()}Reaction"
            settings: dict[str, Any] = {"stage": self.stage, "bus": self.bus.bus, "reaction": reaction}
            made = ReactionQueue(self, place, function=worker, **settings)
            queue = made.queue
            self.places["queue"][reaction.name] = queue.queue_name
            self.places["dead letters"][reaction.name] = made.dead_letters.queue_name
            self.switches.rules[reaction.name.capitalize()] = made.rule
            if worker is None:
                self.tell(**{f"{reaction.name.capitalize()}QueueUrl": queue.queue_url})
                continue
            worker.may("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", on=queue.queue_arn)
            if reaction.goes_on:
                worker.may("sqs:SendMessage", on=queue.queue_arn)
                worker.is_told(queue_url=queue.queue_url)
            self.let_park(worker)
            self.switches.mappings[worker.node.id] = made.mapping_id
            workers.append(worker)
        return workers

    def fulfilment(self) -> Function:
        fulfilment = self.function("fulfilment", env.Fulfilment(**self.on_table), no_dead_letters=BY_QUEUE)
        fulfilment.may("dynamodb:GetItem", "dynamodb:Query", on=self.table.arn)
        fulfilment.may("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem", on=self.table.arn)
        return fulfilment

    def notifications(self) -> Function:
        telling = env.Notifications(**self.on_table, **self.mailing)
        runs = lives.SENDER_SECONDS
        notifications = self.function("notifications.handler", telling, no_dead_letters=BY_QUEUE, timeout_seconds=runs)
        notifications.may("dynamodb:BatchGetItem", "dynamodb:PutItem", on=self.table.arn)
        self.let_mail(notifications)
        return notifications

    def notices(self) -> Function:
        each = self.stage.notices_per_second // 2  # so many work at a time
        noticing = env.Notices(
            **self.on_table,
            **self.mailing,
            product_url=self.stage.product_url,
            mails_per_second=each,
            page_size=min(100, each * lives.NOTICES_SECONDS // 2),
        )
        runs = lives.NOTICES_SECONDS
        notices = self.function("notices.handler", noticing, no_dead_letters=BY_QUEUE, timeout_seconds=runs)
        notices.may("dynamodb:GetItem", "dynamodb:BatchGetItem", on=self.table.arn)
        notices.may("dynamodb:PutItem", "dynamodb:UpdateItem", on=self.table.arn)
        notices.may("dynamodb:Query", on=self.table.index_arns["GSI1"])
        self.let_mail(notices)
        return notices

    def refunds(self) -> Function:
        paying = {"provider_url": self.stage.provider_url, "provider_secret": self.secrets.provider_arn}
        refunding = env.Refunds(**self.on_table, **paying)
        refunds = self.function("refunds", refunding, no_dead_letters=BY_QUEUE, timeout_seconds=180)
        refunds.may("dynamodb:GetItem", on=self.table.arn)
        refunds.may("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem", on=self.table.arn)
        refunds.may("secretsmanager:GetSecretValue", on=self.secrets.provider_arn)
        return refunds

    def names(self) -> Function:
        names = self.function("names", env.Names(**self.on_table), no_dead_letters=BY_QUEUE, timeout_seconds=120)
        names.may("dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", on=self.table.arn)
        return names

    def archive(self) -> Function:
        archiving = env.Archive(**self.on_table, archive_bucket=self.archived.name)
        archive = self.function("archive", archiving, no_dead_letters=BY_QUEUE, timeout_seconds=120)
        archive.may("dynamodb:GetItem", "dynamodb:Query", on=self.table.arn)
        archive.may("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:BatchWriteItem", on=self.table.arn)
        archive.may("s3:PutObject", "s3:GetObject", on=self.archived.object_arns, because="One for each order, or day.")
        return archive

    def bulk(self) -> Function:
        importing = env.Bulk(**self.on_table, lines_per_second=self.stage.import_lines_per_second)
        bulk = self.function("bulk", importing, no_dead_letters=BY_QUEUE, timeout_seconds=30)
        bulk.may("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", on=self.table.arn)
        return bulk

    def the_passing_of_time(self) -> Sequence[Function]:
        looked_at = [self.table.arn, self.table.index_arns["GSI2"]]
        stage = self.stage
        due: dict[str, Any] = {
            "payment_window_minutes": stage.payment_window_minutes,
            "assumed_delivered_days": stage.assumed_delivered_days,
        }
        lapsing = env.Lapse(table_name=self.table.name, **due, **self.closing)
        lapse = self.function("lapse", lapsing, no_dead_letters=BY_SCHEDULE, timeout_seconds=50)
        lapse.may("dynamodb:Query", on=looked_at)
        lapse.may("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", on=self.table.arn)
        self.call(lapse, every_minutes=1)

        erasing = env.Erasure(**self.on_table, archive_bucket=self.archived.name)
        erasure = self.function("erasure", erasing, no_dead_letters=BY_SCHEDULE, timeout_seconds=300)
        erasure.may("dynamodb:Query", on=[*looked_at, self.table.index_arns["GSI1"]])
        erasure.may("dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", on=self.table.arn)
        anew = "s3:GetObject", "s3:PutObject"
        erasure.may(*anew, "s3:DeleteObjectVersion", on=self.archived.orders_arn, because="One for each order.")
        erasure.may("s3:ListBucketVersions", on=self.archived.arn)
        erasure.may(*anew, on=[self.failures.parked_arn, self.failures.given_up_arn], because="One for each record.")
        erasure.may("s3:ListBucket", on=self.failures.arn)
        self.call(erasure, every_minutes=60)

        watch = self.function("watch", env.Watch(**self.on_table, **due), no_dead_letters=BY_SCHEDULE)
        watch.may("dynamodb:Query", on=[self.table.index_arns[index] for index in ("GSI2", "GSI3")])
        watch.may("s3:ListBucket", on=self.failures.arn)
        self.places["watch"]["watch"] = watch.name
        self.call(watch, every_minutes=5)
        return lapse, erasure, watch

    def the_operators(self) -> Operators:
        """Who uses the tools of ops: nobody else may scan the table."""
        return Operators(
            self,
            "Operators",
            stage=self.stage,
            key=self.key,
            table=self.table,
            failures=self.failures,
            archived=self.archived,
            bus=self.bus,
            queues=[one for one in self.node.find_all() if isinstance(one, sqs.Queue)],
            secrets=self.secrets,
            switches=self.switches,
        )

    def call(self, function: Function, *, every_minutes: int) -> None:
        schedule = Schedule(function, "Schedule", stage=self.stage, function=function, minutes=every_minutes)
        self.places["dead letters"][function.node.id.lower()] = schedule.dead_letters.queue_name
        self.switches.rules[function.node.id] = schedule.rule
        self.switches.runs[function.node.id] = schedule.dead_letters
        function.may("sqs:SendMessage", on=schedule.dead_letters.queue_arn)
        function.may(*USE_KEY, on=self.key.key_arn)

    def function(self, module: str, environment: Any, **settings: Any) -> Function:
        """The Lambda of a module of functions, by that module's name."""
        id = module.partition(".")[0].capitalize()
        return Function(self, id, stage=self.stage, code=self.code, module=module, environment=environment, **settings)

    def let_park(self, function: Function) -> None:
        """What can never be worked is put aside with its reason; it and all data of the table are encrypted."""
        function.may("s3:PutObject", on=self.failures.parked_arn, because="One for each record, named by its content.")
        function.may(*USE_KEY, on=self.key.key_arn)

    def let_mail(self, function: Function) -> None:
        """SES asks for the narrowest of its verified identities: the sender's address, or else its domain."""
        sender = self.stage.sender
        identity = partial(self.format_arn, service="ses", resource="identity")
        names = sender, sender.partition("@")[2]
        function.may("ses:SendEmail", on=[identity(resource_name=name) for name in names])

    def tell(self, **outputs: str) -> None:
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
