"""Expressions over names: parsed, evaluated, rewritten, written as code.

Knows nothing about models.
"""
