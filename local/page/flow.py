"""Describes the shop as nodes and edges, for the drawing on its web page, from the declarations of the stack."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from functions.model import copies, totals
from functions.model.lambdas import lambda_name_of_handler
from functions.model.reactions import REACTIONS, Reaction
from local.laptop.deploy import resources_of_type
from local.laptop.shop_client import PROJECT

JsonObject = dict[str, Any]
Template = Mapping[str, Any]
API, TABLE, BUS, SCHEDULES, MAIL, PROVIDER, ARCHIVE = (
    "api",
    "table",
    "bus",
    "schedules",
    "mail",
    "provider",
    "archive_bucket",
)
OTHER_ACTIONS = ("kms:", "logs:", "dynamodb:Describe", "dynamodb:ListStreams", "sqs:GetQueueAttributes")
"""Actions that a role needs, and that neither read nor write data of the shop."""
READING = ("Get", "Query", "BatchGet", "Scan", "List", "Receive", "ConditionCheck")
SETTINGS: Mapping[str, tuple[str, str]] = {
    "Timeout": ("Timeout", "s"),
    "MemorySize": ("Memory", "MB"),
    "BatchSize": ("Batch size", ""),
    "MaximumBatchingWindowInSeconds": ("Batching window", "s"),
    "ParallelizationFactor": ("Parallelization factor", ""),
    "MaximumRetryAttempts": ("Retries", ""),
    "MaximumRecordAgeInSeconds": ("Maximum record age", "s"),
    "BisectBatchOnFunctionError": ("Bisect a failed batch", ""),
    "VisibilityTimeout": ("Visibility timeout", "s"),
    "MessageRetentionPeriod": ("Retention of messages", "s"),
}
"""The settings of Lambdas, event source mappings and queues that the page shows: label and unit, by property."""
NO_RETRY_LIMIT = -1
EMPTY_NODE: JsonObject = {"reads": [], "writes": [], "settings": [], "switches": []}


def describe_flow(template: Template) -> JsonObject:
    """Return the nodes and edges of the shop that a template describes.

    A node has an `id`, a `kind`, a `label`, `about` (one sentence), and what it `reads` and `writes`. Its `settings`
    are pairs of a name and a text. `switches` are the bodies of requests to /local/chaos that break the node. A node
    with a Lambda also has its `module`. An edge leads `from` one node `to` another.
    """
    stack = _FlowTemplate(template)
    return {"nodes": [EMPTY_NODE | node for node in _nodes(stack)], "edges": [*_edges(stack)]}


def find_stream_mappings(template: Template) -> Iterator[tuple[str, str]]:
    """Yield the logical id of each event source mapping of the stream, with the name of its reader."""
    stack = _FlowTemplate(template)
    for reader in stack.readers:
        if found := stack.mapping_of(reader):
            yield found[0], reader.name


@dataclass(frozen=True)
class _Function:
    """A Lambda function of the template. `id`: its logical id. `properties`: its Properties."""

    id: str
    properties: Mapping[str, Any]

    @property
    def name(self) -> str:
        return lambda_name_of_handler(self.properties["Handler"])

    @property
    def module(self) -> str:
        return f"{self.properties['Handler'].rpartition('.')[0].replace('.', '/')}.py"

    @property
    def about(self) -> str:
        """The first sentence of the module's docstring."""
        text = ast.get_docstring(ast.parse((PROJECT / self.module).read_text())) or ""
        return " ".join(text.partition("\n\n")[0].split())


class _FlowTemplate:
    """Reads from a synthesized template what the drawing shows."""

    def __init__(self, template: Template) -> None:
        self.resources: Mapping[str, Any] = template["Resources"]
        self._outputs = template.get("Outputs", {})
        self.functions = {
            one.name: one
            for id, properties in self.of_type("AWS::Lambda::Function")
            if "functions.handlers." in properties["Handler"]
            for one in [_Function(id, properties)]
        }

    def of_type(self, resource_type: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        return resources_of_type({"Resources": self.resources}, resource_type)

    def mapping_of(self, function: _Function) -> tuple[str, Mapping[str, Any]] | None:
        """Return the logical id and the Properties of the function's event source mapping, or None."""
        return next(
            (found for found in self.of_type("AWS::Lambda::EventSourceMapping")
             if found[1]["FunctionName"] == {"Ref": function.id}),
            None,
        )  # fmt: skip

    @cached_property
    def readers(self) -> list[_Function]:
        """The functions that read the table's stream."""
        found = {name: self.mapping_of(one) for name, one in self.functions.items()}
        return [self.functions[name] for name, one in found.items() if one and "StartingPosition" in one[1]]

    @cached_property
    def scheduled(self) -> dict[str, str]:
        """The schedule, such as "rate(1 minute)", of each function that a schedule invokes."""
        names = {one.id: name for name, one in self.functions.items()}
        return {
            names[target["Arn"]["Fn::GetAtt"][0]]: rule["ScheduleExpression"]
            for _, rule in self.of_type("AWS::Events::Rule")
            if "ScheduleExpression" in rule
            for target in rule["Targets"]
        }

    def queue_of(self, reaction: Reaction) -> Mapping[str, Any]:
        """Return the Properties of the queue to which the rule of a reaction sends its events."""
        for _, rule in self.of_type("AWS::Events::Rule"):
            if rule.get("Description", "").startswith(f"{reaction.name}: "):
                properties: Mapping[str, Any] = self.resources[rule["Targets"][0]["Arn"]["Fn::GetAtt"][0]]["Properties"]
                return properties
        raise ValueError(f"the template has no rule of the reaction {reaction.name}")

    def permissions(self, function: _Function) -> Iterator[tuple[str, Any]]:
        """Yield the actions that a function's role may use, each with a resource."""
        role = function.properties["Role"]["Fn::GetAtt"][0]
        for _, policy in self.of_type("AWS::IAM::Policy"):
            if {"Ref": role} in policy["Roles"]:
                for statement in policy["PolicyDocument"]["Statement"]:
                    for action in _as_list(statement["Action"]):
                        for resource in _as_list(statement["Resource"]):
                            yield action, resource

    def output_id(self, name: str) -> str:
        """Return the logical id of the resource that an output of the stack names."""
        return next(iter(_logical_ids(self._outputs[name]["Value"])))

    def effects(self, function: _Function) -> list[str]:
        """Return the nodes that a reaction's Lambda changes: services outside the shop, or, if none, the table."""
        may = [(action, {*_logical_ids(on)}) for action, on in self.permissions(function)]
        outside = {
            MAIL: any(action == "ses:SendEmail" for action, _ in may),
            PROVIDER: any(self.output_id("ProviderSecret") in ids for _, ids in may),
            ARCHIVE: any(action == "s3:PutObject" and self.output_id("ArchiveBucket") in ids for action, ids in may),
        }
        return [name for name, changes in outside.items() if changes] or [TABLE]

    def reads_and_writes(self, function: _Function) -> dict[str, list[str]]:
        """Return the names of the resources that a function may read and write, from the permissions of its role."""
        found: dict[str, list[str]] = {"reads": [], "writes": []}
        for action, resource in self.permissions(function):
            if not action.startswith(OTHER_ACTIONS):
                how = "reads" if action.partition(":")[2].startswith(READING) else "writes"
                name = "mails" if action.startswith("ses:") else _resource_name(resource)
                found[how] += [] if name in found[how] else [name]
        return found


def _nodes(stack: _FlowTemplate) -> Iterator[JsonObject]:
    kill = {name: {"switch": "kill", "process": name} for name in ("dynamodb", "aws", "everything")}
    api, starter = stack.functions[API], stack.functions["payment_starter"]
    node = _function_node(stack, api, API, "API", switches=[kill["aws"], kill["everything"]])
    yield node | {"module": f"{api.module}, {starter.module}"}
    yield _table_node(stack) | {"switches": [{"switch": "poison"}, kill["dynamodb"]]}
    yield _schedules_node(stack)
    for one in stack.readers:
        switches = [{"switch": "reader", "name": one.name}, {"switch": "fail", "of": one.name}]
        node = _function_node(stack, one, "reader", one.name, switches=[*switches, {"switch": "twice", "of": one.name}])
        yield node | {"derives": _derived_types()} if TABLE in _targets_of_reader(stack, one) else node
    yield _bus_node(stack)
    for reaction in REACTIONS:
        yield _reaction_node(stack, reaction)
    used = {id for reaction in REACTIONS if reaction.function for id in stack.effects(stack.functions[reaction.name])}
    yield from (node for node in OUTSIDE_NODES if node["id"] in used)


OUTSIDE_NODES: tuple[JsonObject, ...] = (
    {
        "id": MAIL,
        "kind": "outside",
        "label": "Mail",
        "about": "Amazon SES sends the mails to customers. On the laptop, each mail is stored in a file.",
        "module": "local/laptop/mail_refusals.py",
        "switches": [{"switch": "mails"}],
    },
    {
        "id": PROVIDER,
        "kind": "outside",
        "label": "Payment provider",
        "about": "Takes payments, makes refunds, and reports both to the API with webhooks.",
        "module": "local/laptop/payment_provider.py",
        "writes": ["webhooks to the API"],
        "switches": [{"switch": "slow"}, {"switch": "delivery"}],
    },
    {
        "id": ARCHIVE,
        "kind": "outside",
        "label": "S3 archive",
        "about": "The bucket with one object for each archived order, and for the activity of each day.",
    },
)  # fmt: skip
"""The nodes outside the table, the bus and the Lambdas. The page draws such a node if a reaction may change it."""


def _edges(stack: _FlowTemplate) -> Iterator[JsonObject]:
    yield {"from": API, "to": TABLE, "label": "one write"}
    yield {"from": SCHEDULES, "to": TABLE, "label": "deadlines"}
    for one in stack.readers:
        yield {"from": TABLE, "to": one.name, "label": "stream"}
        for target in _targets_of_reader(stack, one):
            back = target == TABLE
            yield {"from": one.name, "to": target, "label": "copies and totals" if back else "events", "derived": back}
    for reaction in REACTIONS:
        yield {"from": BUS, "to": reaction.name, "label": ", ".join(reaction.event_names) or reaction.only_with}
        for effect in stack.effects(stack.functions[reaction.name]) if reaction.function else [API]:
            yield {"from": reaction.name, "to": effect, "label": reaction.effect}
            if effect == PROVIDER:
                yield {"from": PROVIDER, "to": API, "label": "webhooks"}


def _targets_of_reader(stack: _FlowTemplate, function: _Function) -> list[str]:
    """Return the node that a stream reader changes: the bus if the reader may publish events, otherwise the table."""
    return [BUS] if any(action == "events:PutEvents" for action, _ in stack.permissions(function)) else [TABLE]


def _derived_types() -> list[str]:
    """Return the copies and totals with the types of their sources, such as "Activity from Order"."""
    snapshots = [f"{one.target_row.type} from {one.source_row.type}" for one in copies.SNAPSHOTS]
    logs = [f"{one.target_row.type} from {one.source_row.type}" for one in copies.LOGS]
    return [*snapshots, *logs, *(f"totals from {one.source_row.type}" for one in totals.COUNTERS)]


def _function_node(stack: _FlowTemplate, function: _Function, kind: str, label: str, **more: Any) -> JsonObject:
    properties = (stack.mapping_of(function) or ("", {}))[1]
    return {
        "id": function.name,
        "kind": kind,
        "label": label,
        "about": function.about,
        "module": function.module,
        "function": function.name,
        **stack.reads_and_writes(function),
        "settings": [*_settings(properties), *_settings(function.properties), *_variables(function)],
        **more,
    }


def _table_node(stack: _FlowTemplate) -> JsonObject:
    [(_, table)] = stack.of_type("AWS::DynamoDB::GlobalTable")
    settings = [
        ["Keys", ", ".join(one["AttributeName"] for one in table["KeySchema"])],
        ["Indexes", ", ".join(one["IndexName"] for one in table.get("GlobalSecondaryIndexes", ()))],
        ["Stream", table["StreamSpecification"]["StreamViewType"]],
        ["Expiry (TTL)", table["TimeToLiveSpecification"]["AttributeName"]],
        ["Billing", table["BillingMode"]],
    ]
    return {
        "id": TABLE,
        "kind": "table",
        "label": "Table",
        "about": "One DynamoDB table holds all data. Its stream has a record for each change of an item.",
        "module": "functions/model/table.py",
        "writes": ["its stream"],
        "settings": settings,
    }


def _schedules_node(stack: _FlowTemplate) -> JsonObject:
    jobs = [stack.functions[name] for name in stack.scheduled]
    return {
        "id": SCHEDULES,
        "kind": "schedules",
        "label": "Schedules",
        "about": "EventBridge invokes these Lambdas at fixed intervals.",
        "module": ", ".join(job.module for job in jobs),
        "functions": [job.name for job in jobs],
        "writes": sorted({name for job in jobs for name in stack.reads_and_writes(job)["writes"]}),
        "settings": [[job.name, stack.scheduled[job.name]] for job in jobs],
    }


def _bus_node(stack: _FlowTemplate) -> JsonObject:
    rules = [rule for _, rule in stack.of_type("AWS::Events::Rule") if "EventPattern" in rule]
    return {
        "id": BUS,
        "kind": "bus",
        "label": "Event bus",
        "about": "EventBridge sends each event to the queues of the reactions that listen for it.",
        "module": "functions/model/events.py",
        "writes": ["the queues of the reactions"],
        "settings": [["Rules", str(len(rules))]],
    }


def _reaction_node(stack: _FlowTemplate, reaction: Reaction) -> JsonObject:
    queue = stack.queue_of(reaction)
    settings = [["Maximum receive count", str(queue["RedrivePolicy"]["maxReceiveCount"])], *_settings(queue)]
    shared: JsonObject = {
        "about": f"{reaction.effect[0].upper()}{reaction.effect[1:]}.",
        "events": list(reaction.event_names),
        "idempotent_by": reaction.idempotent_by,
    }
    if not reaction.function:
        node: JsonObject = {"id": reaction.name, "kind": "external", "label": reaction.name}
        return {**node, **shared, "reads": ["its queue"], "writes": ["the API"], "settings": settings}
    breaks = [{"switch": switch, "of": reaction.name} for switch in ("fail", "twice")]
    made = _function_node(stack, stack.functions[reaction.name], "reaction", reaction.name, switches=breaks)
    return {**made, **shared, "settings": [*settings, *made["settings"]]}


def _settings(properties: Mapping[str, Any]) -> list[list[str]]:
    shown = [
        [label, _format_setting(properties[name], unit)]
        for name, (label, unit) in SETTINGS.items()
        if name in properties
    ]
    if "ScalingConfig" in properties:
        shown.append(["Maximum concurrency", str(properties["ScalingConfig"]["MaximumConcurrency"])])
    if "FilterCriteria" in properties:
        patterns = [json.loads(one["Pattern"]) for one in properties["FilterCriteria"]["Filters"]]
        shown.append(["Filter", "; ".join(map(_describe_filter, patterns))])
    return shown


def _format_setting(value: Any, unit: str) -> str:
    """Return a setting as the page shows it, such as "12 h" for 43200 seconds."""
    if value == NO_RETRY_LIMIT:
        return "until the record is too old"
    if unit == "s" and value and value % 86400 == 0:
        return f"{value // 86400} days"
    if unit == "s" and value and value % 3600 == 0:
        return f"{value // 3600} h"
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value} {unit}".strip()


def _describe_filter(pattern: Mapping[str, Any]) -> str:
    types = [name for image in pattern["dynamodb"].values() for name in image.get("type", {}).get("S", ())]
    return f"{' or '.join(pattern['eventName'])} of {', '.join(types)}"


def _variables(function: _Function) -> list[list[str]]:
    """Return the variables of a function's environment that have a fixed value."""
    variables = function.properties["Environment"]["Variables"]
    return [[name, text] for name, text in variables.items() if isinstance(text, str) and text]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _logical_ids(value: Any) -> Iterator[str]:
    """Yield the logical ids of all resources that a value of the template refers to."""
    match value:
        case {"Ref": str(id)} | {"Fn::GetAtt": [str(id), _]}:
            yield id
        case dict():
            for part in value.values():
                yield from _logical_ids(part)
        case list():
            for part in value:
                yield from _logical_ids(part)


def _resource_name(value: Any) -> str:
    """Return a resource by its logical id without the CDK's hash, such as "Table/index/GSI1" or "Table.StreamArn"."""
    match value:
        case {"Ref": str(id)} | {"Fn::GetAtt": [str(id), "Arn"]}:
            return id[:-8]
        case {"Fn::GetAtt": [str(id), str(attribute)]}:
            return f"{id[:-8]}.{attribute}"
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(map(_resource_name, parts))
    return str(value)
