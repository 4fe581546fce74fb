"""Infers the family, class and config of a checkpoint that has no config."""
