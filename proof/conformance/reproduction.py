"""Writes the report of a difference for an emulator's issue tracker, with a script or a command that shows it."""

import inspect
import pprint
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

from proof.conformance.probes.kinds import Probe, Request, ServiceProbe
from proof.conformance.results import DIFFERS, how_known
from proof.conformance.runners import resources
from proof.conformance.runners.services import MAKERS, UNDO, table_request

WIDTH = 116
MODULES = {
    "io": "import io",
    "json": "import json",
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


SCRIPT = """
Save this as `reproduce.py`, install boto3, and run `python reproduce.py http://127.0.0.1:4566`. Without an address, the
script asks AWS. It deletes what it creates.
"""
COMMAND = """
Install the package aws-conformance, and run this command. It deletes what it creates:

```sh
aws-conformance --endpoint http://127.0.0.1:4566 {name}
```

It plays this fact:
"""
"""How a fact about mappings is shown, which needs a function that counts its invocations."""


class NoReproduction(Exception):
    """No deployed system can show this fact, for the reason in the text."""


class _Code(str):
    """Python source that pprint shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def render_report(probe: Probe, found: Mapping[str, str]) -> str:
    """Return a report in Markdown. `found`: the result of the probe by the system. Raises NoReproduction."""
    if probe.not_deployable_because:
        raise NoReproduction(f"{probe.name} cannot be reproduced: {probe.not_deployable_because}")
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
    how, code = COMMAND, _assign("", _given(probe))
    if isinstance(probe, ServiceProbe):
        how, code = SCRIPT, render_script(probe)
    return f"""# {probe.says}

{known}

## Observed

{observed or "No recorded run differs from it."}

## Reproduce it
{how.format(name=probe.name)}
```python
{code.strip()}
```
"""


def render_script(probe: ServiceProbe) -> str:
    """Return a script that shows a probe. Its only parameter is an endpoint."""
    body = _service_script(probe)
    imports = [line for name, line in MODULES.items() if re.search(rf"\b{re.escape(name)}\b", body)]
    return "\n".join([f'"""{probe.says}"""', "", *imports, "", body])


def _with_functions(body: list[str]) -> str:
    """Return a script: its fixed parts, the functions of resources.py that the body uses, and the body."""
    text = "\n".join(body)
    everything = {name: one for name, one in vars(resources).items() if isinstance(one, FunctionType)}
    used: set[str] = set()
    while new := {name for name in everything if re.search(rf"(?<!def )\b{name}\(", text)} - used:
        used |= new
        text += "".join(inspect.getsource(everything[name]) for name in new)
    sources = [inspect.getsource(function) for name, function in everything.items() if name in used]
    sources = [re.sub(r"  # noqa.*", "", re.sub(r": Client\b", ": Callable[[str], Any]", one)) for one in sources]
    inside = ["with ExitStack() as undo:", *(textwrap.indent(line, "    ") for line in body)]
    return "\n\n\n".join(one.strip("\n") for one in [HEAD, SEND, CHECK, *sources, "\n".join(inside)])


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
        body += [
            _assign("table_request = ", table_request(probe), names),
            "client('dynamodb').create_table(TableName=prefix, **table_request)",
            "undo.callback(client('dynamodb').delete_table, TableName=prefix)",
            "client('dynamodb').get_waiter('table_exists').wait(TableName=prefix)",
            "names['table'] = prefix",
        ]
    for make in dict.fromkeys(make for name, make in MAKERS.items() if re.search(rf"\${name}\b", text)):
        body.append(f"names |= {make.__name__}(client, undo, prefix)")
    if "$sender" in text:
        body.append("names['sender'] = 'shop@example.com'  # on AWS: an address that SES has verified")
        body.append("send('sesv2', 'create_email_identity', {'EmailIdentity': names['sender']})")
    for request in probe.requests:
        body.append("")
        body += _request(request, names)
    return _with_functions(body)


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
        case _ if is_dataclass(value):
            given = ", ".join(f"{name}={_as_code(one, names)!r}" for name, one in _given(value).items())
            return _Code(f"{type(value).__name__}({given})")
    return value


def _given(part: Any) -> dict[str, Any]:
    """Return the fields of a probe, or of a part of it, that differ from their defaults."""
    found = {one.name: (getattr(part, one.name), one.default) for one in fields(part)}
    return {name: value for name, (value, default) in found.items() if value not in (default, {}, ())}


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
