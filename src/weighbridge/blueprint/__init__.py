"""Blueprints: the tensors and operations of a family as expressions over its config, and their law."""
