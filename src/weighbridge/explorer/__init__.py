"""The explorer: one contract in JSON of a weighed model, and the page that draws it."""
