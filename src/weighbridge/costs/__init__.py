"""The costs of running a model: pure functions of rows and operations."""
