"""Play facts about AWS, also on the local shop: `python -m proof.shop_probes --laptop`."""

import os
import sys
from collections.abc import Iterator, Sequence

from proof.conformance.__main__ import RUNNERS, Runner, main
from proof.conformance.probes.kinds import Probe
from proof.conformance.runners.aws import EMULATOR_VARIABLES
from proof.shop_probes import laptop


def play(probes: Sequence[Probe]) -> Iterator[tuple[Probe, str]]:
    """Play probes on the local shop, with credentials that no account knows."""
    os.environ.update(EMULATOR_VARIABLES)
    yield from laptop.play_laptop(probes)


if __name__ == "__main__":
    runners = {**RUNNERS, "laptop": Runner(play, laptop.versions)}
    sys.exit(main(prog="python -m proof.shop_probes", runners=runners))
