"""Tests of `make prove`: its steps, its report and its commands in an account."""
