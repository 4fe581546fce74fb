"""How a task class is built on the base class: under which prefix, and without which parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.derive.generalize.draft import predicted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weighbridge.derive.learning import Learned
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Subject


class Kinship(NamedTuple):
    """The entries of a blueprint that relate a class to the base, and the tensors it adds."""

    entries: dict[str, Any]
    added: list[str]

    @property
    def on_base(self) -> bool:
        """Whether the class holds the base class."""
        return "base" not in self.entries


class _Prediction(NamedTuple):
    """What the base class predicts for a task class on one config, by name in the task class."""

    shapes: dict[str, tuple[int, ...]]
    ties: dict[str, str]


def kinship_of(subject: Subject, base: Learned, task: Learned) -> Kinship:
    """Return how a task class is built on the base class."""
    prefix = subject.prefix(task.class_name)
    prefixes = [""]
    if prefix:
        prefixes.insert(0, f"{prefix}.")
    for inside in prefixes:
        if kinship := _kinship_under(inside, base, task):
            return kinship
    return Kinship({"base": False}, list(task.draft.tensors))


def _kinship_under(inside: str, base: Learned, task: Learned) -> Kinship | None:
    """Return how a task class is built on the base under this prefix; None if it is not."""
    predictions = [(probe, _prediction(base, probe, inside)) for probe in task.probes]
    missing = _missing_by_template(base, predictions, inside)
    added = _added_templates(task, predictions)
    if missing is None or added is None or all(missing.values()):
        return None
    absent = {template for template, is_missing in missing.items() if is_missing}
    entries: dict[str, Any] = {}
    if inside:
        entries["prefix"] = inside[:-1]
    if paths := _shortest_paths(absent, set(base.draft.tensors)):
        entries["without"] = paths
    return Kinship(entries, [name for name in task.draft.tensors if name in added])


def _prediction(base: Learned, probe: Probe, inside: str) -> _Prediction:
    shapes, ties = predicted(base.draft, probe.fields)
    return _Prediction(
        {inside + name: shape for name, shape in shapes.items()},
        {inside + name: inside + target for name, target in ties.items()},
    )


def _missing_by_template(
    base: Learned, predictions: Iterable[tuple[Probe, _Prediction]], inside: str
) -> dict[str, bool] | None:
    """Return whether the task class lacks each tensor of the base, by the base's template.

    None if it holds a tensor with another shape or tie, or lacks one on some configs only.
    """
    missing: dict[str, bool] = {}
    for probe, expected in predictions:
        for name, shape in expected.shapes.items():
            template = base.draft.template(name.removeprefix(inside))
            tensor = probe.tensors.get(name)
            if missing.setdefault(template, tensor is None) != (tensor is None):
                return None
            if tensor is None:
                continue
            if (tensor.shape, tensor.tied_to) != (shape, expected.ties.get(name)):
                return None
    return missing


def _added_templates(
    task: Learned, predictions: Iterable[tuple[Probe, _Prediction]]
) -> set[str] | None:
    """Return the templates of the tensors that the task class adds to the base.

    None if the tensors of one template belong to the base on some configs only.
    """
    is_added: dict[str, bool] = {}
    for probe, expected in predictions:
        for name in probe.tensors:
            template = task.draft.template(name)
            is_new = name not in expected.shapes
            if is_added.setdefault(template, is_new) != is_new:
                return None
    return {template for template, added in is_added.items() if added}


def _shortest_paths(absent: set[str], templates: set[str]) -> list[str]:
    """Return the fewest paths that contain the absent templates and no others."""
    paths: list[str] = []
    for template in sorted(absent):
        pieces = template.split(".")
        for depth in range(1, len(pieces) + 1):
            path = ".".join(pieces[:depth])
            under_path = {name for name in templates if f"{name}.".startswith(f"{path}.")}
            if under_path <= absent:
                if path not in paths:
                    paths.append(path)
                break
    return paths
