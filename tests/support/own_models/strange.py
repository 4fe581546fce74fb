"""Modules that go wrong: they sleep, end their process, or need more than a config."""

from __future__ import annotations

import os
import sys
import time

from torch import nn


class Sleeps(nn.Linear):
    def __init__(self, width: int = 8) -> None:
        time.sleep(600)
        super().__init__(width, width)


class Dies(nn.Linear):
    def __init__(self, width: int = 8) -> None:
        os._exit(3)


class Exits(nn.Linear):
    def __init__(self, width: int = 8) -> None:
        sys.exit("no licence")


class Raises(nn.Linear):
    def __init__(self, width: int = 8) -> None:
        raise RuntimeError(f"no GPU\nfor width {width} \x1b[31m")


class Empty(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()


class Talks(nn.Linear):
    """Prints on stdout, where data goes, whenever it is built."""

    def __init__(self, width: int = 8, factor: int = 2) -> None:
        print("made of", width)
        super().__init__(width, factor * width)


class NeedsMore(nn.Linear):
    def __init__(self, config: dict[str, int], index: int) -> None:
        super().__init__(config["width"], index)


CONFIG = {"width": 8}
NUMBER = 3
