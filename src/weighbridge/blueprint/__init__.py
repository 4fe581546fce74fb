"""Blueprints: a family's tensors as expressions over its config, their law, and operations."""
