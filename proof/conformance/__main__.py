"""Check how a system differs from AWS: play facts about AWS on the model, on moto, on an emulator, or on AWS."""

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

from proof.conformance import VERSION, board, results
from proof.conformance.probes import PROBES
from proof.conformance.probes.kinds import Probe
from proof.conformance.reproduction import NoReproduction, render_report
from proof.conformance.runners import aws, model, moto


class Runner(NamedTuple):
    """What plays probes on a system, and the versions of the system's software."""

    play: Callable[[Sequence[Probe]], Iterator[tuple[Probe, str]]]
    versions: Callable[[], Mapping[str, str]]


class Refused(Exception):
    """The options do not fit, in one sentence."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


RUNNERS: Mapping[str, Runner] = {
    "model": Runner(model.play_probes, lambda: {"aws-conformance": VERSION}),
    "moto": Runner(moto.play, moto.versions),
}


def main(
    arguments: Sequence[str] | None = None, *, prog: str = "aws-conformance", runners: Mapping[str, Runner] = RUNNERS
) -> int:
    """Play the chosen facts, print each result and the board, and return the exit code: 1 if a fact differs."""
    parser = _Parser(prog=prog, description=__doc__)
    chosen = parser.add_mutually_exclusive_group()
    for name in (*runners, "aws"):
        chosen.add_argument(f"--{name}", dest="runner", action="store_const", const=name)
    chosen.add_argument("--endpoint", metavar="URL", help="the address of an emulator of AWS")
    parser.add_argument("--as", dest="system", metavar="NAME=VERSION", help="for --endpoint: what answers there")
    parser.add_argument("--sender", default="", help="for --aws: a mail address that SES has verified")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")
    parser.add_argument("--badges", type=Path, metavar="DIR", help="write two badges for shields.io")
    parser.add_argument("--reproduce", metavar="NAME", help="print a report of this fact for an issue tracker")
    parser.add_argument("--names", action="store_true", help="print every fact and how it is known")
    parser.add_argument("--record", action="store_true", help="store the results in results.json")
    parser.add_argument("--new", action="store_true", help="play only the facts that no runner has played")
    parser.add_argument("facts", nargs="*", metavar="NAME", help="facts to play; default: all")
    options = parser.parse_args(arguments)
    try:
        return _run(options, runners)
    except (Refused, NoReproduction, aws.NoEmulator, moto.NoMoto) as error:
        parser.error(str(error))


def _run(options: argparse.Namespace, runners: Mapping[str, Runner]) -> int:
    named = [*options.facts, *([options.reproduce] if options.reproduce else [])]
    if unknown := set(named) - {probe.name for probe in PROBES}:
        raise Refused(f"there is no fact {', '.join(sorted(unknown))}: --names prints all facts")
    if options.names:
        for probe in PROBES:
            print(f"{probe.name} ({results.how_known(probe)}): {probe.says}")
        return 0
    system, runner = _choose(options, runners)
    if options.reproduce:
        (probe,) = [probe for probe in PROBES if probe.name == options.reproduce]
        played = (
            {_name(system, runner.versions()): result for _, result in runner.play([probe])}
            if runner
            else _recorded(probe)
        )
        print(render_report(probe, played))
        return 0
    if not runner:
        print("No AWS credentials and region were found, so no fact was played.")
        return 0
    names = results.unplayed(options.facts or [probe.name for probe in PROBES]) if options.new else options.facts
    probes = [probe for probe in PROBES if probe.name in names or not (names or options.new)]
    return _play(options, system, runner, probes)


def _choose(options: argparse.Namespace, runners: Mapping[str, Runner]) -> tuple[str, Runner | None]:
    """Return the name of the chosen system and its runner, or None if there are no credentials, or for --reproduce."""
    if options.system and not options.endpoint:
        raise Refused("--as names what answers at --endpoint")
    if options.endpoint:
        if options.record and not options.system:
            raise Refused("--record needs --as NAME=VERSION")
        aws.use_emulator(options.endpoint)
        name, _, version = (options.system or "emulator").partition("=")
        return name, Runner(partial(aws.play, endpoint=options.endpoint), lambda: {name: version} if version else {})
    if options.runner == "aws":
        play = Runner(partial(aws.play, sender=options.sender), lambda: {"boto3": importlib.metadata.version("boto3")})
        return "aws", play if aws.has_credentials() else None
    if not options.runner and not options.reproduce:
        raise Refused("choose a system: " + ", ".join(f"--{name}" for name in (*runners, "endpoint URL", "aws")))
    return options.runner or "", runners.get(options.runner)


def _play(options: argparse.Namespace, system: str, runner: Runner, probes: Sequence[Probe]) -> int:
    found: dict[str, str] = {}
    versions = runner.versions()
    try:
        for probe, result in runner.play(probes) if probes else ():
            found[probe.name] = result
            print(f"{probe.name}: {result}", flush=True)
    finally:
        if options.record:
            results.save(system, versions, found)
    print(board.render_board(found))
    if options.json:
        document = json.dumps(board.build_document(system, versions, found), indent=1)
        options.json.write_text(document + "\n", encoding="utf-8")
    if options.badges:
        board.write_badges(options.badges, found)
    return 1 if any(result.startswith(results.DIFFERS) for result in found.values()) else 0


def _recorded(probe: Probe) -> dict[str, str]:
    """Return the recorded results of a probe by system."""
    loaded = results.load()
    return {
        _name(system, one["versions"]): one["results"][probe.name]
        for system, one in loaded.items()
        if probe.name in one["results"]
    }


def _name(system: str, versions: Mapping[str, str]) -> str:
    return " ".join([system, *sorted(versions.values())])


if __name__ == "__main__":
    sys.exit(main(prog="python -m proof.conformance"))
