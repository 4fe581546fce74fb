"""Probes of a subject that were taken before: an exploration asks for many configs again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Subject

_MOST_TENSORS = 200_000  # tensors of the probes that are kept for a subject: about 100 MB


class _EarlierProbes:
    """The results of a subject, by class, changes in their order, and whether labels were kept."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, str, bool], Probe | Exception] = {}
        self._tensors = 0

    def get(self, key: tuple[str, str, bool]) -> Probe | Exception | None:
        return self._results.get(key)

    def add(self, key: tuple[str, str, bool], result: Probe | Exception) -> None:
        """Keep a result, unless the kept ones are large already."""
        size = 1 if isinstance(result, Exception) else len(result.tensors) + len(result.buffers)
        if self._tensors + size <= _MOST_TENSORS:
            self._results[key] = result
            self._tensors += size


_earlier: WeakKeyDictionary[Subject, _EarlierProbes] = WeakKeyDictionary()


def probe_once(
    subject: Subject, class_name: str, changes: Mapping[str, Any], *, labels: bool = True
) -> Probe:
    """Return what `Subject.probe` returns, without running the code on the same config again.

    A run that loads further modules is not kept: those do not compute with values that remember
    before the next run.

    Raises:
        Exception: whatever the code raises on a config that it refuses.
    """
    earlier = _earlier.setdefault(subject, _EarlierProbes())
    key = (class_name, repr(list(changes.items())), labels)
    result = earlier.get(key)
    if result is None:
        modules_before = len(sys.modules)
        try:
            result = subject.probe(class_name, changes, labels=labels)
        except Exception as error:  # whatever a model's own code raises is its way to refuse
            result = error
        if len(sys.modules) == modules_before:
            earlier.add(key, result)
    if isinstance(result, Exception):
        result.__context__ = result.__cause__ = None
        raise result.with_traceback(None)
    return result._replace(changes=changes)


def is_accepted(subject: Subject, class_name: str, changes: Mapping[str, Any]) -> bool:
    """Whether the code builds a config; this does not count as a config that was learned from."""
    try:
        probe_once(subject, class_name, changes, labels=False)
    except Exception:  # whatever a model's own code raises is its way to refuse
        return False
    return True
