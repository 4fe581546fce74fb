"""Reads and checks printouts of models."""
