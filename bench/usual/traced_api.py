"""The API of the conventional shop with Powertools' Tracer. It is a separate module, so that a start of `copies`
imports no resolver."""

from aws_lambda_powertools import Tracer

from bench.usual import api

handler = Tracer(service="usual").capture_lambda_handler(api.handler)
