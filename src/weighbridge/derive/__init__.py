"""Derives blueprints: runs reference code on values that remember their expression.

The code is that of transformers or a user's own. It needs torch and NumPy, and for families
transformers: the extra ``derive``. Nothing but the command line imports it.
"""
