"""Which tensor of a checkpoint is which tensor of a model, and where the two differ."""
