"""The version of this project. It is written only in pyproject.toml."""

import tomllib

from tools.locks import PROJECT


def read_version() -> str:
    with (PROJECT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])
