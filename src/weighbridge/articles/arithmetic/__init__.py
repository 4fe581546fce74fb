"""Finds the expressions of an article, and checks its statements with exact arithmetic."""
