"""All deployed code. Each module here is one Lambda; `shop`, `model` and `dynamodb` hold the code they share."""

import gc
import os

IN_LAMBDA = "AWS_LAMBDA_FUNCTION_NAME" in os.environ

if IN_LAMBDA:
    # Imported modules are never garbage, and scanning them would take a tenth of the cold start.
    # `wiring.instrument_handler` turns the collector on again.
    gc.disable()
