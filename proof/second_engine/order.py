"""Plays an order in LocalEmu from its payment to its archive. Each handler is a process with its role's credentials."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

from functions.dynamodb.table import Table
from functions.model.table import EXPIRY_MARKER, ROWS_BY_TYPE
from functions.shop import customers, products
from functions.shop.shop import Caller, ShopContext
from local.event_source_mappings.records import to_lambda_record
from local.world.dynamodb_engine import REGION
from local.world.handlers import load_readers, to_sqs_record
from local.world.stripe_account import sign_webhook
from proof.second_engine import roles, stack
from proof.second_engine.emulator import Emulator
from proof.support.http_client import ANN, HOME_ADDRESS, JSON, WAREHOUSE, Token, http_event, json_event, payment_event
from stacks import PROJECT

Item = dict[str, Any]
INVOKE = """
import functools, importlib, json, sys
import botocore.session
from functions.adapters.payment_provider import HttpPaymentProvider
from proof.support.lambda_context import FakeContext
Session = botocore.session.Session
Session.create_client = functools.partialmethod(Session.create_client, verify=False)
HttpPaymentProvider._request = lambda *request: {"id": "re_1", "status": "succeeded"}
answer = importlib.import_module("functions.handlers." + sys.argv[1]).handler(json.load(sys.stdin), FakeContext())
json.dump(answer, open(sys.argv[2], "w"))
"""
"""The program of a handler's process. Only the payment provider is simulated."""
PARCEL = {"carrier": "dhl", "tracking_number": "42"}
ATTEMPTS = 3
"""How often a batch is delivered or a request sent: on a busy machine, a request to LocalEmu may time out."""
QUIET_ROUNDS = 3
"""How many times no queue has a message before the order is complete: LocalEmu's bus delivers a little later."""


class Handlers:
    """The handlers of a stack, with their roles. This class delivers the records and messages, instead of LocalEmu."""

    def __init__(self, emulator: Emulator, name: str) -> None:
        self.emulator, self.calls = emulator, list[str]()
        client, sqs = emulator.client("lambda"), emulator.client("sqs")
        found = client.list_functions(MaxItems=50)["Functions"]
        self.functions = {one["Handler"].split(".")[2]: one for one in found}
        modules = {one["FunctionName"]: module for module, one in self.functions.items()}
        self.sessions = {module: roles.assume(emulator, one["Role"]) for module, one in self.functions.items()}
        self.queues: dict[str, str] = {}
        for mapping in client.list_event_source_mappings()["EventSourceMappings"]:
            client.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
            _, _, service, _, _, queue, *_ = mapping["EventSourceArn"].split(":")
            if service == "sqs":
                module = modules[mapping["FunctionArn"].split(":")[6]]
                self.queues[module] = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        self.variables = self.functions["api"]["Environment"]["Variables"]
        self.images: dict[str, Item] = {}
        sender = self.functions["order_notification_worker"]["Environment"]["Variables"]["SENDER"]
        emulator.client("sesv2").create_email_identity(EmailIdentity=sender)

    def invoke(self, module: str, event: Any) -> Any:
        """Run a handler with the variables and the role of its function. Raises StackFailed if it fails."""
        self.calls.append(module)
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
        self.output = done.stdout[-1500:]
        return json.loads(answer.read_text())

    def request(self, method: str, path: str, token: Token, body: Any, key: str) -> Any:
        """Send a request to the API's handler, and deliver all its effects. Return the answer's body."""
        signed_in = replace(token, client_id=self.variables["CLIENT_ID"])
        return self._deliver(json_event(method, path, signed_in, body, key=key))

    def pay(self, order_id: str, total: int, payment_id: str) -> None:
        secret = self.emulator.client("secretsmanager").get_secret_value(SecretId=self.variables["WEBHOOK_SECRET"])
        text = json.dumps(payment_event(order_id, total, id=f"evt_{payment_id}", payment_id=payment_id))
        signature = sign_webhook(json.loads(secret["SecretString"])["current"], text, time.time())
        headers = {**JSON, "stripe-signature": signature}
        self._deliver(http_event("POST", "/payments/events", body=text, headers=headers))

    def expire(self, order_id: str) -> None:
        """Delete the expiry marker of an order, and deliver the effects. LocalEmu would delete it after its time."""
        key = EXPIRY_MARKER.key(order_id=order_id)
        self.emulator.client("dynamodb").delete_item(TableName=self.variables["TABLE_NAME"], Key=key)
        self._deliver_effects()

    def _deliver(self, event: Any) -> Any:
        """Send a request, again after a 503 as a client does, and deliver its effects. Return the answer's body."""
        answers = (self.invoke("api", event) for _ in range(ATTEMPTS))
        response = next(answers)
        while response["statusCode"] == 503 and (again := next(answers, None)):
            response = again
        if response["statusCode"] >= 300:
            raise stack.StackFailed(f"the API answered {response}")
        self._deliver_effects()
        return json.loads(response["body"]) if response.get("body") else None

    def _deliver_effects(self) -> None:
        quiet, sqs = 0, self.emulator.client("sqs")
        while quiet < QUIET_ROUNDS:
            quiet += 1
            if records := self.new_records():
                quiet = 0
                for reader in load_readers():
                    self._expect_success(reader, records)
            for module, url in self.queues.items():
                if found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
                    quiet = 0
                    source = {"eventSourceARN": f"arn:aws:sqs:{REGION}:000000000000:{url.rpartition('/')[2]}"}
                    messages = [{"messageId": one["MessageId"], "body": one["Body"], **source} for one in found]
                    self._expect_success(module, [to_sqs_record(one) for one in messages])
                    for one in found:
                        sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
            time.sleep(0.3)

    def _expect_success(self, module: str, records: list[Any]) -> None:
        for _ in range(ATTEMPTS):
            if (answer := self.invoke(module, {"Records": records})) == {"batchItemFailures": []}:
                return
        raise stack.StackFailed(f"{module} reports {answer}: {self.output}")

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
                    "ApproximateCreationDateTime": int(time.time()),
                }
                kind = "MODIFY" if old and new else "INSERT" if new else "REMOVE"
                expired: Item = {"userIdentity": {}} if item.get("type") == {"S": EXPIRY_MARKER.type} else {}
                record = {"eventID": str(time.time_ns()), "eventName": kind, "dynamodb": change, **expired}
                records.append(to_lambda_record(record, region=REGION, stream_arn=table))
        return records

    def expect_items(self, *kinds: str) -> None:
        """Raise StackFailed if the table has no item of one of these types."""
        found = {image["type"]["S"] for image in self.images.values() if "type" in image}
        if missing := set(kinds) - found:
            raise stack.StackFailed(f"the order has no {', '.join(sorted(missing))}: {sorted(found)}")


def play_order(emulator: Emulator, name: str) -> None:
    """Place an order, pay it twice, ship and archive it, and try the API without one action. Raises StackFailed."""
    handlers = Handlers(emulator, name)
    table = Table(emulator.client("dynamodb"), handlers.variables["TABLE_NAME"], ROWS_BY_TYPE)
    shop = ShopContext(table=table, new_id=lambda: f"{time.time_ns():x}", pepper=lambda: b"pepper")
    staff = Caller("staff-1", frozenset({"staff"}))
    customers.register_customer(shop, Caller(ANN.sub), "ann@example.com", "Ann Ash")
    products.create_product(shop, staff, "mug", "Blue mug", 1250, "EUR", 1)
    products.receive_stock(shop, staff, "first mugs", "mug", 10)
    body = {"lines": [{"product_id": "mug", "quantity": 2}], "address": HOME_ADDRESS}
    placed = handlers.request("POST", "/orders", ANN, body, "order-1")
    order_id = placed["order_id"]
    for payment_id in ("pi_1", "pi_2"):  # the shop refunds the second payment
        handlers.pay(order_id, placed["total"], payment_id)
    shipment = f"/orders/{order_id}/shipments/{order_id}-1"
    handlers.request("POST", f"{shipment}/dispatched", WAREHOUSE, PARCEL, "shipment-1")
    handlers.request("POST", f"{shipment}/delivered", WAREHOUSE, {}, "shipment-2")
    handlers.expect_items("Order", "Payment", "Invoice", "Shipment", "Refund")
    handlers.expire(order_id)
    handlers.expect_items("ArchivedOrder")
    calls, called = len(handlers.calls), len(set(handlers.calls))
    print(f"{name}: played an order in {calls} calls of {called} handlers, each with its own role")
    roles.remove_action(emulator, handlers.functions["api"]["Role"], "dynamodb:PutItem")
    try:
        handlers.request("POST", "/orders", ANN, body, "order-2")
    except stack.StackFailed as error:
        if "AccessDenied" not in str(error):
            raise
        print(f"{name}: without dynamodb:PutItem, the API's role cannot place an order", flush=True)
    else:
        raise stack.StackFailed("the API has placed an order, although its role had lost dynamodb:PutItem")
