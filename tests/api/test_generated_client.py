"""A client that openapi-python-client generates from the OpenAPI document has every operation but one."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.served_document import served_document

pytestmark = pytest.mark.slow
PACKAGE = "orderstream_client"
CONFIGURATION: dict[str, Any] = {"post_hooks": []}  # no formatter is needed
NOT_GENERATED = {"import_products"}
"""The operations that openapi-python-client leaves out: it knows neither NDJSON nor CSV."""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What the generator printed. The package `orderstream_client` can be imported."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "openapi.json").write_text(json.dumps(served_document()))
    (folder / "configuration.json").write_text(json.dumps(CONFIGURATION))
    command = [str(Path(sys.executable).parent / "openapi-python-client"), "generate", "--path", "openapi.json"]
    command += ["--output-path", PACKAGE, "--meta", "none", "--config", "configuration.json"]
    run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield run.stdout
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def module(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


def test_the_generator_reads_every_operation_but_the_import_of_files(generated: str) -> None:
    assert generated.count("WARNING") == 1, generated
    operations = [one for item in served_document()["paths"].values() for one in item.values()]
    for operation in operations:
        if operation["operationId"] not in NOT_GENERATED:
            assert module(f"api.{operation['tags'][0]}.{operation['operationId']}").sync_detailed
