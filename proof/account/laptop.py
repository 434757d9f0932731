"""The steps of `make prove` on this machine, in a local shop with its own folder, ports and processes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from itertools import chain

from local.laptop.load_test import check_mails
from local.laptop.own_shop import run_own_shop
from local.laptop.shop_client import PROJECT, RunningShop
from local.laptop.shop_target import local_target
from ops.targets import ShopTarget
from proof.account import shop_steps
from proof.account.outcome import OK, Outcome, StepFailed
from proof.account.probes import judge_probes
from proof.conformance.probes import PROBES
from proof.conformance.runners.aws import EMULATOR_VARIABLES
from proof.shop_probes.laptop import play_laptop, play_patterns

REHEARSAL = ("-m", "pytest", "-m", "rehearsal", "-rs", "-o", "faulthandler_timeout=0", "tests/laptop/test_upgrade.py")


class LocalTarget:
    """This machine as the target of a proof. `running`: the local shop, after the step `deploy` has started it."""

    name = "laptop"
    effect_seconds, expiry_seconds, drift_pause_seconds = 50.0, 120.0, 3.0
    poll_seconds = 0

    def __init__(self, *, orders: int = 100) -> None:
        self.orders = orders
        self.started = ExitStack()
        self.running: RunningShop | None = None

    @property
    def shop(self) -> ShopTarget:
        return local_target(self._shop)

    @property
    def api_url(self) -> str:
        return self._shop.api_url

    @property
    def _shop(self) -> RunningShop:
        assert self.running is not None
        return self.running


def start(target: LocalTarget) -> Outcome:
    """Start the shop without its simulated warehouse. The steps that need a warehouse act as the warehouse."""
    target.running = target.started.enter_context(run_own_shop("--no-warehouse", "-c", "canary_minutes=5"))
    return Outcome(OK, "the synthesized template and the real handlers run in processes of their own")


def burst(target: LocalTarget) -> Outcome:
    """Place and pay many orders at the same time, and check also that the local SES sent no mail twice."""
    assert target.running is not None
    aws = target.running.aws
    return shop_steps.burst(target, lambda placed: check_mails(aws, placed))


def rehearse_upgrade(_: LocalTarget) -> Outcome:
    """Run `make rehearse-upgrade`: an upgrade with a migration, and its rollback, while customers order."""
    done = subprocess.run([sys.executable, *REHEARSAL], cwd=PROJECT, check=False, stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    if done.returncode:
        raise StepFailed("the rehearsal failed: see its output above")
    return Outcome(OK, "the upgrade to a version with a migration and its rollback, with orders all the time")


def play_probes(_: LocalTarget) -> Outcome:
    """Run every probe (a check of a fact about AWS) on the parts of the local shop."""
    os.environ.update(EMULATOR_VARIABLES)
    return judge_probes("laptop", chain(play_laptop(PROBES), play_patterns()))


def stop(target: LocalTarget) -> Outcome:
    target.running = None
    target.started.close()
    return Outcome(OK, "the shop and its files are deleted")
