"""The waist: a blueprint bound to a config becomes rows, and every answer is a fold over rows."""
