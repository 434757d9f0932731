"""The router of the API, with all routes of the modules in functions/api/routes."""

import os

from functions.api.http.context import reject_unknown_ids
from functions.api.http.router import ApiResolver, Route
from functions.api.route_table import ROUTES

app = ApiResolver([Route(*route) for route in ROUTES])
app.use(middlewares=[reject_unknown_ids])

# If Lambda starts before the first request (SnapStart, provisioned concurrency), no request waits for these imports.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand") != "on-demand":
    app.load_all()
