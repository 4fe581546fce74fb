"""``python -m weighbridge`` is ``weighbridge``."""

from weighbridge.cli import run

raise SystemExit(run())
