"""What files hold in place of the tensors of a class, generalized from a few configs.

Transformers fuses, splits and renames tensors when it loads a file, and turns that back when it
saves one. What it saves is known by name and shape, with the tensors that each is made of: its name
follows theirs, and its dims come of theirs.
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

_MOST_PROBES = 6  # of those that show no new tensor: each costs a model that is built and reverted
_LARGEST_MODEL = 2000  # tensors of files, of those probes: reverting takes time with each expert
_RANK_OF_EXPERTS = 3  # of a tensor with the matrices of all experts: one dim counts them
_LONGEST_REASON = 100  # characters of an error that are kept: some errors print whole configs


class SavedNames(NamedTuple):
    """What files hold of a class: its tensors, by the module's tensor that each stands for."""

    stored: dict[str, list[SavedTensor]]
    renamed: dict[str, str]
    """The paths of older files, with what each is now."""
    holes: list[str]


def learn_saved(
    subject: Subject, class_name: str, draft: Draft, probes: Sequence[Probe]
) -> SavedNames:
    """Return what files hold of a class, of which these are probes."""
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
    """Return a few probes that show every tensor, small ones first, and the last, most mixed ones.

    A tensor that holds one expert only says less than one that holds several.
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
    """Return the names of a probe's tensors, indices alike, and whether each has several rows."""
    tensors = (*probe.tensors.items(), *probe.buffers.items())
    return {(DIGITS.sub("0", name), tensor.shape[:1] > (1,)) for name, tensor in tensors}


def _weight(probe: Probe) -> int:
    """Return about how many tensors files hold: one for each tensor, or each expert in one."""
    shapes = [tensor.shape for tensor in probe.tensors.values()]
    experts = [shape[0] for shape in shapes if len(shape) == _RANK_OF_EXPERTS]
    return len(shapes) - len(experts) + sum(experts)
