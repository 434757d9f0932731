"""Compare the model with a shop that runs on this machine: `python -m proof.scale laptop`.

On a laptop, no limits of AWS apply, and all functions share the processors. The model gets one measured value: the
processor seconds of all processes for an order, when orders come one at a time. This value sets the time of each
request and invocation. Then the model and the shop take the same orders from the same number of clients, as fast as
they can. The result is the median of RUNS runs. It is only for information: no test depends on it. Run nothing else on
the machine, because the model assumes that all processors are free.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from local.laptop.demo import DemoClients
from local.laptop.own_shop import LaptopShop
from local.up import synthesize_template
from local.world import processes
from proof.bench.laptop import CLIENTS, place_orders, total_seconds
from proof.scale import limits
from proof.scale.deployment import Deployment, read_deployment
from proof.scale.model import Buyer, Model, OrderRun, Process, ServiceTimes, Setup
from proof.scale.profiles import DELIVER_ROUTE, DISPATCH_ROUTE
from proof.scale.recorder import load_traces

RUNS, WARM_UP_ORDERS, PACED_ORDERS, BURST_ORDERS = 5, 12, 30, 200
TICKS = os.sysconf("SC_CLK_TCK")
NO_WAITS = ServiceTimes(
    read=0, write=0, transaction=0.001, put_events=0, send_mail=0, put_object=0, bus=0.005, receive=0.02, http=0
)
"""The service times on a laptop: a request waits only for a processor, not for a network."""
UNLIMITED: Mapping[str, float] = {
    limit.id: limit.value if limit.id.startswith("queue") else 1e6 for limit in limits.LIMITS
} | {"partition-write": 1e9, "partition-read": 1e9, "lambda-memory": 1}


def processor_seconds(state: Path) -> float:
    """Return the processor seconds that the processes of a local shop have used. `state`: the shop's state folder."""
    roots = {id for part in ("engine", "aws") if (id := processes.running_process_id(state / part))} | {os.getpid()}
    found: dict[int, tuple[int, float]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # the process ended after the listing
            continue
        found[int(file.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS
    wanted = roots & found.keys()
    while new := {id for id, (parent, _) in found.items() if parent in wanted} - wanted:
        wanted |= new
    return sum(found[id][1] for id in wanted)


def predict(deployment: Deployment, seconds_per_order: float, orders: int, processors: int) -> float:
    """Return the predicted orders a second. `seconds_per_order`: the processor seconds measured for one order."""
    setup = Setup(deployment, UNLIMITED, NO_WAITS, processors=processors)
    alone = _run(setup, 1, 1)
    factor = seconds_per_order / alone.processor_used
    times = replace(
        NO_WAITS,
        processor_request=NO_WAITS.processor_request * factor,
        processor_call=NO_WAITS.processor_call * factor,
    )
    model = _run(replace(setup, times=times), CLIENTS, orders)
    return orders / model.env.now


def _run(setup: Setup, clients: int, orders: int) -> Model:
    """Simulate clients that each place one order after the other. The run ends after the last order's last effect."""
    model = Model(setup)
    numbers = iter(range(orders))
    buyer = Buyer(load_traces()["1"], (0,))

    def client() -> Process:
        for number in numbers:
            order = OrderRun(number, buyer)
            yield from model.request(order, "POST /orders")
            yield from model.request(order, "POST /payments/events")
            model.env.process(warehouse(order))

    def warehouse(order: OrderRun) -> Process:
        yield model.env.timeout(1)
        for route in (DISPATCH_ROUTE, DELIVER_ROUTE):
            yield from model.request(order, route)

    for _ in range(clients):
        model.env.process(client())
    model.env.run()
    return model


def compare() -> str:
    """Measure and predict the orders a second of this machine. Return a line of text with both medians."""
    deployment = read_deployment(synthesize_template())
    measured, predicted = [], []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            laptop = LaptopShop(Path(folder) / "state")
            laptop.start()
            try:
                people = DemoClients(laptop.shop())
                place_orders(people, WARM_UP_ORDERS)
                began, used = time.monotonic(), processor_seconds(laptop.state)
                time.sleep(5)
                idle = (processor_seconds(laptop.state) - used) / (time.monotonic() - began)
                began, used = time.monotonic(), processor_seconds(laptop.state)
                place_orders(people, PACED_ORDERS, every_seconds=1)
                busy = processor_seconds(laptop.state) - used - idle * (time.monotonic() - began)
                journal = laptop.state / "journal.sqlite"
                measured.append(BURST_ORDERS / total_seconds(journal, place_orders(people, BURST_ORDERS)))
            finally:
                laptop.stop()
        predicted.append(predict(deployment, busy / PACED_ORDERS, BURST_ORDERS, os.cpu_count() or 1))
    real, model = statistics.median(measured), statistics.median(predicted)
    return f"laptop: {real:.1f} orders a second, predicted {model:.1f}, {model / real - 1:+.0%} (median of {RUNS} runs)"
