"""Small torch modules as users write them, one for each kind of config, to be derived."""
