"""Judge the results of probes, which check facts about AWS (proof/conformance): which facts differ unexpectedly?"""

from collections.abc import Iterable

from proof.account.outcome import DIFFERS, FAILED, NOT_RUN, OK, Outcome
from proof.conformance import results
from proof.conformance.probes.kinds import Probe


def judge_probes(runner: str, found: Iterable[tuple[Probe, str]]) -> Outcome:
    """Return DIFFERS if a probe differs or did not run, other than recorded; else NOT_RUN if an error stopped one."""
    played: dict[str, str] = {}
    for probe, result in found:
        played[probe.name] = result
        if result != results.OK:
            print(f"{probe.name}: {result}", flush=True)
    recorded = {name: results.recorded(runner, name) for name in played}
    different = [name for name, result in played.items() if result.startswith(results.DIFFERS)]
    listed = tuple(name for name in different if recorded[name].startswith(results.DIFFERS))
    not_run = [name for name, result in played.items() if result.startswith(results.NOT_RUN)]
    lost = [name for name in not_run if recorded[name] and not recorded[name].startswith(results.NOT_RUN)]
    stopped = [name for name in not_run if played[name].startswith(results.STOPPED)]
    as_expected = len(played) - len(different) - len(not_run)
    seen = (
        f"{as_expected} of {len(played)} probes are as expected, {len(different)} differ ({len(listed)} of them are "
        f"listed), {len(not_run)} could not be played"
    )
    passed = OK if not stopped else NOT_RUN
    status = DIFFERS if lost or len(listed) < len(different) else passed if as_expected else FAILED
    return Outcome(status, seen, played, listed)
