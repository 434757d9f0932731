"""`copies` of the usual shop with Powertools' Tracer, which imports aws_xray_sdk even if it does not trace."""

from aws_lambda_powertools import Tracer

from bench.usual import copies

handler = Tracer(service="usual").capture_lambda_handler(copies.handler)
