"""What Powertools' Tracer adds to the usual way's API: a module of its own, for who starts `copies` imports no
resolver."""

from aws_lambda_powertools import Tracer

from bench.usual import api

handler = Tracer(service="usual").capture_lambda_handler(api.handler)
