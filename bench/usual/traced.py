"""What Powertools' Tracer adds to the usual way's `copies`: it is imported, with aws_xray_sdk, whether it traces or
not."""

from aws_lambda_powertools import Tracer

from bench.usual import copies

handler = Tracer(service="usual").capture_lambda_handler(copies.handler)
