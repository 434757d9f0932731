"""Mails as text and HTML, rendered from templates. Their texts are in functions/languages."""
