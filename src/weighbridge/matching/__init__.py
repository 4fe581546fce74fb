"""Pairs the tensors of a checkpoint with those of a model, and compares them."""
