"""Helpers of the proof and of the tests: clients, actors, sample items, and the fixtures of all tests."""
