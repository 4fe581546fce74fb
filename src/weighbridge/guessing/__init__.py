"""From a checkpoint without a config to its family, class and config."""
