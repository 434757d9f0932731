"""The code that all routes share: router, request checks, fields, error responses, paging and OpenAPI document."""
