"""A client that openapi-python-client generates from the OpenAPI document places and follows an order over HTTP."""

import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server

import pytest

from functions.shop.fulfilment import fulfil_order
from proof.support.http_client import ANN, HOME_ADDRESS, WAREHOUSE, ApiHarness
from tests.api.hostile.gateway import Gateway
from tests.api.hostile.judge import ResponseJudge
from tests.support.served_document import served_document, served_operations

pytestmark = pytest.mark.slow
PACKAGE = "orderstream_client"
CONFIGURATION: dict[str, Any] = {"post_hooks": []}  # no formatter is needed
NOT_GENERATED = {"import_products"}
"""The operations that openapi-python-client leaves out: it knows neither NDJSON nor CSV."""


@pytest.fixture
def url(api: ApiHarness) -> Iterator[str]:
    """Serve the API over HTTP. The token is the name of a user. Fails if an answer is not as the document says."""
    gateway = Gateway(api, ResponseJudge(served_document()))
    with make_server("127.0.0.1", 0, gateway) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
    assert gateway.violations == {}


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
    for operation in served_operations().values():
        if operation["operationId"] not in NOT_GENERATED:
            assert module(f"api.{operation['tags'][0]}.{operation['operationId']}").sync_detailed


def test_a_generated_client_places_and_follows_an_order(generated: str, url: str, api: ApiHarness) -> None:
    models, orders, shipments = module("models"), "api.orders", "api.shipments"
    client = module("client").AuthenticatedClient(base_url=url, token=ANN.sub)
    wanted = models.NewOrder.from_dict({"lines": [{"product_id": "mug", "quantity": 2}], "address": HOME_ADDRESS})
    placed = module(f"{orders}.place_order").sync(client=client, body=wanted, idempotency_key="one")
    assert (placed.status, placed.total) == ("PENDING", 2500)
    again = module(f"{orders}.place_order").sync_detailed(client=client, body=wanted, idempotency_key="one")
    assert (again.status_code, again.parsed.order_id) == (200, placed.order_id)

    api.pay(placed.order_id)
    assert fulfil_order(api.shop, placed.order_id)
    (shipment,) = module(f"{shipments}.shipments_of_order").sync(placed.order_id, client=client).items
    warehouse = module("client").AuthenticatedClient(base_url=url, token=WAREHOUSE.sub)
    sent = models.Dispatched.from_dict({"carrier": "dhl", "tracking_number": "42"})
    done = module(f"{shipments}.shipment_dispatched").sync(
        placed.order_id, shipment.shipment_id, client=warehouse, body=sent
    )
    assert done.status == "DISPATCHED"
    followed = module(f"{orders}.whole_order").sync(placed.order_id, client=client)
    assert followed.order.status == "SHIPPED"
    assert [one.order_id for one in followed.invoices] == [placed.order_id]
