"""Derives what checkpoint files hold in place of a model's tensors."""
