"""The conventions by which people count parameters, and which of them give a published number."""
