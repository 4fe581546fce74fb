"""Runs derivations as a user asks for them: one, many, in processes, to files."""
