import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import urllib3
from botocore.config import Config
from botocore.exceptions import ClientError

from functions.adapters.mailer import classify_refusal
from local.laptop import aws_process as local_aws
from local.laptop import backlog, deploy, users
from local.laptop.aws_process import REFUSED_MAILS, FunctionFailed, LocalAws, shell_environment
from local.laptop.deploy import DeployedStack, DeployFailed
from local.laptop.shop_client import STACK_NAME
from local.world import processes
from local.world.dynamodb_engine import Engine
from ops.targets import ConsumerLag
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

HANDLER = """
import json, os, time, boto3, botocore.session

def api(event, context):
    print(event["routeKey"])
    told = {"bank": os.environ["BANK_URL"], "unknown": os.environ.get("UNKNOWN")}
    claims = event["requestContext"].get("authorizer", {}).get("jwt", {}).get("claims", {})
    if claims:  # a call that SDKs do not sign
        boto3.client("cognito-idp").get_user(AccessToken=event["headers"]["authorization"].removeprefix("Bearer "))
    tables = boto3.client("dynamodb").list_tables(ExclusiveStartTableName="seen-by", Limit=1)["TableNames"]
    if event["rawPath"] == "/slow":
        time.sleep(20)
    if event["rawPath"] == "/time":
        left = context.get_remaining_time_in_millis()
        time.sleep(0.2)
        told["remaining_ms"] = [left, context.get_remaining_time_in_millis()]
    if event["rawPath"] == "/paid":
        detail = {"order_id": event["queryStringParameters"]["order_id"]}
        entry = {"EventBusName": os.environ["BUS"], "Source": "shop", "DetailType": "OrderPaid"}
        boto3.client("events").put_events(Entries=[entry | {"Detail": json.dumps(detail)}])
    return {"statusCode": 200, "body": json.dumps({"version": 1, "claims": claims, "tables": tables, **told})}

def worker(event, context):
    for record in event["Records"]:
        order_id = json.loads(record["body"])["detail"]["order_id"]
        print(order_id)
        boto3.client("s3").put_object(Bucket=os.environ["BUCKET"], Key=f"orders/{order_id}", Body=b"archived")
        boto3.client("sesv2").send_email(
            FromEmailAddress=os.environ["SENDER"],
            Destination={"ToAddresses": ["alice@example.com"]},
            Content={"Simple": {"Subject": {"Data": order_id}, "Body": {"Text": {"Data": "Thank you"}}}},
        )
    return {"batchItemFailures": []}

def continuing_worker(event, context):
    for record in event["Records"]:
        number = int(record["body"])
        boto3.client("s3").put_object(Bucket=os.environ["BUCKET"], Key=f"{os.environ['RUN']}/{number}", Body=b"")
        if number < 20:
            sqs = botocore.session.get_session().create_client("sqs")  # as functions/runtime/clients.py does
            sqs.send_message(QueueUrl=os.environ["QUEUE"], MessageBody=str(number + 1))
    return {"batchItemFailures": []}
"""


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def function(handler: str) -> dict[str, Any]:
    environment: dict[str, Any] = {"BUS": {"Ref": "Bus"}, "BUCKET": {"Ref": "Bucket"}, "SENDER": "shop@example.com"}
    return resource(
        "Lambda::Function",
        Runtime="python3.13",
        Handler=f"functions.{handler}",
        Role="arn:aws:iam::000000000000:role/any",
        Code={"S3Bucket": {"Fn::Sub": "cdk-assets-${AWS::AccountId}"}, "S3Key": "bundle-for-aws.zip"},
        Environment={"Variables": environment | {"BANK_URL": "https://bank.example"}},
        Timeout=10,
    )


def http_api() -> dict[str, Any]:
    def part(kind: str, **properties: Any) -> dict[str, Any]:
        return resource(f"ApiGatewayV2::{kind}", ApiId={"Ref": "Http"}, **properties)

    cors = {"AllowOrigins": ["https://shop.example"], "AllowMethods": ["*"]}
    issuer = {"Fn::Sub": "https://cognito-idp.${AWS::Region}.amazonaws.com/${Pool}"}
    return {
        "Http": resource("ApiGatewayV2::Api", Name="shop", ProtocolType="HTTP", CorsConfiguration=cors),
        "Stage": part("Stage", StageName="$default", AutoDeploy=True),
        "Authorizer": part(
            "Authorizer",
            Name="users",
            AuthorizerType="JWT",
            IdentitySource=["$request.header.Authorization"],
            JwtConfiguration={"Audience": [{"Ref": "AppClient"}], "Issuer": issuer},
        ),
        "Integration": part(
            "Integration",
            IntegrationType="AWS_PROXY",
            IntegrationUri={"Fn::GetAtt": ["Api", "Arn"]},
            PayloadFormatVersion="2.0",
        ),
        "Route": part(
            "Route",
            RouteKey="ANY /{proxy+}",
            AuthorizationType="JWT",
            AuthorizerId={"Ref": "Authorizer"},
            Target={"Fn::Join": ["", ["integrations/", {"Ref": "Integration"}]]},
        ),
    }


def template() -> dict[str, Any]:
    """A stack with one resource of each kind, and with resources that the local AWS ignores."""
    queue_arn = {"Fn::GetAtt": ["Queue", "Arn"]}
    metric = {"MetricStat": {"Metric": {"Namespace": "AWS/SQS", "MetricName": "x"}, "Period": 60, "Stat": "Sum"}}
    metrics = [{"Id": "a", **metric}, {"Id": "b", "Expression": "a * 2"}]
    alarm = {"ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": 1, "Threshold": 1}
    mapping = {"EventSourceArn": queue_arn, "FunctionName": {"Ref": "Worker"}, "BatchSize": 10}
    rule = {"EventBusName": {"Ref": "Bus"}, "EventPattern": {"detail-type": ["OrderPaid"]}}
    version = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": deploy.BOOTSTRAP_PARAMETER}
    archive = {"EventPattern": {"account": [{"Ref": "AWS::AccountId"}]}, "RetentionDays": 30}
    resources = {
        "Key": resource("KMS::Key", KeyPolicy={"Version": "2012-10-17", "Statement": []}),
        "Bucket": resource("S3::Bucket", VersioningConfiguration={"Status": "Enabled"}),
        "Pepper": resource("SecretsManager::Secret", GenerateSecretString={}),
        "Bus": resource("Events::EventBus", Name="shop"),
        "Archive": resource("Events::Archive", SourceArn={"Fn::GetAtt": ["Bus", "Arn"]}, **archive),
        "Queue": resource("SQS::Queue", VisibilityTimeout=60),
        "Rule": {
            **resource("Events::Rule", **rule, Targets=[{"Id": "queue", "Arn": queue_arn}]),
            "DependsOn": ["Archive", "Queue"],
        },
        "Pool": resource("Cognito::UserPool", UsernameAttributes=["email"]),
        "AppClient": resource("Cognito::UserPoolClient", UserPoolId={"Ref": "Pool"}),
        "Staff": resource("Cognito::UserPoolGroup", UserPoolId={"Ref": "Pool"}, GroupName="staff"),
        "Api": function("handler.api"),
        "Worker": function("handler.worker"),
        "Mapping": resource("Lambda::EventSourceMapping", **mapping),
        "Alarm": resource("CloudWatch::Alarm", **alarm, Metrics=metrics),
        "Backup": resource("Backup::BackupSelection", BackupPlanId="daily"),
        **http_api(),
    }
    outputs = {"Issuer": {"Value": {"Fn::GetAtt": ["Pool", "ProviderURL"]}}, "Queue": {"Value": {"Ref": "Queue"}}}
    return {"Parameters": {"BootstrapVersion": version}, "Resources": resources, "Outputs": outputs}


@dataclass
class ShopContext:
    """A deployed shop, and one user of it."""

    aws: LocalAws
    stack: DeployedStack
    source: Path
    checkpoint: Path
    token: str

    def request(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], Any]:
        answer = urllib3.request(method, self.aws.public_url + path, headers=headers, retries=False, timeout=20)
        return answer.status, dict(answer.headers), answer.json() if answer.data else None

    def get(self, path: str, token: str | None = None) -> Any:
        status, _, body = self.request(path, Authorization=f"Bearer {token or self.token}")
        assert status == 200, body
        return body

    def pepper(self) -> str:
        secrets = boto3.client("secretsmanager", **self.aws.client_options)
        name = self.stack.resource_name("AWS::SecretsManager::Secret")
        return secrets.get_secret_value(SecretId=name)["SecretString"]

    def objects(self) -> set[str]:
        listed = boto3.client("s3", **self.aws.client_options).list_objects_v2(
            Bucket=self.stack.resource_name("AWS::S3::Bucket")
        )
        return {found["Key"] for found in listed.get("Contents", [])}

    def mails(self, order_id: str) -> list[dict[str, Any]]:
        return [mail for mail in self.aws.list_mails() if mail["Subject"] == order_id]

    def start_again(self) -> None:
        """Start the shop again in the directory of the last run, as `make up` does."""
        self.aws = local_aws.start(
            self.aws.directory,
            self.aws.address.functions_use,
            public_port=self.aws.address.public_port,
            rollback_files=[self.checkpoint],
            allowed_origins=self.aws.address.allowed_origins,
        )
        self.stack = deploy.deploy(self.aws, STACK_NAME, template(), self.source)


@pytest.fixture(scope="module")
def started_shop(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShopContext]:
    folder = tmp_path_factory.mktemp("shop")
    source, checkpoint = folder / "functions", folder / "checkpoint.json"
    source.mkdir()
    (source / "__init__.py").touch()
    (source / "handler.py").write_text(HANDLER)
    aws = local_aws.start(
        folder / "aws", engine.endpoint, rollback_files=[checkpoint], allowed_origins=deploy.allowed_origins(template())
    )
    try:
        stack = deploy.deploy(aws, STACK_NAME, template(), source)
        yield ShopContext(aws, stack, source, checkpoint, users.get_access_token(aws, stack, "staff"))
    finally:
        processes.stop(folder / "aws")


@pytest.fixture
def shop(started_shop: ShopContext) -> ShopContext:
    """The shared shop of these tests, reset to its first deployed state."""
    (started_shop.source / "handler.py").write_text(HANDLER)
    started_shop.stack = deploy.deploy(started_shop.aws, STACK_NAME, template(), started_shop.source)
    return started_shop


def send_mail(ses: Any, to: str, subject: str = "Hello") -> None:
    content = {"Simple": {"Subject": {"Data": subject}, "Body": {"Text": {"Data": "Thank you"}}}}
    ses.send_email(FromEmailAddress="shop@example.com", Destination={"ToAddresses": [to]}, Content=content)


def kill(directory: Path) -> None:
    process_id = processes.running_process_id(directory)
    assert process_id is not None
    os.kill(process_id, signal.SIGKILL)
    while processes.running_process_id(directory):
        time.sleep(0.005)


def test_a_request_becomes_an_event_an_object_and_a_mail(shop: ShopContext, engine: Engine) -> None:
    engine.create_table(
        "seen-by-functions",
        {
            "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}],
        },
    )

    answer = shop.get("/paid?order_id=o1")
    eventually(lambda: shop.mails("o1"))

    assert "seen-by-functions" in answer["tables"]  # functions use the engine as DynamoDB, too
    assert answer["claims"]["cognito:groups"] == "[staff]"
    assert answer["claims"]["token_use"] == "access"
    assert "orders/o1" in shop.objects()
    [mail] = shop.mails("o1")
    assert (mail["To"], mail["BodyText"]) == (["alice@example.com"], "Thank you")


def test_resources_that_the_deploy_ignores_are_created_after_it(shop: ShopContext) -> None:
    [archive] = boto3.client("events", **shop.aws.client_options).list_archives()["Archives"]
    assert (archive["State"], archive["RetentionDays"]) == ("ENABLED", 30)
    _, headers, _ = shop.request("/orders", "OPTIONS", Origin="https://shop.example")
    assert headers["Access-Control-Allow-Origin"] == "https://shop.example"


# access ---------------------------------------------------------------------------------------------------------------
SECRETS = {"X-Amz-Target": "secretsmanager.ListSecrets", "Content-Type": "application/x-amz-json-1.1"}
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=local/20261121/eu-central-1/secretsmanager/aws4_request"}


def ask(port: int, method: str, path: str, headers: dict[str, str], body: str = "") -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_the_local_aws_handles_no_request_without_the_key_of_this_start(shop: ShopContext) -> None:
    paths = ("/", "/guessed", "/guessed/", "//", "/000000000000/queue")
    for method, path in itertools.product(("POST", "GET", "OPTIONS"), paths):
        status, body = ask(shop.aws.address.port, method, path, SECRETS | SIGNED, "{}")
        assert (status, json.loads(body)["detail"]) == (
            403,
            "The key in the URL is missing or wrong. `python -m local env` prints the URL of this start.",
        ), f"{method} {path}"
    assert ask(shop.aws.address.port, "POST", f"/{shop.aws.address.key}/", SECRETS | SIGNED, "{}")[0] == 200


def test_the_key_is_new_at_each_start_and_in_a_file_of_its_user_alone(shop: ShopContext) -> None:
    before = shop.aws.address.key
    assert len(before) >= 43, "the key has 256 bits"
    assert (shop.aws.directory / "address.json").stat().st_mode & 0o777 == 0o600
    assert before not in repr(shop.aws)
    shop.start_again()
    assert shop.aws.address.key != before


def test_behind_the_public_port_there_is_nothing_but_the_api(shop: ShopContext) -> None:
    """On its internal port, ministack itself answers each of these paths."""
    headers = SECRETS | SIGNED | {"X-Amz-Date": "20261121T000000Z"}
    for path in ("/", "/_ministack/ses/messages", "/_ministack/reset", "/oauth2/token", f"/{shop.aws.address.key}/"):
        status, body = ask(shop.aws.address.public_port, "POST", path, headers, "{}")
        assert (status, json.loads(body)) in ((401, {"message": "Unauthorized"}), (404, {"message": "Not Found"})), path


def test_a_user_signs_in_at_the_public_port(shop: ShopContext) -> None:
    def sign_in(body: str, content_type: str = "application/json") -> tuple[int, Any]:
        headers = {"Content-Type": content_type}
        status, answer = ask(shop.aws.address.public_port, "POST", "/local/tokens", headers, body)
        return status, json.loads(answer)

    status, answer = sign_in('{"user": "carol"}')
    assert (status, answer["user"], answer["expires_in_seconds"]) == (200, "carol", 1800)
    assert shop.get("/me", answer["token"])["claims"]["token_use"] == "access"
    for body in ("", "{", "[]", '{"user": 1}', '{"user": "../x"}', '{"user": "' + "a" * 9000 + '"}', "[" * 9000):
        status, answer = sign_in(body)
        assert (status, answer["title"]) == (400, "Bad Request"), body
    assert sign_in('{"user": "carol"}', "text/plain")[0] == 400


def test_sign_in_is_rejected_before_the_stack_exists(engine: Engine, tmp_path: Path) -> None:
    aws = local_aws.start(tmp_path / "aws", engine.endpoint)
    try:
        headers = {"Content-Type": "application/json"}
        status, body = ask(aws.address.public_port, "POST", "/local/tokens", headers, '{"user": "carol"}')
        assert (status, json.loads(body)["title"]) == (503, "Service Unavailable")
    finally:
        aws.stop()


def test_a_function_that_takes_too_long_is_a_problem_document(shop: ShopContext) -> None:
    impatient = template()
    impatient["Resources"]["Api"]["Properties"]["Timeout"] = 1
    deploy.deploy(shop.aws, STACK_NAME, impatient, shop.source)
    status, headers, body = shop.request("/slow", Authorization=f"Bearer {shop.token}")
    assert (status, headers["content-type"]) == (body["status"], "application/problem+json")
    assert status >= 500
    assert (
        body["detail"] == "The function failed or took too long. Send the request again with the same idempotency key."
    )


def test_a_function_sees_how_much_of_its_timeout_is_left(shop: ShopContext) -> None:
    whole_ms = 1000 * template()["Resources"]["Api"]["Properties"]["Timeout"]
    for _ in range(2):
        before, after = shop.get("/time")["remaining_ms"]
        assert whole_ms >= before >= whole_ms - 500, "each invocation begins with its full timeout"
        assert before - 2000 < after <= before - 200


def test_while_the_shop_is_far_behind_a_new_order_gets_a_problem_with_the_seconds_to_wait(shop: ShopContext) -> None:
    file = shop.aws.directory.parent / backlog.FILE
    file.write_text(json.dumps([asdict(ConsumerLag("order_notification", 4_167, 600.0))]))
    try:
        answer = urllib3.request("POST", f"{shop.aws.public_url}/orders", json={}, retries=False)
    finally:
        file.unlink()
    assert (answer.status, answer.headers["Content-Type"]) == (429, "application/problem+json")
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.json()["status"] == 429


def test_slow_clients_do_not_block_other_clients(shop: ShopContext) -> None:
    head = b"POST /me HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 10\r\n\r\n{" % shop.aws.address.public_port
    at_once = 2 * (os.cpu_count() or 1)
    slow = [socket.create_connection(("127.0.0.1", shop.aws.address.public_port)) for _ in range(3 * at_once)]
    try:
        for connection in slow:
            connection.sendall(head)
        assert shop.get("/me")["version"] == 1
    finally:
        for connection in slow:
            connection.close()


def test_the_local_ses_refuses_mails_like_the_real_one_until_it_is_switched_off(shop: ShopContext) -> None:
    ses = boto3.client("sesv2", **shop.aws.client_options, config=Config(retries={"total_max_attempts": 1}))
    ses.create_email_identity(EmailIdentity="shop@example.com")

    def send() -> str:
        """Send a mail. Return how the shop classifies the answer."""
        try:
            send_mail(ses, "ann@example.com")
        except ClientError as error:
            return classify_refusal(error.response["Error"]["Code"], error.response["Error"]["Message"])
        return "accepted"

    file = shop.aws.directory / REFUSED_MAILS
    before = len(shop.aws.list_mails())
    try:
        for kind in ("quota", "paused", "sandbox", "unknown"):
            file.write_text(kind)
            assert send() == kind
        file.write_text("rate")
        answers = [send()]
        while "rate" not in answers and len(answers) < 100:
            answers.append(send())
        assert {*answers} == {"accepted", "rate"}
        sent = len(shop.aws.list_mails())
        file.write_text("suppressed")
        assert send() == "accepted"
        assert len(shop.aws.list_mails()) == sent > before
    finally:
        file.unlink()
    assert send() == "accepted"
    assert len(shop.aws.list_mails()) == sent + 1


def test_a_page_that_may_call_the_api_may_not_sign_in(shop: ShopContext) -> None:
    headers = {"Origin": "https://shop.example", "Content-Type": "application/json"}
    assert shop.aws.address.allowed_origins == ["https://shop.example"]
    assert ask(shop.aws.address.public_port, "GET", "/me", headers)[0] == 401
    assert ask(shop.aws.address.public_port, "POST", "/local/tokens", headers, '{"user": "staff"}')[0] == 403


def test_the_environment_of_a_shell_reaches_the_local_aws_and_the_engine(shop: ShopContext, engine: Engine) -> None:
    script = "import boto3; boto3.client('sqs').list_queues(); boto3.client('dynamodb').list_tables(); print('reached')"
    exports = shell_environment(shop.aws, engine)
    done = subprocess.run(
        ["/bin/sh", "-c", f'{exports}\nexec "$0" -c "$1"', sys.executable, script],
        env={"HOME": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "reached\n", done.stderr


def test_a_deploy_updates_only_changed_resources(shop: ShopContext) -> None:
    pepper, subject = shop.pepper(), shop.get("/me")["claims"]["sub"]
    assert not deploy.deploy(shop.aws, STACK_NAME, template(), shop.source).changed

    (shop.source / "handler.py").write_text(HANDLER.replace('"version": 1', '"version": 2'))
    assert deploy.deploy(shop.aws, STACK_NAME, template(), shop.source).changed
    assert shop.get("/me")["version"] == 2

    wider = template()
    wider["Resources"]["Second"] = {"Type": "AWS::SQS::Queue"}
    assert "Second" in deploy.deploy(shop.aws, STACK_NAME, wider, shop.source).resources
    assert (pepper, subject) == (shop.pepper(), shop.get("/me")["claims"]["sub"])


def test_a_deploy_overrides_environment_variables_with_local_addresses(shop: ShopContext) -> None:
    here = {"BANK_URL": "http://127.0.0.1:4567", "UNKNOWN": "a variable that no function reads"}
    told = template()
    assert deploy.deploy(shop.aws, STACK_NAME, told, shop.source, here).changed
    assert told == template(), "the deploy does not change the template"
    assert (shop.get("/me")["bank"], shop.get("/me")["unknown"]) == ("http://127.0.0.1:4567", None)
    deploy.deploy(shop.aws, STACK_NAME, template(), shop.source)
    assert shop.get("/me")["bank"] == "https://bank.example"


def test_a_function_is_called_by_its_handler_and_its_error_is_raised(shop: ShopContext) -> None:
    worker = shop.stack.function_name("functions.handler.worker")
    assert shop.aws.invoke(worker, {"Records": []}) == {"batchItemFailures": []}
    with pytest.raises(FunctionFailed, match="'body'"):
        shop.aws.invoke(worker, {"Records": [{}]})


def test_a_deploy_that_fails_names_the_resource(shop: ShopContext) -> None:
    broken = template()
    broken["Resources"]["Broken"] = {"Type": "AWS::SQS::Nothing"}
    with pytest.raises(DeployFailed, match="AWS::SQS::Nothing"):
        deploy.deploy(shop.aws, STACK_NAME, broken, shop.source)


@pytest.mark.parametrize(("recursive_loop", "invocations"), [(None, 16), ("Allow", 20)])
def test_a_function_that_continues_through_its_queue_is_stopped_after_16_invocations_unless_loops_are_allowed(
    shop: ShopContext, recursive_loop: str | None, invocations: int
) -> None:
    looping = template()
    worker, run = function("handler.continuing_worker"), f"run-{recursive_loop}"
    worker["Properties"]["Timeout"] = 5
    worker["Properties"]["Environment"]["Variables"] |= {"QUEUE": {"Ref": "Chain"}, "RUN": run}
    if recursive_loop:
        worker["Properties"]["RecursiveLoop"] = recursive_loop
    redrive = {"deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]}, "maxReceiveCount": 1}
    mapping = {"EventSourceArn": {"Fn::GetAtt": ["Chain", "Arn"]}, "FunctionName": {"Ref": "Continuing"}}
    looping["Resources"] |= {
        "Dead": {"Type": "AWS::SQS::Queue"},
        "Chain": resource("SQS::Queue", VisibilityTimeout=5, RedrivePolicy=redrive),
        "Continuing": worker,
        "ChainMapping": resource("Lambda::EventSourceMapping", **mapping),
    }
    stack = deploy.deploy(shop.aws, STACK_NAME, looping, shop.source)
    sqs = boto3.client("sqs", **shop.aws.client_options)
    sqs.send_message(QueueUrl=stack.resources["Chain"], MessageBody="1")

    def dead_letters() -> list[str]:
        found = sqs.receive_message(QueueUrl=stack.resources["Dead"], VisibilityTimeout=0).get("Messages", [])
        return [message["Body"] for message in found]

    eventually(lambda: f"{run}/20" in shop.objects() or dead_letters(), 60)
    assert len([key for key in shop.objects() if key.startswith(run)]) == invocations
    assert dead_letters() == ([] if recursive_loop else ["17"])


def test_a_killed_shop_returns_to_its_saved_state_but_keeps_its_objects(shop: ShopContext) -> None:
    pepper, subject, address = shop.pepper(), shop.get("/me")["claims"]["sub"], shop.aws.public_url
    shop.checkpoint.write_text("as saved")
    shop.aws = shop.aws.save_snapshot()
    shop.get("/paid?order_id=o2")
    eventually(lambda: shop.mails("o2"))
    shop.checkpoint.write_text("later")

    for _ in range(2):
        kill(shop.aws.directory)
        shop.start_again()

        assert shop.aws.was_killed
        assert not shop.stack.changed
        assert shop.checkpoint.read_text() == "as saved"
        assert (shop.pepper(), shop.aws.public_url) == (pepper, address)
        assert shop.get("/me")["claims"]["sub"] == subject  # the token from before the kill is still valid
        assert shop.get("/me", users.get_access_token(shop.aws, shop.stack, "staff"))["claims"]["sub"] == subject
        assert "orders/o2" in shop.objects()
        assert len(shop.mails("o2")) == 1

    shop.get("/paid?order_id=o3")
    eventually(lambda: shop.mails("o3"))


def test_a_shop_killed_before_its_first_save_starts_empty(engine: Engine, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.json"
    first = local_aws.start(tmp_path / "aws", engine.endpoint, rollback_files=[checkpoint])
    boto3.client("s3", **first.client_options).create_bucket(
        Bucket="half-a-stack", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    boto3.client("s3", **first.client_options).put_object(Bucket="half-a-stack", Key="a", Body=b"a")
    checkpoint.write_text("somewhere")
    kill(first.directory)

    second = local_aws.start(tmp_path / "aws", engine.endpoint, rollback_files=[checkpoint])
    try:
        assert second.was_killed
        assert boto3.client("s3", **second.client_options).list_buckets()["Buckets"] == []
        assert not checkpoint.exists()
    finally:
        second.stop()


def test_a_start_ends_and_saves_the_process_that_an_earlier_run_left_behind(shop: ShopContext) -> None:
    boto3.client("sqs", **shop.aws.client_options).create_queue(QueueName="made-meanwhile")
    left_behind = processes.running_process_id(shop.aws.directory)

    shop.start_again()

    assert left_behind != processes.running_process_id(shop.aws.directory)
    assert not shop.aws.was_killed
    assert local_aws.find(shop.aws.directory) == shop.aws
    assert boto3.client("sqs", **shop.aws.client_options).get_queue_url(QueueName="made-meanwhile")["QueueUrl"]


def test_the_log_of_the_local_aws_contains_no_address_of_a_mail(shop: ShopContext) -> None:
    send_mail(boto3.client("sesv2", **shop.aws.client_options), "erased@example.com")
    assert "erased@example.com" not in (shop.aws.directory / processes.LOG_FILE).read_text()


def test_the_local_ses_keeps_a_suppression_list_and_sends_nothing_to_its_addresses(shop: ShopContext) -> None:
    ses: Any = boto3.client("sesv2", **shop.aws.client_options)
    address = {"EmailAddress": "full+box@example.com"}
    with pytest.raises(ses.exceptions.NotFoundException):
        ses.get_suppressed_destination(**address)
    ses.put_suppressed_destination(**address, Reason="BOUNCE")
    entry = ses.get_suppressed_destination(**address)["SuppressedDestination"]
    assert (entry["EmailAddress"], entry["Reason"]) == (address["EmailAddress"], "BOUNCE")
    assert abs(entry["LastUpdateTime"].timestamp() - time.time()) < 60
    send_mail(ses, address["EmailAddress"], "suppressed")
    assert not shop.mails("suppressed")
    ses.delete_suppressed_destination(**address)
    send_mail(ses, address["EmailAddress"], "not any more")
    assert len(shop.mails("not any more")) == 1
