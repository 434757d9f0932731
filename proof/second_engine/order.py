"""Plays an order in LocalEmu: handlers place, pay and ship it, each in a process with the credentials of its role."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

from functions.dynamodb.table import Table
from functions.model.table import ROWS_BY_TYPE
from functions.shop import customers, products
from functions.shop.shop import Caller, ShopContext
from local.world.dynamodb_engine import REGION
from local.world.handlers import load_readers, load_workers, to_sqs_record
from local.world.stripe_account import sign_webhook
from proof.second_engine import roles, stack
from proof.second_engine.emulator import Emulator
from proof.support.http_client import ANN, HOME_ADDRESS, JSON, WAREHOUSE, Token, http_event, json_event, payment_event
from stacks import PROJECT

Item = dict[str, Any]
INVOKE = """
import functools, importlib, json, sys
import botocore.session
from proof.support.lambda_context import FakeContext
Session = botocore.session.Session
Session.create_client = functools.partialmethod(Session.create_client, verify=False)
answer = importlib.import_module("functions.handlers." + sys.argv[1]).handler(json.load(sys.stdin), FakeContext())
json.dump(answer, open(sys.argv[2], "w"))
"""
QUIET_ROUNDS = 3
"""How many times no queue has a message before the order is complete: LocalEmu's bus delivers a little later."""


class Handlers:
    """The handlers of a stack, with their roles. This class delivers the records and messages, instead of LocalEmu."""

    def __init__(self, emulator: Emulator, name: str) -> None:
        self.emulator, self.calls = emulator, 0
        client = emulator.client("lambda")
        found = client.list_functions(MaxItems=50)["Functions"]
        self.functions = {one["Handler"].split(".")[2]: one for one in found}
        self.sessions = {module: roles.assume(emulator, one["Role"]) for module, one in self.functions.items()}
        for mapping in client.list_event_source_mappings()["EventSourceMappings"]:
            client.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        self.variables = self.functions["api"]["Environment"]["Variables"]
        self.images: dict[str, Item] = {}
        sender = self.functions["order_notification_worker"]["Environment"]["Variables"]["SENDER"]
        emulator.client("sesv2").create_email_identity(EmailIdentity=sender)
        self.queues = {module: self._queue_of(module) for module in load_workers_by_module()}

    def _queue_of(self, module: str) -> str:
        name = self.functions[module]["FunctionName"]
        (mapping,) = self.emulator.client("lambda").list_event_source_mappings(FunctionName=name)["EventSourceMappings"]
        queue = mapping["EventSourceArn"].rpartition(":")[2]
        return str(self.emulator.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"])

    def invoke(self, module: str, event: Any) -> Any:
        """Run a handler with the variables and the role of its function. Raises StackFailed if it fails."""
        self.calls += 1
        answer = self.emulator.folder / "answer.json"
        environment = {
            **self.functions[module]["Environment"]["Variables"],
            **{name.upper(): value for name, value in self.sessions[module].items()},
            "AWS_ENDPOINT_URL": self.emulator.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "PATH": os.environ["PATH"],
            "PYTHONWARNINGS": "ignore",
        }
        command = [sys.executable, "-c", INVOKE, module, str(answer)]
        done = subprocess.run(
            command, input=json.dumps(event), cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode or "AccessDenied" in done.stdout or "not authorized" in done.stdout:
            raise stack.StackFailed(f"{module} failed: {done.stdout[-1500:]}{done.stderr[-1500:]}")
        return json.loads(answer.read_text())

    def request(self, method: str, path: str, token: Token, body: Any, key: str) -> Any:
        """Send a request to the API's handler, and deliver all its effects. Return the answer's body."""
        signed_in = replace(token, client_id=self.variables["CLIENT_ID"])
        return self._deliver(self.invoke("api", json_event(method, path, signed_in, body, key=key)))

    def pay(self, order_id: str, total: int) -> None:
        secret = self.emulator.client("secretsmanager").get_secret_value(SecretId=self.variables["WEBHOOK_SECRET"])
        text = json.dumps(payment_event(order_id, total))
        signature = sign_webhook(json.loads(secret["SecretString"])["current"], text, time.time())
        headers = {**JSON, "stripe-signature": signature}
        self._deliver(self.invoke("api", http_event("POST", "/payments/events", body=text, headers=headers)))

    def _deliver(self, response: Any) -> Any:
        if response["statusCode"] >= 300:
            raise stack.StackFailed(f"the API answered {response}")
        quiet = 0
        while quiet < QUIET_ROUNDS:
            quiet += 1
            if records := self.new_records():
                quiet = 0
                for reader in load_readers():
                    self._expect_success(reader, records)
            for module, url in self.queues.items():
                sqs = self.emulator.client("sqs")
                found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
                for one in found:
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
                if found:
                    quiet = 0
                    source = {"eventSourceARN": f"arn:aws:sqs:{REGION}:000000000000:{url.rpartition('/')[2]}"}
                    messages = [{"messageId": one["MessageId"], "body": one["Body"], **source} for one in found]
                    self._expect_success(module, [to_sqs_record(one) for one in messages])
            time.sleep(0.3)
        return json.loads(response["body"]) if response.get("body") else None

    def _expect_success(self, module: str, records: list[Any]) -> None:
        if (answer := self.invoke(module, {"Records": records})) != {"batchItemFailures": []}:
            raise stack.StackFailed(f"{module} reports {answer}")

    def new_records(self) -> list[Any]:
        """Return the stream records of the changes since the last call: LocalEmu loses those of transactions."""
        client, table = self.emulator.client("dynamodb"), self.variables["TABLE_NAME"]
        pages = client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
        now = {json.dumps([one["PK"], one["SK"]]): one for page in pages for one in page["Items"]}
        before, self.images = self.images, now
        records = []
        for key in sorted(before.keys() | now.keys()):
            old, new = before.get(key), now.get(key)
            if old != new:
                item: Item = new or old or {}
                change = {
                    "Keys": {name: item[name] for name in ("PK", "SK")},
                    **({"OldImage": old} if old else {}),
                    **({"NewImage": new} if new else {}),
                    "SequenceNumber": str(10**20 + time.time_ns()),
                    "SizeBytes": 1,
                    "StreamViewType": "NEW_AND_OLD_IMAGES",
                    "ApproximateCreationDateTime": int(time.time()),
                }
                kind = "MODIFY" if old and new else "INSERT" if new else "REMOVE"
                record = {"eventID": str(time.time_ns()), "eventName": kind, "eventVersion": "1.1", "dynamodb": change}
                records.append({**record, "eventSource": "aws:dynamodb", "awsRegion": REGION, "eventSourceARN": table})
        return records


def load_workers_by_module() -> list[str]:
    """Return the modules of the functions that have a queue."""
    return sorted({worker.__name__.rpartition(".")[2] for worker in load_workers().values()})


def play_order(emulator: Emulator, name: str) -> None:
    """Place, pay and ship an order. Raises StackFailed if a handler fails or an effect is missing.

    At the end, the API's role loses one action. Also raises StackFailed if the API can still place an order then.
    """
    handlers = Handlers(emulator, name)
    table = Table(emulator.client("dynamodb"), handlers.variables["TABLE_NAME"], ROWS_BY_TYPE)
    shop = ShopContext(table=table, new_id=lambda: f"{time.time_ns():x}", pepper=lambda: b"pepper")
    staff = Caller("staff-1", frozenset({"staff"}))
    customers.register_customer(shop, Caller(ANN.sub), "ann@example.com", "Ann Ash")
    products.create_product(shop, staff, "mug", "Blue mug", 1250, "EUR", 1)
    products.receive_stock(shop, staff, "first mugs", "mug", 10)
    body = {"lines": [{"product_id": "mug", "quantity": 2}], "address": HOME_ADDRESS}
    placed = handlers.request("POST", "/orders", ANN, body, "order-1")
    handlers.pay(placed["order_id"], placed["total"])
    path = f"/orders/{placed['order_id']}/shipments/{placed['order_id']}-1/dispatched"
    handlers.request("POST", path, WAREHOUSE, {"carrier": "dhl", "tracking_number": "42"}, "shipment-1")
    kinds = {image["type"]["S"] for image in handlers.images.values() if "type" in image}
    if missing := {"Order", "Payment", "Invoice", "Shipment"} - kinds:
        raise stack.StackFailed(f"the order has no {', '.join(sorted(missing))}: {sorted(kinds)}")
    print(f"{name}: placed, paid and shipped an order in {handlers.calls} calls of handlers, each with its own role")
    roles.remove_action(emulator, handlers.functions["api"]["Role"], "dynamodb:PutItem")
    try:
        handlers.request("POST", "/orders", ANN, body, "order-2")
    except stack.StackFailed as error:
        if "AccessDenied" not in str(error):
            raise
        print(f"{name}: without dynamodb:PutItem, the API's role cannot place an order", flush=True)
    else:
        raise stack.StackFailed("the API has placed an order, although its role had lost dynamodb:PutItem")
