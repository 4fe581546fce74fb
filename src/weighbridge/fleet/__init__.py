"""Many models at once: sweeps over sizes, and scans of folders full of checkpoints."""
