"""Reads and checks tables of components."""
