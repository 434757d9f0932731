"""The Content-Security-Policy and the Swagger UI of the shop's web page, for AWS and for a laptop."""

from importlib.metadata import distribution
from pathlib import Path

SWAGGER_UI_FOLDER = Path(
    str(distribution("aws-lambda-powertools").locate_file("aws_lambda_powertools/event_handler/openapi/swagger_ui"))
)
"""Powertools' files of Swagger UI. They are served beside the web page's own files, for its API documentation."""


def content_security_policy(**extra_sources: str) -> str:
    """Return the Content-Security-Policy of the web page: its own origin, and `extra_sources` such as connect_src."""
    directives = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    for name, source in extra_sources.items():
        directive = name.replace("_", "-")
        directives[directive] = " ".join(filter(None, [directives.get(directive), source]))
    return "; ".join(f"{directive} {sources}" for directive, sources in directives.items())
