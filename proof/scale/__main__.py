"""Compute how many orders a second the deployed shop takes: `make scale`.

`compute` (the default): run the model, store the figures in proof/scale/results.json, and render the pages.
`record`: record all AWS requests for an order again, in proof/scale/traces.json.
`page`: only render docs/scale.md, docs/quotas.md and ops/order_needs.json from the stored figures.
"""

import argparse
import json
import os
import time

from local.world import dynamodb_engine
from proof.scale import recorder, report
from proof.scale.deployment import load_deployment
from proof.support.fixtures import FAKE_AWS_ENVIRONMENT


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m proof.scale", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("record", "compute", "page"), default="compute")
    command, began = parser.parse_args().command, time.monotonic()
    os.environ.update(FAKE_AWS_ENVIRONMENT)
    if command == "record":
        with dynamodb_engine.temporary_engine() as engine:
            text = recorder.to_json(recorder.record_all(engine))
        recorder.TRACES.write_text(text, encoding="utf-8")
        print(f"Written: {recorder.TRACES.name}. Next: make scale.")
        return
    deployment = load_deployment()
    if command == "compute":
        results = report.compute(deployment, lambda line: print(line, flush=True))
        report.RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    files = report.render_files(deployment)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    print(f"Written: {', '.join(path.name for path in files)}, after {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
