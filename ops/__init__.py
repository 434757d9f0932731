"""The operator tools: commands that inspect and repair a deployed or local shop, with the Lambdas' code and rules."""
