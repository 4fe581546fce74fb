"""Derives blueprints: runs reference code on values that remember their expression.

The reference code is that of transformers or a user's own. Derivation needs torch and NumPy, and
for families transformers: the extra ``derive``. Only the command line imports this package.
"""
