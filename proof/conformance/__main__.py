"""Play probes: `python -m proof.conformance --model`, --laptop, --moto or --aws, and names of probes."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

from proof.conformance import results
from proof.conformance.probes import PROBES
from proof.conformance.probes.kinds import Probe
from proof.conformance.runners import aws
from proof.conformance.runners.registry import RUNNERS, versions
from proof.support.emulator_endpoint import use_emulator

LOCAL_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the chosen probes, print the result of each, and return the exit code: 1 if a probe differs."""
    parser = argparse.ArgumentParser(prog="python -m proof.conformance", description=__doc__)
    chosen = parser.add_mutually_exclusive_group(required=True)
    for name in (*RUNNERS, "aws"):
        chosen.add_argument(f"--{name}", dest="runner", action="store_const", const=name)
    parser.add_argument("--record", action="store_true", help="store the results in results.json")
    parser.add_argument("--new", action="store_true", help="play only the probes that no runner has played")
    parser.add_argument("--sender", default="", help="for --aws: a mail address that SES has verified")
    parser.add_argument("--endpoint", help="for --aws: the URL of an emulator that answers instead of AWS")
    parser.add_argument("names", nargs="*", metavar="NAME", help="probes to play; default: all")
    options = parser.parse_args(arguments)
    if options.endpoint:
        if options.runner != "aws" or options.record:
            parser.error("--endpoint goes with --aws and without --record: the results are not those of AWS")
        use_emulator(options.endpoint)
    if unknown := set(options.names) - {probe.name for probe in PROBES}:
        parser.error(f"no such probe: {', '.join(sorted(unknown))}")
    if options.runner == "aws" and not aws.has_credentials():
        print("No AWS credentials and region were found, so no probe was played.")
        return 0
    names = results.unplayed(options.names or [probe.name for probe in PROBES]) if options.new else options.names
    found: dict[str, str] = {}
    try:
        for probe, result in _play(options.runner, names, options.sender) if names or not options.new else ():
            found[probe.name] = result
            print(f"{probe.name}: {result}", flush=True)
    finally:
        if options.record:
            results.save(options.runner, versions(options.runner), found)
    return 1 if any(result.startswith(results.DIFFERS) for result in found.values()) else 0


def _play(runner: str, names: Sequence[str], sender: str) -> Iterator[tuple[Probe, str]]:
    probes = [probe for probe in PROBES if not names or probe.name in names]
    if runner == "aws":
        return aws.play(probes, sender)
    os.environ.update(LOCAL_CREDENTIALS)
    return RUNNERS[runner](probes)


if __name__ == "__main__":
    sys.exit(main())
