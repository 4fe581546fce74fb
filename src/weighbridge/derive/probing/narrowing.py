"""Narrows a config that a draft gets wrong down to the changes that matter.

A random config changes a dozen fields, and many conditions fit it by chance. The smallest config
near it that is still wrong, and the configs beside that one that are right, leave few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.derive.generalize.draft import Draft
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.state import Changes, Exploration


def narrow(exploration: Exploration, draft: Draft, probe: Probe) -> list[Probe]:
    """Return a probe that a draft gets wrong, the smallest wrong one near it, and right ones.

    The right ones have one change less than the smallest wrong one: each shows that a change
    matters.
    """
    smallest = probe
    for path in _fields_changed(exploration, probe):
        near = exploration.try_out(_with_one_less(exploration, smallest, path), labels=False)
        if near is not None and not draft.gives(near):
            smallest = near
    if smallest is probe:
        return [probe, *_right_beside(exploration, draft, probe)]
    labelled = exploration.try_out(smallest.changes)
    if labelled is None:
        return [probe]
    return [probe, labelled, *_right_beside(exploration, draft, labelled)]


def _right_beside(exploration: Exploration, draft: Draft, probe: Probe) -> Iterator[Probe]:
    """Yield the configs with one change less that a draft gets right."""
    for path in _fields_changed(exploration, probe):
        near = exploration.try_out(_with_one_less(exploration, probe, path))
        if near is not None and draft.gives(near):
            yield near


def _fields_changed(exploration: Exploration, probe: Probe) -> list[str]:
    """Return the fields that a config changes beside those that make the model small."""
    base = exploration.findings.base
    return [
        path
        for path, value in probe.changes.items()
        if path not in base or repr(base[path]) != repr(value)
    ]


def _with_one_less(exploration: Exploration, probe: Probe, path: str) -> Changes:
    """Return the changes of a probe with one field as in the base."""
    changes = {name: value for name, value in probe.changes.items() if name != path}
    base = exploration.findings.base
    if path in base:
        changes[path] = base[path]
    return changes
