"""Puts the two packages into the wheel under the names that other projects import."""

import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
PACKAGES = {
    "aws_conformance": ("proof.conformance", HERE),
    "event_source_mappings": ("local.event_source_mappings", HERE.parents[1] / "local" / "event_source_mappings"),
}
"""The folder of each package in the wheel: its name in this project, and its source."""


class Hook(BuildHookInterface[Any]):
    """Renames the imports of each module. Tests, and the modules of the build, stay out."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files of the wheel. `version`: the kind of the build, which is always the same."""
        self._folder = tempfile.TemporaryDirectory()
        build_data["force_include"][str(HERE.parents[1] / "LICENSE")] = "aws_conformance/LICENSE"
        for package, (_, source) in PACKAGES.items():
            for file in (*source.rglob("*.py"), *source.glob("results.json")):
                name = file.relative_to(source).as_posix()
                if not name.startswith(("test_", "hatch_", "build/")):
                    renamed = Path(self._folder.name) / package / name
                    renamed.parent.mkdir(parents=True, exist_ok=True)
                    text = file.read_text(encoding="utf-8")
                    for new, (old, _) in PACKAGES.items():
                        text = text.replace(old, new)
                    renamed.write_text(text, encoding="utf-8")
                    build_data["force_include"][str(renamed)] = f"{package}/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the renamed files."""
        self._folder.cleanup()
