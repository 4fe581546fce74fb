"""From probes to a draft: which expression gives each size, and when each tensor exists."""
