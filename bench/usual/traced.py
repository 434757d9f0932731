"""The usual way's functions as AWS's samples deploy them: with Tracer, which is imported whether it traces or not."""

from aws_lambda_powertools import Tracer

from bench.usual import reactions

tracer = Tracer(service="usual")
copies = tracer.capture_lambda_handler(reactions.copies)
publish = tracer.capture_lambda_handler(reactions.publish)
fulfil = tracer.capture_lambda_handler(reactions.fulfil)
notify = tracer.capture_lambda_handler(reactions.notify)
archive = tracer.capture_lambda_handler(reactions.archive)
