"""Records in which order the modules of a class run, and what flows between them."""
