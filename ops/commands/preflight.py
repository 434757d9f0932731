"""The `preflight` command: check before a deploy what an account lacks for a stage and a number of orders a second.

The checks only read. They compute the needs from the synthesized template and from ops/order_needs.json, which `make
scale` writes. A request that AWS denies is reported with its action, and no quota is guessed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import ceil
from pathlib import Path
from typing import Any

import boto3
import urllib3
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from ops import targets
from ops.commands.indexes import TABLE_TYPES
from ops.terminal_text import align_columns, colored

ORDER_NEEDS = Path(__file__).parent.parent / "order_needs.json"
OK, CHANGE, ASK_AWS, NOT_ALLOWED, NO_ANSWER = "ok", "change", "ask AWS", "not allowed to ask", "no answer"
VERDICT_COLORS = {OK: "green", CHANGE: "red", ASK_AWS: "red", NOT_ALLOWED: "yellow", NO_ANSWER: "yellow"}
FAILED = (CHANGE, ASK_AWS)
ACCESS_DENIED = {"AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation"}
IAM_PREFIXES = {"sesv2": "ses", "service-quotas": "servicequotas"}
"""The IAM prefixes of services whose boto3 client has another name, by the name of the client."""
PARTITION_WRITE_UNITS = 1_000
NEW_TABLE_UNITS = {"WriteUnitsPerSecond": 4_000, "ReadUnitsPerSecond": 12_000}
"""The units per second that a new table with on-demand billing serves at once.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput.html
"""
FIRST_POLLERS = 5
"""How many batches of a queue Lambda processes at the same time at first, if no maximum concurrency is set.

https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
"""
UNRESERVED_CONCURRENCY = 100
"""The concurrency that AWS keeps for functions without reserved concurrency, if other functions have reserved some.

https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html
"""
QUOTAS = {
    "ses-rate": "SES: rate of mails",
    "ses-day": "SES: mails of a day",
    "table-write": "DynamoDB: write units of a table",
    "table-read": "DynamoDB: read units of a table",
    "put-events": "EventBridge: PutEvents requests",
    "bus-targets": "EventBridge: events sent to targets",
    "api-throttle": "API Gateway: requests to all APIs",
}
"""The quotas to compare with what the orders need. SES returns its own quotas, Service Quotas all other quotas."""
SHARED_BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
"""The parameter of a `cdk bootstrap` without a qualifier, which all CDK apps of the account use."""
STANDING_STACKS = [
    "CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE", "UPDATE_IN_PROGRESS"
]  # fmt: skip
STUCK_STACKS = {"ROLLBACK_FAILED", "DELETE_FAILED", "UPDATE_ROLLBACK_FAILED"}
"""The failed states of a stack in which no deploy can start until a person resolves them."""
GUIDE, ORPHANS = "see docs/first-deploy.md", "see docs/runbooks/orphaned-stack.md"


class CallDenied(Exception):
    """AWS denied a request to these credentials. The message is the denied IAM action."""


@dataclass(frozen=True)
class Finding:
    """One row of the table: what was checked, what was found, what the stage needs, the verdict, and what to do."""

    what: str
    found: str
    needed: str
    verdict: str = OK
    action: str = ""


def _judge(what: str, found: str, needed: str, verdict: str, action: str, *, enough: bool) -> Finding:
    """Return a finding that is OK if it is `enough`, and that otherwise has this verdict and this action."""
    return Finding(what, found, needed) if enough else Finding(what, found, needed, verdict, action)


@dataclass(frozen=True)
class Preflight:
    """A stage that is about to be deployed into an account. `orders`: how many it must process per second."""

    stack: str
    template: Mapping[str, Any]
    orders: float
    client: Callable[[str], Any]
    needs: Mapping[str, Any] = field(default_factory=lambda: json.loads(ORDER_NEEDS.read_text(encoding="utf-8")))

    def ask(self, service: str, operation: str, **parameters: Any) -> Any:
        """Send a request to AWS and return the answer. Raises CallDenied if the credentials do not allow it."""
        try:
            return getattr(self.client(service), operation)(**parameters)
        except ClientError as error:
            if error.response["Error"]["Code"] in ACCESS_DENIED:
                raise CallDenied(f"{IAM_PREFIXES.get(service, service)}:{error.operation_name}") from None
            raise

    def ask_or_none(self, service: str, operation: str, *codes: str, **parameters: Any) -> Any:
        """Call `ask`, but return None if AWS answers with one of these error codes for a missing resource."""
        try:
            return self.ask(service, operation, **parameters)
        except ClientError as error:
            if error.response["Error"]["Code"] in codes:
                return None
            raise

    def ask_pages(self, service: str, operation: str, **parameters: Any) -> Iterator[Any]:
        """Yield all pages of the answer to `ask`."""
        token: dict[str, str] = {}
        while True:
            yield (page := self.ask(service, operation, **parameters, **token))
            if "NextToken" not in page:
                return
            token = {"NextToken": page["NextToken"]}

    def properties(self, *resource_types: str) -> list[dict[str, Any]]:
        """Return the properties of all resources of these types in the template."""
        found = self.template["Resources"].values()
        return [one.get("Properties", {}) for one in found if one["Type"] in resource_types]

    @cached_property
    def deployed(self) -> Mapping[str, Any] | None:
        """The description of the stack, or None if it does not exist."""
        return targets.describe_stack(partial(self.ask, "cloudformation", "describe_stacks"), self.stack)

    @property
    def outputs(self) -> Mapping[str, str]:
        return {one["OutputKey"]: one["OutputValue"] for one in (self.deployed or {}).get("Outputs", ())}

    @property
    def is_protected(self) -> bool:
        """Whether the stage keeps its data when it is deleted."""
        found = self.template["Resources"].values()
        return any(one["Type"] in TABLE_TYPES and one.get("UpdateReplacePolicy") == "Retain" for one in found)

    def need(self, quota: str) -> float:
        """Return how much of a quota `self.orders` orders per second need."""
        return float(self.orders * self.needs["quotas"][quota]["per_order"])


# the account and the stack --------------------------------------------------------------------------------------------
def check_bootstrap(stage: Preflight) -> Iterator[Finding]:
    """Check that `cdk bootstrap` ran in the account and region, in at least the version that the template requires."""
    (assertion,) = stage.template["Rules"]["CheckBootstrapVersion"]["Assertions"]
    too_old, _ = assertion["Assert"]["Fn::Not"][0]["Fn::Contains"]
    needed = max(map(int, too_old)) + 1
    name = stage.template["Parameters"]["BootstrapVersion"]["Default"]
    answer = stage.ask_or_none("ssm", "get_parameter", "ParameterNotFound", Name=name)
    found = int(answer["Parameter"]["Value"]) if answer else 0
    said, action = f"version {found}" if found else "not bootstrapped", f"bootstrap the account and region: {GUIDE}"
    yield _judge("CDK bootstrap", said, f"version {needed}", CHANGE, action, enough=found >= needed)


def check_other_stages(stage: Preflight) -> Iterator[Finding]:
    """Check that a protected stage shares neither its account with another stage, nor at least its CDK bootstrap.

    By default, the execution role of a bootstrap is an administrator of its account:
    https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-customizing.html
    """
    pages = stage.ask_pages("cloudformation", "list_stacks", StackStatusFilter=STANDING_STACKS)
    names = [one["StackName"] for page in pages for one in page["StackSummaries"]]
    others = sorted(
        name for name in names if name.startswith("orderstream-") and not f"{name}-".startswith(f"{stage.stack}-")
    )
    shared = stage.template["Parameters"]["BootstrapVersion"]["Default"] == SHARED_BOOTSTRAP
    risk = bool(others) and stage.is_protected
    yield Finding(
        "other stages in the account",
        ", ".join(others) or "none",
        "none" if stage.is_protected else "",
        CHANGE if risk and shared else OK,
        f"whoever deploys them can administer this stage: {GUIDE}" if risk else "",
    )


def check_stack(stage: Preflight) -> Iterator[Finding]:
    """Check that the stack is in a state from which it can be deployed."""
    status = stage.deployed["StackStatus"] if stage.deployed else "not deployed yet"
    if status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS":
        yield Finding("stack", status, "no change in progress", CHANGE, "wait until the change is complete")
    elif status in STUCK_STACKS:
        yield Finding(
            "stack", status, "a complete stack", CHANGE, "complete or delete it in the CloudFormation console"
        )
    else:
        yield Finding("stack", status, "")


def check_names(stage: Preflight) -> Iterator[Finding]:
    """Check that no other stack uses a fixed name of the template. Other accounts' sign-in domains are not checked."""
    own = _own_names(stage)
    taken = [f"{what} {name}" for what, name in _existing_names(stage) if name not in own]
    action = f"import or delete what an earlier stack left behind, or choose another name: {ORPHANS}"
    yield _judge("names", f"taken: {', '.join(taken)}" if taken else "free", "free", CHANGE, action, enough=not taken)


def _own_names(stage: Preflight) -> set[str]:
    """Return the physical names of the resources that the stack has."""
    if not stage.deployed:
        return set()
    pages = stage.ask_pages("cloudformation", "list_stack_resources", StackName=stage.stack)
    return {one.get("PhysicalResourceId", "") for page in pages for one in page["StackResourceSummaries"]}


def _existing_names(stage: Preflight) -> Iterator[tuple[str, str]]:
    """Yield (kind, name) of each resource in the template whose fixed name already exists in the account."""
    for one in stage.properties("AWS::Events::EventBus"):
        name = one["Name"]
        if stage.ask_or_none("events", "describe_event_bus", "ResourceNotFoundException", Name=name):
            yield "event bus", name
    wanted = {one["BackupVaultName"] for one in stage.properties("AWS::Backup::BackupVault")}
    if wanted:  # AWS Backup denies a request for a vault that does not exist, so list all vaults
        vaults = stage.ask("backup", "list_backup_vaults", MaxResults=1000)["BackupVaultList"]
        yield from (("backup vault", name) for name in wanted & {one["BackupVaultName"] for one in vaults})
    for one in stage.properties("AWS::Cognito::UserPoolDomain"):
        domain = one["Domain"]
        missing = "ResourceNotFoundException"
        found = stage.ask_or_none("cognito-idp", "describe_user_pool_domain", missing, Domain=domain)
        if found and found.get("DomainDescription"):
            yield "sign-in domain", domain
    names = [one["AlarmName"] for one in stage.properties("AWS::CloudWatch::Alarm")]
    for first in range(0, len(names), 100):
        found = stage.ask("cloudwatch", "describe_alarms", AlarmNames=names[first : first + 100], MaxRecords=100)
        yield from (("alarm", one["AlarmName"]) for one in found["MetricAlarms"])
    groups = [one["LogGroupName"] for one in stage.properties("AWS::Logs::LogGroup")]
    fixed = {name for name in groups if isinstance(name, str)}
    for prefix in {f"{name.rpartition('/')[0]}/" for name in fixed}:
        found = stage.ask("logs", "describe_log_groups", logGroupNamePrefix=prefix)["logGroups"]
        yield from (("log group", one["logGroupName"]) for one in found if one["logGroupName"] in fixed)


def check_identity_provider(stage: Preflight) -> Iterator[Finding]:
    """Check that another OpenID provider describes itself, as API Gateway, the API and the web page need it.

    https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-jwt-authorizer.html
    """
    jwts = [one["JwtConfiguration"] for one in stage.properties("AWS::ApiGatewayV2::Authorizer")]
    issuers = [one["Issuer"] for one in jwts if isinstance(one["Issuer"], str)]  # that of a user pool is no text yet
    for issuer in issuers:
        found = _discover(issuer)
        wanted = {"issuer": issuer, "jwks_uri": None, "userinfo_endpoint": None}
        lacking = [name for name, value in wanted.items() if name not in found or (value and found[name] != value)]
        why, action = f"its description has no right {', '.join(lacking)}", "see docs/how-to/sign-in-elsewhere.md"
        said = why if lacking else issuer
        yield _judge("identity provider", said, "an OpenID provider", CHANGE, action, enough=not lacking)


def _discover(issuer: str) -> Mapping[str, Any]:
    """Return the description of an OpenID provider, or {} if it has none (OpenID Connect Discovery 1.0)."""
    try:
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        found = urllib3.request("GET", url, timeout=10, retries=False).json()
    except (urllib3.exceptions.HTTPError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def check_alarms(stage: Preflight) -> Iterator[Finding]:
    """Check that a protected stage mails its alarms, and that the owner of the address confirmed the subscription."""
    wanted = {one["Endpoint"] for one in stage.properties("AWS::SNS::Subscription") if one["Protocol"] == "email"}
    needed = "a confirmed address" if stage.is_protected else ""
    if not wanted:
        said, action = "no address: alarms send no mails", "set alarm_address (docs/settings.md)"
        yield _judge("alarms", said, needed, CHANGE, action, enough=not stage.is_protected)
        return
    topic = stage.outputs.get("AlarmsTopic")
    if topic is None:
        yield Finding("alarms", ", ".join(wanted), needed, OK, "after the deploy, confirm the mail from AWS")
        return
    listed = stage.ask("sns", "list_subscriptions_by_topic", TopicArn=topic)["Subscriptions"]
    confirmed = {one["Endpoint"] for one in listed if one["SubscriptionArn"].startswith("arn:")}
    known = {one["Endpoint"] for one in listed}
    for address in sorted(wanted):
        if address in confirmed or address not in known:  # AWS mails a new address during the deploy
            yield Finding("alarms", address, needed, OK, "" if address in confirmed else "confirm the mail from AWS")
        else:
            yield Finding("alarms", f"{address} is not confirmed", needed, CHANGE, "confirm the mail from AWS")


def check_publishable_key(stage: Preflight) -> Iterator[Finding]:
    """Check that customers of a stage with a payment provider can pay, and with real money if it is protected."""
    variables = [one["Environment"]["Variables"] for one in stage.properties("AWS::Lambda::Function")]
    (payments,) = [one for one in variables if "PUBLISHABLE_KEY" in one]
    key = payments["PUBLISHABLE_KEY"]
    if not payments["PROVIDER_URL"]:
        yield Finding("payments", "no provider: store credit and offline payments", "")
    elif not stage.is_protected or key.startswith("pk_live_"):
        yield Finding("payments", f"{key[:8]}…" if key else "no publishable_key", "")
    else:
        found = "a publishable_key of test mode" if key else "no publishable_key"
        yield Finding("payments", found, "pk_live_…", CHANGE, "set publishable_key: see docs/stripe.md")


# mails ----------------------------------------------------------------------------------------------------------------
def check_ses_account(stage: Preflight) -> Iterator[Finding]:
    """Check that SES sends to every address, and that its rate and its daily quota are enough for the orders."""
    account = stage.ask("sesv2", "get_account")
    in_sandbox = not account["ProductionAccessEnabled"]
    said = "in the sandbox: mails only to verified addresses" if in_sandbox else "production access"
    action = f"request production access: {GUIDE}"
    yield _judge("SES sandbox", said, "production access", ASK_AWS, action, enough=not in_sandbox)
    status = account.get("EnforcementStatus", "HEALTHY")
    works = account["SendingEnabled"] and status != "SHUTDOWN"
    said = f"{'enabled' if account['SendingEnabled'] else 'disabled'}, {status}"
    action = "read SES's reputation page, and answer the case of AWS"
    yield _judge("SES sending", said, "enabled", ASK_AWS, action, enough=works)
    quota = account["SendQuota"]
    yield _compare_quota(stage, "ses-rate", quota["MaxSendRate"])
    yield _compare_quota(stage, "ses-day", quota["Max24HourSend"])


def check_sender(stage: Preflight) -> Iterator[Finding]:
    """Check that SES has verified the sender or its domain (Cognito needs the domain), and signs mails with DKIM."""
    pools = stage.properties("AWS::Cognito::UserPool")
    needs_domain = any("SourceArn" in one.get("EmailConfiguration", {}) for one in pools)
    functions = [one.get("Environment", {}).get("Variables", {}) for one in stage.properties("AWS::Lambda::Function")]
    for sender in sorted({one["SENDER"] for one in functions if "SENDER" in one}):
        if sender.endswith(".example"):
            yield Finding("sender", sender, "a verified address", CHANGE, "set sender (docs/settings.md)")
            continue
        domain = sender.partition("@")[2]
        for name in (domain,) if needs_domain else (sender, domain):
            if identity := stage.ask_or_none("sesv2", "get_email_identity", "NotFoundException", EmailIdentity=name):
                verified = identity.get("VerifiedForSendingStatus", False)
                said = f"{name}: {'verified' if verified else 'not verified'}"
                action = f"set the DNS records that SES shows for its domain: {GUIDE}"
                yield _judge("sender", said, "verified", CHANGE, action, enough=verified)
                dkim = identity.get("DkimAttributes", {}).get("Status", "NOT_STARTED")
                yield _judge("DKIM", f"{name}: {dkim}", "SUCCESS", CHANGE, action, enough=dkim == "SUCCESS")
                break
        else:
            yield Finding("sender", f"{sender}: unknown to SES", "verified", CHANGE, f"verify its domain: {GUIDE}")


# throughput -----------------------------------------------------------------------------------------------------------
def check_lambda_concurrency(stage: Preflight) -> Iterator[Finding]:
    """Check that the account may run as many invocations at the same time as the stage needs."""
    found = stage.ask("lambda", "get_account_settings")["AccountLimit"]["ConcurrentExecutions"]
    parts = concurrency_of(stage)
    needed = sum(parts.values())
    wanted = f"{needed:,}: {', '.join(f'{number} {what}' for what, number in parts.items())}"
    action = _request(stage, "lambda-concurrency")
    yield _judge("Lambda concurrency", f"{found:,}", wanted, ASK_AWS, action, enough=found >= needed)


def concurrency_of(stage: Preflight) -> dict[str, int]:
    """Return {cause: how many Lambda invocations the stage needs at the same time}.

    A stream reader needs one for each parallel batch of each shard. A shard has 1,000 write units of the table.
    """
    units = max(stage.need("table-write"), *(units for units in _table_units(stage, "WriteUnitsPerSecond")), 0)
    shards = ceil(units / PARTITION_WRITE_UNITS)
    mappings = stage.properties("AWS::Lambda::EventSourceMapping")
    streams = [one["ParallelizationFactor"] for one in mappings if "ParallelizationFactor" in one]
    queues = [
        one.get("ScalingConfig", {}).get("MaximumConcurrency", FIRST_POLLERS)
        for one in mappings
        if "ParallelizationFactor" not in one
    ]
    rules = [one for one in stage.properties("AWS::Events::Rule") if "ScheduleExpression" in one]
    parts = {
        "API": ceil(stage.orders * stage.needs["api_seconds"]),
        "stream readers": shards * sum(streams),
        "queues": sum(queues),
        "schedules": sum(len(one["Targets"]) for one in rules),
    }
    functions = stage.properties("AWS::Lambda::Function")
    if reserved := sum(one.get("ReservedConcurrentExecutions", 0) for one in functions):
        parts = {"reserved": reserved, "without a reservation": max(UNRESERVED_CONCURRENCY, sum(parts.values()))}
    return parts


def check_quota(stage: Preflight, quota: str) -> Iterator[Finding]:
    """Compare a quota in Service Quotas with what the orders need. A quota that was never raised has AWS's default."""
    service, code = stage.needs["quotas"][quota]["quota"]
    names = {"ServiceCode": service, "QuotaCode": code}
    answer = stage.ask_or_none("service-quotas", "get_service_quota", "NoSuchResourceException", **names)
    if answer is None:
        answer = stage.ask("service-quotas", "get_aws_default_service_quota", **names)
    yield _compare_quota(stage, quota, answer["Quota"]["Value"])


def _compare_quota(stage: Preflight, quota: str, found: float) -> Finding:
    needed = stage.need(quota)
    unit = stage.needs["quotas"][quota]["unit"]
    enough = found < 0 or found >= needed  # SES returns -1 if there is no limit
    said = f"{found:,g}" if found >= 0 else "no limit"
    wanted = f"{_number(needed)} {unit}"
    return _judge(QUOTAS[quota], said, wanted, ASK_AWS, _request(stage, quota), enough=enough)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _request(stage: Preflight, quota: str) -> str:
    service, code = stage.needs["quotas"][quota]["quota"]
    return f"request a higher quota: {service} {code} in Service Quotas (docs/quotas.md)"


def check_api_throttle(stage: Preflight) -> Iterator[Finding]:
    """Check that the stage's rate limit for its API is high enough for the orders."""
    for one in stage.properties("AWS::ApiGatewayV2::Stage"):
        found, needed = one["DefaultRouteSettings"]["ThrottlingRateLimit"], stage.need("api-throttle")
        what, wanted = "the stage's rate limit of the API", f"{_number(needed)} requests a second"
        action = "raise requests_per_second (docs/settings.md)"
        yield _judge(what, f"{found:,g}", wanted, CHANGE, action, enough=found >= needed)


def check_table_throughput(stage: Preflight) -> Iterator[Finding]:
    """Check that the table, existing or new, serves the load of the orders at once, before DynamoDB scales it up."""
    for name, quota, setting in (
        ("WriteUnitsPerSecond", "table-write", "warm_write_units"),
        ("ReadUnitsPerSecond", "table-read", "warm_read_units"),
    ):
        for found in _table_units(stage, name):
            needed, what = stage.need(quota), f"the table's {quota.partition('-')[2]} units at once"
            wanted, action = f"{_number(needed)} units a second", f"set {setting} (docs/settings.md)"
            yield _judge(what, f"{found:,g}", wanted, CHANGE, action, enough=found >= needed)


def _table_units(stage: Preflight, name: str) -> Iterator[float]:
    """Yield the units per second that a table with on-demand billing serves at once after the deploy."""
    for one in stage.properties(*TABLE_TYPES):
        if one.get("BillingMode") != "PAY_PER_REQUEST":
            continue
        units = one.get("WarmThroughput", {}).get(name, NEW_TABLE_UNITS[name])
        if table := stage.outputs.get("TableName"):
            described = stage.ask("dynamodb", "describe_table", TableName=table)["Table"]
            units = max(units, described.get("WarmThroughput", {}).get(name, 0))
        yield units


Check = Callable[[Preflight], Iterator[Finding]]
CHECKS: Sequence[tuple[str, Check]] = (
    ("CDK bootstrap", check_bootstrap),
    ("other stages in the account", check_other_stages),
    ("stack", check_stack),
    ("names", check_names),
    ("identity provider", check_identity_provider),
    ("alarms", check_alarms),
    ("payments", check_publishable_key),
    ("SES", check_ses_account),
    ("sender", check_sender),
    ("Lambda concurrency", check_lambda_concurrency),
    ("the table's units at once", check_table_throughput),
    ("the stage's rate limit of the API", check_api_throttle),
    *((QUOTAS[quota], partial(check_quota, quota=quota)) for quota in QUOTAS if not quota.startswith("ses-")),
)
"""The checks. If AWS does not answer the requests of a check, its row in the report has the name given here."""


def run_checks(stage: Preflight) -> Iterator[Finding]:
    """Run every check and yield its findings. If AWS denies or fails a request, the check yields a finding about it."""
    for name, check in CHECKS:
        try:
            yield from check(stage)
        except CallDenied as action:
            yield Finding(name, str(action), "", NOT_ALLOWED, "allow the action, or look in the console")
        except NoCredentialsError:
            raise
        except (BotoCoreError, ClientError) as error:
            yield Finding(name, str(error), "", NO_ANSWER, "look in the console")


# the command ----------------------------------------------------------------------------------------------------------
def command(commands: targets.Subparsers) -> None:
    parser = commands.add_parser(
        "preflight",
        help="check before a deploy what an account lacks for a stage and its orders",
        description="Compares an account with a synthesized template and a number of orders a second. Prints a table, "
        "and exits with 1 if the deploy or the orders would fail. Changes nothing.",
    )
    parser.add_argument("--stack", required=True, help="the name of the stack, such as orderstream-prod")
    parser.add_argument("--template", type=Path, metavar="FILE", required=True, help="the template to deploy")
    parser.add_argument(
        "--orders", type=targets.positive_number, default=0.1, help="orders a second at the peak (default: 0.1)"
    )
    parser.add_argument("--local", action="store_true", help="ask the local AWS of the shop on this machine")
    targets.add_state_option(parser)
    parser.add_argument("--region", help="the AWS region (default: as configured)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the table. Exits with 1 if a verdict is "change" or "ask AWS", or if the template cannot be read."""
    try:
        template = json.loads(args.template.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"Cannot read the template: {error}. Run make check-deploy PARTS=account, which writes it.")
    of_aws = partial(boto3.client, region_name=args.region)
    client = args.find_local_target(args.state).client if args.local or args.state else of_aws
    stage = Preflight(args.stack, template, args.orders, client)
    account = client("sts").get_caller_identity()["Account"]
    region = client("lambda").meta.region_name
    print(f"{stage.stack} in account {account}, {region}, for {stage.orders:g} orders a second\n")
    findings = list(run_checks(stage))
    rows = [(one.verdict, one.what, one.found, one.needed) for one in findings]
    head, *lines = align_columns(("verdict", "what", "found", "needed"), rows, indent="")
    print(head)
    for finding, line in zip(findings, lines, strict=True):
        verdict = finding.verdict
        print(line.replace(verdict, colored(verdict, VERDICT_COLORS[verdict]), 1))
        if finding.action:
            print(f"  -> {finding.action}")
    failed = [sum(one.verdict == verdict for one in findings) for verdict in FAILED]
    unknown = sum(one.verdict in (NOT_ALLOWED, NO_ANSWER) for one in findings)
    print(f"\n{failed[0]} to change, {failed[1]} to ask AWS for, {unknown} unknown. Nothing was changed.")
    if any(failed):
        sys.exit(1)
