"""Clients of other services: S3 objects, mails through SES, and the payment provider."""
