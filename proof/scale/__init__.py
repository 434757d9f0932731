"""Simulates the deployed shop under load, to find the highest order rate and the AWS limit that stops a higher rate."""
