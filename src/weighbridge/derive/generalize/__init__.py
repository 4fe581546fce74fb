"""From probes to a draft: which expression gives each size, and on what condition a tensor exists."""
