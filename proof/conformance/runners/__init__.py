"""Runners: each plays the probes on one system and returns its observations."""
