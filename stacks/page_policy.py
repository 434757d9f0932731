"""What a browser may load for the page and whom it may ask: its Content-Security-Policy, on AWS and on a laptop."""


def content_security_policy(**extra_sources: str) -> str:
    """All of it from the page's own origin, no script or style within a document, no frame around it. `more`: sources
    beside these, by the name of their directive (connect_src)."""
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
