"""Reads the sizes that an article states, and finds the model that it is about."""
