"""Say in one sentence what is missing on this machine: `python -m tools.machine`, which `make setup` runs.

Prints nothing if no part is missing. The exit code is always 0, because most commands work without these parts.
"""

import platform
import shutil
import sys

from local.world.dynamodb_engine import EngineNotInstalled, find_engine_binary

TESTED_PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python that the workflow `ci` runs all tests with."""
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
"""The names under which Chromium is installed, in the order in which the browser tests look for them.

The headless shell comes first, because the tests take half the time with it."""


def missing_parts() -> list[str]:
    """Return a text for each missing part, which names the commands that work without it."""
    found = []
    try:
        find_engine_binary()
    except EngineNotInstalled:
        found.append(
            "the local DynamoDB engine (`make synth` and `make deploy` work, `make up` and `make test` do not)"
        )
    if not any(map(shutil.which, CHROMIUM)):
        found.append("Chromium (all but `make browser` works)")
    if not shutil.which("git"):
        found.append("Git (all but `make release` and `make rehearse-upgrade` works)")
    version = ".".join(platform.python_version_tuple()[:2])
    if version not in TESTED_PYTHONS:
        found.append(f"a tested Python (this is {version}; the tests ran with {', '.join(TESTED_PYTHONS)})")
    return found


def main() -> int:
    if parts := missing_parts():
        print(f"Missing on {sys.platform}-{platform.machine().lower()}: {', and '.join(parts)}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
