"""Rotates the secrets as docs/runbooks/rotate-secrets.md says, but sometimes before the caches have expired."""

import json
from dataclasses import dataclass
from functools import partial

from functions.runtime.secrets import SECRET_CACHE_SECONDS
from proof.simulation.provider import SimulatedProvider
from proof.simulation.rng import SeededRandom
from proof.simulation.scheduler import VirtualScheduler
from proof.simulation.services import SimulatedSecrets

WEBHOOK_SECRET, PROVIDER_KEY = "webhook secret", "provider key"
MAX_SWITCH_SECONDS = 2.0 * SECRET_CACHE_SECONDS
"""The longest time until the provider uses only the new value. Some caches may expire later."""


@dataclass
class SecretRotations:
    """Writes new values of the webhook's secret and of the provider's key, and makes the provider use them."""

    tasks: VirtualScheduler
    rng: SeededRandom
    secrets: SimulatedSecrets
    provider: SimulatedProvider
    names: dict[str, str]

    def begin(self, kind: str) -> None:
        """Write a new value next to the old one, and let the provider use only the new one up to ten minutes later."""
        new, known_at = f"{kind} of {self.tasks.now}", self.tasks.now + SECRET_CACHE_SECONDS
        if kind == WEBHOOK_SECRET:
            self._write_webhook_secrets(new, self.provider.signing_secret)
            switch = partial(self.provider.sign_with, new, known_at)
        else:
            self.secrets.write(self.names[kind], new)
            self.provider.accepted_keys.add(new)
            switch = partial(self.provider.revoke_other_keys, new)
        self.tasks.call_later(MAX_SWITCH_SECONDS * self.rng.random("switch", kind, self.tasks.now), switch)

    def end(self, kind: str) -> None:
        """Remove the old value of the webhook's secret. The provider's key has only one stored value."""
        if kind == WEBHOOK_SECRET:
            self._write_webhook_secrets(self.provider.signing_secret, "")

    def _write_webhook_secrets(self, current: str, previous: str) -> None:
        self.secrets.write(self.names[WEBHOOK_SECRET], json.dumps({"current": current, "previous": previous}))
