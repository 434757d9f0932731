"""The texts of mails, rendered from templates."""
