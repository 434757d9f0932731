"""Writes the report of a difference for an emulator's issue tracker, with a script that is made from the probe."""

import inspect
import pprint
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

from proof.conformance.probes.kinds import ALWAYS, Call, Failing, MappingProbe, Probe, Request, ServiceProbe, Write
from proof.conformance.results import DIFFERS, how_known
from proof.conformance.runners import resources
from proof.conformance.runners.deployment import ON_DEMAND, ONE_PARTITION, STREAM, TWO_KEYS
from proof.conformance.runners.model import deletions, image, item_key
from proof.conformance.runners.services import MAKERS, UNDO, table_request

WIDTH = 116
MODULES = {
    "io": "import io",
    "json": "import json",
    "os": "import os",
    "secrets": "import secrets",
    "sys": "import sys",
    "time": "import time",
    "urllib.error": "import urllib.error",
    "urllib.request": "import urllib.request",
    "zipfile": "import zipfile",
    "Callable": "from collections.abc import Callable",
    "ExitStack": "from contextlib import ExitStack",
    "Any": "from typing import Any",
    "urlsplit": "from urllib.parse import urlsplit",
    "boto3": "\nimport boto3",
    "Config": "from botocore.config import Config",
    "ClientError": "from botocore.exceptions import ClientError",
    "search": "from jmespath import search",
}
"""The imports of a script by the name that needs them."""
HEAD = """
LOCAL = {"region_name": "us-east-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}
OPTIONS = {"endpoint_url": sys.argv[1], **LOCAL} if len(sys.argv) > 1 else {}
prefix = f"probe-{secrets.token_hex(4)}"


def client(service: str) -> Any:
    return boto3.client(service, config=Config(parameter_validation=False), **OPTIONS)
"""
SEND = """
def send(service: str, operation: str, parameters: dict[str, Any]) -> Any:
    print(operation)
    try:
        return getattr(client(service), operation)(**parameters)
    except ClientError as error:
        return error.response
"""
CHECK = '''
def check(answer: Any, expected: dict[str, Any]) -> None:
    """Print what the answer has at each path. `...` stands for any value."""
    for path, value in expected.items():
        found = search(path, answer)
        agrees = found is not None if value is ... else found == value
        print(f"  {path}: {found!r}" + ("" if agrees else f"  <- DIFFERS: on AWS it is {value!r}"))
'''


class NoReproduction(Exception):
    """A script cannot show this fact, for the reason in the text."""


class _Code(str):
    """Python source that pprint shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def render_report(probe: Probe, found: Mapping[str, str]) -> str:
    """Return a report in Markdown. `found`: the result of the probe by the system. Raises NoReproduction."""
    script = render_script(probe)
    known = {
        "documented": f"AWS's documentation says so: {probe.source}",
        "observed": f"A run on AWS showed it. AWS's documentation: {probe.source}",
        "expected": f"AWS's documentation does not confirm it: {probe.source}. {probe.open_question}",
        "observed by others": f"AWS's documentation leaves it open: {probe.source}",
    }[how_known(probe)]
    if seen := probe.observed_by_others:
        known += f"\n\nOthers recorded it on AWS on {seen.date}: {seen.url}"
    observed = "\n".join(
        f"- {system}: {result.removeprefix(DIFFERS)}" for system, result in found.items() if result.startswith(DIFFERS)
    )
    return f"""# {probe.says}

{known}

## Observed

{observed or "No recorded run differs from it."}

## Reproduce it

Save this as `reproduce.py`, install boto3, and run `python reproduce.py http://127.0.0.1:4566`. Without an address, the
script asks AWS. It deletes what it creates.

```python
{script.strip()}
```
"""


def render_script(probe: Probe) -> str:
    """Return a script that shows a probe. Its only parameter is an endpoint. Raises NoReproduction."""
    if probe.not_deployable_because:
        raise NoReproduction(f"{probe.name} has no script: {probe.not_deployable_because}")
    match probe:
        case ServiceProbe():
            body = _service_script(probe)
        case MappingProbe():
            body = _mapping_script(probe)
        case _:
            raise NoReproduction(f"{probe.name} has no script: it plays a mapping of a queue")
    outside = re.sub(r"FUNCTION = '''.*?'''", "", body, flags=re.DOTALL)
    imports = [line for name, line in MODULES.items() if re.search(rf"\b{re.escape(name)}\b", outside)]
    return "\n".join([f'"""{probe.says}"""', "", *imports, "", body])


def _with_functions(parts: list[str], body: list[str]) -> str:
    """Return a script: the parts, the functions of resources.py that the body and the parts use, and the body."""
    text = "\n".join([*parts, *body])
    everything = {name: one for name, one in vars(resources).items() if isinstance(one, FunctionType)}
    used: set[str] = set()
    while new := {name for name in everything if re.search(rf"(?<!def )\b{name}\(", text)} - used:
        used |= new
        text += "".join(inspect.getsource(everything[name]) for name in new)
    sources = [inspect.getsource(function) for name, function in everything.items() if name in used]
    sources = [re.sub(r"  # noqa.*", "", re.sub(r": Client\b", ": Callable[[str], Any]", one)) for one in sources]
    inside = ["with ExitStack() as undo:", *(textwrap.indent(line, "    ") for line in body)]
    return "\n\n\n".join(one.strip("\n") for one in [*parts, *sources, "\n".join(inside)])


def _assign(start: str, value: Any, names: Iterable[str] = (), end: str = "") -> str:
    """Return a line such as `start = value`, with the following lines of the value below its first."""
    source = pprint.pformat(_as_code(value, [*names]), width=WIDTH - len(start), sort_dicts=False)
    return start + source.replace("\n", "\n" + " " * len(start)) + end


def _service_script(probe: ServiceProbe) -> str:
    names, text = ["prefix", "region", "sender", "table", *MAKERS], str(probe.requests)
    body = ["names: dict[str, Any] = {'prefix': prefix}"]
    if "$region" in text:
        body.append("names['region'] = client('sts').meta.region_name")
    if "$table" in text:
        body += _create_table("prefix", table_request(probe), names)
        body.append("names['table'] = prefix")
    for make in dict.fromkeys(make for name, make in MAKERS.items() if re.search(rf"\${name}\b", text)):
        body.append(f"names |= {make.__name__}(client, undo, prefix)")
    if "$sender" in text:
        body.append("names['sender'] = 'shop@example.com'  # on AWS: an address that SES has verified")
        body.append("send('sesv2', 'create_email_identity', {'EmailIdentity': names['sender']})")
    for request in probe.requests:
        body.append("")
        body += _request(request, names)
    return _with_functions([HEAD, SEND, CHECK], body)


def _create_table(name: str, request: Mapping[str, Any], names: Iterable[str] = ()) -> list[str]:
    """Return the lines that create a table. `name`: an expression."""
    return [
        _assign("table_request = ", request, names),
        f"client('dynamodb').create_table(TableName={name}, **table_request)",
        f"undo.callback(client('dynamodb').delete_table, TableName={name})",
        f"client('dynamodb').get_waiter('table_exists').wait(TableName={name})",
    ]


def _request(request: Request, names: list[str]) -> Iterator[str]:
    if request.wait:
        yield f"time.sleep({request.wait})"
    expected = {path: _Code("...") if value == "$any" else value for path, value in request.returns.items()}
    match request.service:
        case "stream":
            yield "answer: Any = {'Records': read_stream(client, names['table'])}"
        case "http":
            yield "api = names['endpoint']"
            yield _assign("url = OPTIONS.get('endpoint_url', api) + ", request.parameters["Path"], names)
            yield _assign("answer = ask_api(url, ", request.parameters["Token"], names, ", urlsplit(api).netloc)")
        case _:
            yield _assign("parameters = ", request.parameters, names)
            yield f"answer = send({request.service!r}, {request.operation!r}, parameters)"
            expected = {"Error.Code": request.error, **expected}
    yield _assign("check(answer, ", expected, names, ")")
    if request.operation in UNDO:
        operation, parameter, path = UNDO[request.operation]
        yield f"undo.callback(client({request.service!r}).{operation}, {parameter}=search({path!r}, answer))"
    for name, path in request.saves.items():
        names.append(name)
        yield f"names[{name!r}] = search({path!r}, answer)"


def _as_code(value: Any, names: list[str]) -> Any:
    match value:
        case _Code():
            return value
        case str():
            return _text(value, names)
        case Mapping():
            return {_as_code(key, names): _as_code(element, names) for key, element in value.items()}
        case list() | tuple():
            return [_as_code(element, names) for element in value]
    return value


def _text(text: str, names: list[str]) -> Any:
    head, is_long, rest = text.partition("=")
    count, _, character = rest.partition("*")
    if is_long and count.isdigit():
        parts = [repr(head), f"{character[0]!r} * {count}", repr(character[1:])]
    elif len(text) > WIDTH and len(set(text)) == 1:
        parts = [f"{text[0]!r} * {len(text)}"]
    elif text.startswith("$request") or not names:
        return text
    else:
        pattern = "|".join(sorted(names, key=len, reverse=True))
        split = re.split(rf"\$({pattern})", text)
        if len(split) == 1:
            return text
        parts = [f"names[{part!r}]" if place % 2 else repr(part) for place, part in enumerate(split)]
    return _Code(" + ".join(part for part in parts if part != "''"))


def _mapping_script(probe: MappingProbe) -> str:
    one_partition = len({write.item for write in probe.writes}) > 1
    create = [
        "table, log = f'{prefix}-table', f'{prefix}-log'",
        *_create_table("log", TWO_KEYS | ON_DEMAND),
        *_create_table("table", TWO_KEYS | STREAM | (ONE_PARTITION if one_partition else ON_DEMAND)),
        "stream = client('dynamodb').describe_table(TableName=table)['Table']['LatestStreamArn']",
        "allowed = {'Effect': 'Allow', 'Action': ['dynamodb:*', 's3:*', 'sqs:*'], 'Resource': '*'}",
        "environment = {'Variables': {'LOG': log}}",
        "new_function(client, undo, prefix, FUNCTION, (allowed,), Timeout=3, Environment=environment)",
    ]
    settings = {"StartingPosition": "TRIM_HORIZON", **probe.settings}
    destination = settings.pop("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
    if destination == "$bucket":
        create += ["bucket = new_bucket(client, undo, f'{prefix}-failures')", "destination = f'arn:aws:s3:::{bucket}'"]
    elif destination:
        create.append("queue, destination = new_queue(client, undo, f'{prefix}-failures')")
    if destination:
        settings["DestinationConfig"] = {"OnFailure": {"Destination": _Code("destination")}}
    start = [
        _assign("settings = ", settings),
        "request = {'FunctionName': prefix, 'EventSourceArn': stream, **settings}",
    ]
    if probe.refused:
        start.append("answer = send('lambda', 'create_event_source_mapping', request)")
        start.append("print('refused' if 'Error' in answer else 'accepted  <- DIFFERS: AWS refuses these settings')")
        start.append("if 'UUID' in answer:")
        start.append("    client('lambda').delete_event_source_mapping(UUID=answer['UUID'])")
        return _with_functions([HEAD, _function_source(probe), SEND], [*create, *start])
    start += [
        "start = lambda: client('lambda').create_event_source_mapping(**request)['UUID']",
        "mapping = retry_until_role_is_known(start)",
        "undo.callback(client('lambda').delete_event_source_mapping, UUID=mapping)",
        "while client('lambda').get_event_source_mapping(UUID=mapping)['State'] != 'Enabled':",
        "    time.sleep(1)",
    ]
    sort = "sorted" if probe.any_order else "list"
    show = [
        f"time.sleep({probe.watch_seconds + (8 if probe.behaviour or not probe.calls else 0):g})",
        "give_up = time.time() + 60",
        f"while len(calls(log)) < {len(probe.calls)} and time.time() < give_up:",
        "    time.sleep(1)",
        "made = calls(log)",
        "for numbers, at in made:",
        "    print(f'{at - made[0][1]:5.1f} s: records {numbers}')",
        _assign("expected = ", [list(call.records) for call in probe.calls], end=_times(probe.calls)),
        f"agrees = {sort}(one for one, _ in made) == {sort}(expected)",
        "print(f'AWS invokes with {expected}' + ('' if agrees else '  <- DIFFERS'))",
    ]
    if destination == "$bucket":
        show.append("for one in client('s3').list_objects_v2(Bucket=bucket).get('Contents', []):")
        show.append("    print(client('s3').get_object(Bucket=bucket, Key=one['Key'])['Body'].read().decode())")
    elif destination:
        show.append("for one in client('sqs').receive_message(QueueUrl=queue, WaitTimeSeconds=5).get('Messages', []):")
        show.append("    print(one['Body'])")
    if destination:
        show.append(f"print({'AWS sends: ' + (', '.join(map(str, probe.failed_batches)) or 'nothing')!r})")
    body = [*create, "", *_writes(probe, late=False), *start, "", *_writes(probe, late=True), *show]
    return _with_functions([HEAD, _function_source(probe), CALLS], body)


def _times(calls: tuple[Call, ...]) -> str:
    times = [f"{call.at:g} s" for call in calls if call.at is not None]
    return f"  # at {', '.join(times)}" if times else ""


def _writes(probe: MappingProbe, *, late: bool) -> Iterator[str]:
    """Yield the lines of the writes before or after the start of the mapping. Equal writes become a loop."""
    waited = 0.0
    numbered = [(number, one) for number, one in enumerate(probe.writes, 1) if (one.at > 0) == late]
    while numbered:
        first, write = numbered[0]
        same = [number for number, one in numbered if one == write and write.action == "put"]
        count = next((place for place, number in enumerate(same) if number != first + place), len(same)) or 1
        at = write.at - (probe.calls[0].at or 0 if write.follows_call else 0)
        if write.follows_call and not waited:
            yield "while not calls(log):"
            yield "    time.sleep(0.2)"
        if at > waited:
            yield f"time.sleep({at - waited:g})"
            waited = at
        yield from _write(first, count, write)
        numbered = numbered[count:]


def _write(first: int, count: int, write: Write) -> Iterator[str]:
    if write.action == "delete":
        yield _assign("client('dynamodb').delete_item(TableName=table, Key=", item_key(write), end=")")
        return
    item = {**image(first, write), "n": {"N": _Code("str(number)" if count > 1 else repr(str(first)))}}
    if count > 1:
        yield f"for number in range({first}, {first + count}):"
    put = _assign("client('dynamodb').put_item(TableName=table, Item=", item, end=")")
    yield textwrap.indent(put, "    " if count > 1 else "")


CALLS = """
def calls(log: str) -> list[tuple[list[int], float]]:
    key = {'KeyConditionExpression': 'PK = :call', 'ExpressionAttributeValues': {':call': {'S': 'call'}}}
    items = client('dynamodb').query(TableName=log, ConsistentRead=True, **key)['Items']
    return [(json.loads(item['numbers']['S']), float(item['SK']['S'].split()[0])) for item in items]
"""
USES = '''

def uses(rule):
    """Count one more use of a rule, and return the number of its uses."""
    key = {"PK": {"S": "uses"}, "SK": {"S": rule}}
    change = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    answer = dynamodb.update_item(TableName=os.environ["LOG"], Key=key, ReturnValues="UPDATED_NEW", **change)
    return int(answer["Attributes"]["n"]["N"])
'''


def _function_source(probe: MappingProbe) -> str:
    """Return the function of a probe as an assignment of its source. It logs each invocation, then answers."""
    number = 'int(change["NewImage"]["n"]["N"])'
    if removed := deletions(probe):
        number = f'{number} if "NewImage" in change else {removed!r}[change["Keys"]["PK"]["S"]]'
    lines = [
        "def handler(event, context):",
        "    changes = [record['dynamodb'] for record in event['Records']]",
        f"    numbers = {{{number}: change['SequenceNumber'] for change in changes}}",
        "    item = {'PK': {'S': 'call'}, 'SK': {'S': f'{time.time():.3f} {uuid.uuid4()}'}}",
        "    numbers_item = {'numbers': {'S': json.dumps([*numbers])}}",
        "    dynamodb.put_item(TableName=os.environ['LOG'], Item={**item, **numbers_item})",
        *([f"    time.sleep({probe.function_seconds})"] if probe.function_seconds else []),
        *(f"    {line}" for line in _rules(probe.behaviour)),
        "    return {'batchItemFailures': []}",
    ]
    counts = any(rule.times != ALWAYS for rule in probe.behaviour)
    head = 'import json\nimport os\nimport time\nimport uuid\n\nimport boto3\n\ndynamodb = boto3.client("dynamodb")\n'
    source = head + (USES if counts else "") + "\n\n" + "\n".join(lines)
    return f"\nFUNCTION = '''\n{source}\n'''"


def _rules(rules: tuple[Failing, ...]) -> Iterator[str]:
    """Yield the lines of the function that answer as the rules say. The first rule that applies decides."""
    for index, rule in enumerate(rules):
        counted = f" and uses('{index}') <= {rule.times}" if rule.times != ALWAYS else ""
        yield f"rule_{index} = {rule.record} in numbers{counted}"
    reports = [f"({rule.record}, rule_{index})" for index, rule in enumerate(rules) if rule.by == "report"]
    for index, rule in enumerate(rules):
        yield f"if rule_{index}:"
        match rule.by:
            case "error":
                yield f"    raise RuntimeError('record {rule.record}')"
            case "timeout":
                yield "    time.sleep(6)"
            case "answer":
                yield f"    return {_answer(rule.answer)!r}"
            case "report":
                yield f"    failed = [numbers[number] for number, applies in [{', '.join(reports)}] if applies]"
                yield "    return {'batchItemFailures': [{'itemIdentifier': one} for one in failed]}"


def _answer(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _answer(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_answer(element) for element in value]
    return _Code(f"numbers[{value[1:]}]") if isinstance(value, str) and value.startswith("$") else value
