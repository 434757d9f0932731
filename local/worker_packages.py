"""Imports what functions import, once for all of their processes. Run by the fork server of local/forked_workers.py.

Only packages: the functions' own modules are those that were deployed, and each process imports them itself.
"""

import gc
import importlib

PACKAGES = (
    "aws_lambda_powertools.event_handler.middlewares.openapi_validation",
    "aws_lambda_powertools.logging",
    "aws_lambda_powertools.metrics",
    "boto3",
    "botocore.config",
    "jinja2",
    "pydantic.deprecated.config",
    "pydantic.json_schema",
    "pydantic.type_adapter",
    "zoneinfo",
)

for package in PACKAGES:
    importlib.import_module(package)
gc.freeze()  # what the collector never touches stays shared
