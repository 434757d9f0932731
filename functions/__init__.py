"""All deployed code. Each module in `handlers` is one Lambda; the other packages hold the code that they share."""

import gc
import os

IN_LAMBDA = "AWS_LAMBDA_FUNCTION_NAME" in os.environ

if IN_LAMBDA:
    from functions import cold_start

    # The garbage collector is off while modules are imported: scanning them would take a tenth of the cold start, and
    # imported modules are never garbage. `observability.instrument_handler` turns the collector on again.
    gc.disable()
    cold_start.install()
