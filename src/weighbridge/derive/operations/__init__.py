"""Records what a class does when it runs, and derives expressions for it."""
