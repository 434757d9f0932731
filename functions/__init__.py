"""Everything that is deployed: each Lambda is a module here; `shop`, `model` and `dynamodb` are what they share."""

import gc
import os

IN_LAMBDA = "AWS_LAMBDA_FUNCTION_NAME" in os.environ

if IN_LAMBDA:
    gc.disable()  # what a start imports stays: to look through it is a tenth of it. `wiring.observed` turns it on again
