"""The usual way's API, with Tracer: a module of its own, for who starts a reaction does not import a resolver."""

from aws_lambda_powertools import Tracer

from bench.usual import api

handler = Tracer(service="usual").capture_lambda_handler(api.handler)
