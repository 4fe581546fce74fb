"""Commands about the devices that a model runs on: devices."""

from __future__ import annotations

from weighbridge.cli.commands import Command
from weighbridge.cli.options import FORMS, Option
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from weighbridge.answers.devices import DeviceList
    from weighbridge.cli.options import Addable

DEVICE_FILE = Option(
    "--device-file",
    metavar="FILE",
    help="a TOML file of your own devices, in the format that `devices --help` describes",
)


def _devices_options() -> Iterable[Addable]:
    return (
        Option(
            "names",
            nargs="*",
            metavar="NAME",
            help="a device (H100, a100-80gb, 4090…): all facts about it, with their sources",
        ),
        DEVICE_FILE.but(
            help="a TOML file of your own devices: for each a table with memory_bytes, bandwidth "
            "(bytes/s) and peaks (FLOP/s by dtype), and if you like usable_bytes, link, network "
            "(bytes/s for each direction) and node",
        ),
        FORMS,
    )


def _devices(options: argparse.Namespace) -> DeviceList:
    from weighbridge.answers.devices import devices

    return devices(*options.names, file=options.device_file)


COMMANDS = {"devices": Command(_devices_options, _devices)}
