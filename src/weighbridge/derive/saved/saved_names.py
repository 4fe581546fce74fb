"""What files hold in place of the tensors of a class, generalized from a few configs.

Transformers fuses, splits and renames tensors when it loads a file, and reverts this when it saves
one. For each saved tensor, the name, the shape and the source tensors are known: its name follows
theirs, and its dims follow from theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.saved.old_paths import DIGITS, old_paths
from weighbridge.derive.saved.saved_tensors import saved_tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weighbridge.derive.generalize.draft import Draft
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.reversal import Files
    from weighbridge.derive.probing.subject import Subject
    from weighbridge.derive.saved.saved_tensors import SavedTensor

_MOST_PROBES = 6  # probes without a new tensor: each one costs building and reverting a model
_LARGEST_MODEL = 2000  # tensors in the files of those probes: each expert takes time to revert
_RANK_OF_EXPERTS = 3  # rank of a tensor with the matrices of all experts: one dim counts them
_LONGEST_REASON = 100  # characters of an error that are kept: some errors print whole configs


class SavedNames(NamedTuple):
    """What files hold for a class: the tensors in place of each tensor of the module."""

    stored: dict[str, list[SavedTensor]]
    renamed: dict[str, str]
    """The paths in older files, with their current names."""
    holes: list[str]


def learn_saved(
    subject: Subject, class_name: str, draft: Draft, probes: Sequence[Probe]
) -> SavedNames:
    """Return what files hold for a class; the probes are of this class."""
    chosen = _most_telling(probes)
    files: list[Files] = []
    try:
        with quick_building():
            for probe in chosen:
                in_files = subject.in_files(class_name, probe.changes)
                if in_files is None:
                    return SavedNames({}, {}, [])
                files.append(in_files)
        stored = saved_tensors(draft, chosen, files)
    except Exception as error:  # a conversion that cannot be reverted is a hole; the rest holds
        reason = str(error).strip()[:_LONGEST_REASON]
        hole = f"{class_name}: the contents of files were not derived: {reason}"
        return SavedNames({}, {}, [hole])
    older: dict[str, str] = {}
    for in_files in files:
        older |= in_files.older
    return SavedNames(stored, old_paths(older), [])


def _most_telling(probes: Sequence[Probe]) -> list[Probe]:
    """Return a few probes that show every tensor, small ones first, and the last, most varied ones.

    A tensor with a single expert shows less than a tensor with several.
    """
    seen: set[tuple[str, bool]] = set()
    chosen: list[Probe] = []
    for probe in sorted(probes, key=_weight):
        shown = _shown_by(probe)
        if not shown <= seen:
            seen |= shown
            chosen.append(probe)
    known = set(map(id, chosen))
    others = [
        probe for probe in probes if _weight(probe) < _LARGEST_MODEL and id(probe) not in known
    ]
    return [*chosen, *others[-_MOST_PROBES:]]


def _shown_by(probe: Probe) -> set[tuple[str, bool]]:
    """Return the names of a probe's tensors, without indices, and whether each has several rows."""
    tensors = (*probe.tensors.items(), *probe.buffers.items())
    return {(DIGITS.sub("0", name), tensor.shape[:1] > (1,)) for name, tensor in tensors}


def _weight(probe: Probe) -> int:
    """Return roughly how many tensors files hold: one for each tensor or expert."""
    shapes = [tensor.shape for tensor in probe.tensors.values()]
    experts = [shape[0] for shape in shapes if len(shape) == _RANK_OF_EXPERTS]
    return len(shapes) - len(experts) + sum(experts)
