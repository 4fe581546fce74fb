"""What running a model costs: pure functions of rows and operations."""
