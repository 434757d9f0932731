"""The page's Content-Security-Policy, on AWS and on a laptop."""


def content_security_policy(**extra_sources: str) -> str:
    """Allow only the page's own origin: no inline scripts or styles, and no embedding in frames.

    `extra_sources`: more sources, by directive name (connect_src).
    """
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
