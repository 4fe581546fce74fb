"""Small torch modules as users write them, one a kind of config, to be derived."""
