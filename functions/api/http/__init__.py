"""HTTP for all routes: router, request checks, input fields, problem answers, paging and the OpenAPI document."""
