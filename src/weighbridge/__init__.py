"""Weigh a Transformer before you load it."""

__version__ = "0.1.0"
