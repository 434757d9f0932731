"""`api` of the usual shop with Powertools' Tracer, in its own module, so that `copies` starts without a resolver."""

from aws_lambda_powertools import Tracer

from bench.usual import api

handler = Tracer(service="usual").capture_lambda_handler(api.handler)
