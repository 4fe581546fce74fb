"""From what a user typed to a blueprint and a config with a value for every field."""
