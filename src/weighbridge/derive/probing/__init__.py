"""Runs reference code on values that remember where they came from."""
