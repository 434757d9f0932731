"""Everything that is deployed: each Lambda is a module here; `shop`, `model` and `dynamodb` are what they share."""

import gc
import os

IN_LAMBDA = "AWS_LAMBDA_FUNCTION_NAME" in os.environ

if IN_LAMBDA:
    # What a start imports stays: to look through it would be a tenth of the start. `wiring.instrument_handler` turns
    # the collector on again.
    gc.disable()
