"""The cost of a run, computed from recorded operations: FLOPs, saved tensors, bytes moved."""

from __future__ import annotations

from functools import cached_property

from weighbridge import units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.images import NO_IMAGES, images_of_run
from weighbridge.answers.recorded import (
    beyond_positions,
    check_positions,
    check_size,
    learned_positions,
    recorded,
    recorded_dtype,
)
from weighbridge.costs import costs
from weighbridge.costs.attribution import Attribution
from weighbridge.costs.figures import BYTES, FLOPS, MOVED, OF_CHECKPOINTING, OF_TRAINING
from weighbridge.costs.profiles import PROFILES, USUAL, nearest_profile, profile_called
from weighbridge.errors import ModelError, UsageError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.ledger.ledger import arrays_misfit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.answers.data_table import DataTable
    from weighbridge.answers.images import Images
    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.blueprint.operations import Operation
    from weighbridge.models.find import Described
    from weighbridge.render.document import Document

GROUPINGS = ("component", "layer", "operation")
SEQUENCE = 128
"""The tokens in each sequence, if neither a sequence nor a step is asked for."""
_CHECKPOINTING = "gradient_checkpointing"


class Run(NamedTuple):
    """How a class is run: sizes, the profile of its kernels, its dtype, and whether it is trained.

    ``sequence`` is None if only a step is asked for, and ``past`` is None without a step. A decoder
    reads ``target`` tokens beside those of its encoder. Each sequence has ``images`` among its
    tokens, of ``patches`` each if its size is not the config's; None if none are asked for.
    """

    batch: int
    sequence: int | None
    target: int | None
    past: int | None
    profile: str
    dtype: str
    training: bool
    images: int | None = None
    patches: int | None = None

    @property
    def names(self) -> dict[str, Any]:
        """The values of the names of a run in expressions; F16 has the operations of BF16."""
        return {
            "batch": self.batch,
            "sequence": self.sequence or 1,
            "target": self.target or self.sequence,
            "past": self.past or self.sequence,
            "images": self.images or 0,
            "patches": self.patches or 0,
            **PROFILES[self.profile].names,
            "dtype": recorded_dtype(self.dtype),
            "training": self.training,
        }


def cost(  # noqa: PLR0913  # each is a word of its own for the user
    model: Described,
    class_name: str | None = None,
    *,
    batch: int = 1,
    sequence: int | None = None,
    target: int | None = None,
    train: bool = False,
    past: int | None = None,
    decode: bool = False,
    images: int | None = None,
    image_size: tuple[int, int] | None = None,
    profile: str | None = None,
    dtype: str | None = None,
    fields: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> RunCost:
    """Compute what a run of a model takes, without running it: FLOPs, bytes saved, bytes moved.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`; its operations must be recorded.
        batch: the sequences in a batch.
        sequence: the tokens in each sequence, with those of its images; by default 128 beside its
            images, or as many as it has positions, and none if only a step is asked for.
        target: the tokens that the decoder of an encoder-decoder reads; by default as many as its
            encoder.
        train: with a backward pass, and what is saved for it, with and without checkpointing.
        past: the tokens in the cache before the step.
        decode: with a step: one more token for each sequence, after ``past`` tokens.
        images: the images in each sequence, of a model that reads images among its tokens.
        image_size: their height and width in pixels, of a model that reads images of any size.
        profile: the kernels: ``"cuda-flash"``, the default, ``"cuda-math"``, ``"cuda-eager"``,
            ``"cpu"`` or ``"cpu-eager"``.
        dtype: the dtype of weights and activations; by default as for `weigh`.
        fields: config fields to replace.
        strict: as for `weigh`.

    Raises:
        UsageError: a size, the dtype or the profile makes no sense, or a step lacks ``past``.
        ModelError: there is no such model, or no operations are recorded that hold for it.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> llama = cost("meta-llama/Llama-3.1-8B", sequence=2048, train=True)
        >>> llama.forward_matmul_flops, llama.saved_for_backward_bytes
        (32938104193024, 14281122572)
    """
    sizes = {"batch": batch, "seq": sequence, "target": target, "past": past, "images": images}
    _check_run(sizes, decode=decode)
    found = recorded(model, class_name, fields=fields, dtype=dtype, strict=strict)
    shown = images_of_run(found, images, image_size)
    if sequence is None and not decode:
        sequence = usual_tokens(found, shown.tokens)
    shown.check_room({"seq": sequence, "past": past})
    dtype, chosen, notes = kernels_of_run(found, profile, training=train)
    if decode and not found.has("step"):
        raise ModelError(
            f"{found.class_name} has no step with a cache in its operations", hint="drop --decode"
        )
    _check_lengths(found, sequence, target, train=train)
    if past is not None:
        check_positions(found, "past", past, after=1)
    sizes_of_images = (shown.number, shown.patches)
    run = Run(batch, sequence, target, past, chosen, dtype, train, *sizes_of_images)
    return RunCost(found, run, notes, shown)


def usual_tokens(found: RecordedModel, of_images: int = 0) -> int:
    """Return the tokens of a sequence if none are given, as many as the model has positions for.

    Example:
        >>> usual_tokens(recorded("llama")), usual_tokens(recorded("clip"))
        (128, 77)
    """
    return min([SEQUENCE + of_images, *learned_positions(found).values()])


def _check_run(sizes: Mapping[str, int | None], *, decode: bool) -> None:
    for name, size in sizes.items():
        if size is not None:
            check_size(name, size)
    past = sizes["past"]
    if decode and past is None:
        raise UsageError(
            "--decode needs --past", hint="add --past with the number of tokens in the cache"
        )
    if past is not None and not decode:
        raise UsageError("--past needs --decode", hint="add --decode, or drop --past")


def _check_lengths(
    found: RecordedModel, sequence: int | None, target: int | None, *, train: bool
) -> None:
    """Refuse lengths that the class does not have, or was not recorded with."""
    if target is not None and not found.uses("target"):
        raise UsageError(
            f"{found.class_name} has no decoder beside an encoder",
            values={"target": target},
            hint="drop --target",
        )
    if found.uses("target") and sequence is None:
        raise UsageError(
            f"{found.class_name} also reads the tokens of its encoder",
            hint="add --seq with their number",
        )
    if target is not None:
        check_positions(found, "target", target)
    if sequence is None or not found.uses("sequence"):
        return
    check_positions(found, "seq", sequence)
    if train and sequence == 1:
        raise UsageError(
            "training on one token was not recorded: there is nothing to predict",
            values={"seq": sequence},
            hint="give --seq 2 or more",
        )


def kernels_of_run(
    found: RecordedModel, profile: str | None, *, training: bool
) -> tuple[str, str, tuple[str, ...]]:
    """Return the dtype and the profile of a run, and notes on the profile.

    Flash attention, if it is not asked for, is left out of a training step with heads that it pads
    or does not take.

    Raises:
        UsageError: there is no such profile, or its kernels do not take the dtype.
        ModelError: the operations are not recorded with it, nor with any that is near.
    """
    if profile is not None:
        profile_called(profile)
    dtype = _dtype_of_run(found)
    return (dtype, *_profile_of_run(found, profile, dtype, training=training))


def _dtype_of_run(found: RecordedModel) -> str:
    dtype = found.weighing.ledger.dtype
    taken = PROFILES["cuda-eager"].dtypes
    if dtype not in taken:
        raise UsageError(
            "operations are not recorded in this dtype",
            values={"dtype": dtype},
            hint=f"use --dtype with {', '.join(taken[:-1])} or {taken[-1]}",
        )
    return dtype


def _profile_of_run(
    found: RecordedModel, asked: str | None, dtype: str, *, training: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the profile of a run, and a note if it is not the one that was asked for."""
    wanted, family = asked or USUAL, found.known.family
    takes = dtype in PROFILES[wanted].dtypes
    if asked and not takes:
        raise UsageError(
            f"the kernels of {asked} take no {dtype}",
            values={"profile": asked, "dtype": dtype},
            hint="use --dtype bf16, or --profile cuda-math",
        )
    profiles = found.profiles
    takes_heads = bool(asked) or not training or found.fits_flash()
    if not takes_heads:
        profiles = [name for name in profiles if PROFILES[name].attention != "flash"]
    chosen = nearest_profile(wanted, profiles, dtype)
    if chosen is None:
        raise ModelError(
            f"the operations of {family} are not recorded for these kernels",
            values={"profile": wanted},
            hint=f"use --profile with {' or '.join(found.profiles)}",
        )
    if chosen == wanted:
        return chosen, ()
    why = f"{family} has no operations recorded with {wanted}"
    if not takes:
        why = f"the kernels of {wanted} take no {dtype}"
    elif not takes_heads:
        why = "flash attention does not take heads of this width as they are"
    return chosen, (f"{why}; those of {chosen} are taken",)


class CostGroup(NamedTuple):
    """A component, a layer or an operation, with the figures of its operations by name."""

    name: str
    figures: dict[str, int]


class RunCost(TabularAnswer):
    """What `cost` returns.

    Each figure is an integer, or None where the run does not concern it. ``text()`` and its kind
    take ``lang``, ``by``, one of ``"component"``, ``"layer"`` and ``"operation"``, and ``formula``,
    which adds each total as a formula in letters.

    Example:
        >>> bert = cost("bert-base-chinese", sequence=512)
        >>> bert.forward_matmul_flops, bert.backward_matmul_flops
        (96637943808, None)
        >>> bert.records(by="component")[0]["component"]
        'attention'
    """

    groupings = GROUPINGS

    def __init__(
        self,
        found: RecordedModel,
        run: Run,
        notes: Iterable[str] = (),
        shown: Images = NO_IMAGES,
    ) -> None:
        self.found, self.run, self._notes, self._shown = found, run, tuple(notes), shown
        self.names = found.names(**run.names)

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read, on the kernels and on the positions."""
        tokens = max(self.run.target or self.run.sequence or 0, (self.run.past or -1) + 1)
        notes = [*self.found.notes, *self._notes, *self._shown.notes()]
        notes += beyond_positions(self.found, tokens)
        if self.found.uses("choices"):
            notes.append(f"each sequence is given with {self.names['choices']} choices")
        if self.run.training and self.found.weighing.model.given.get(_CHECKPOINTING) is True:
            notes.append(
                "the config turns gradient checkpointing on: transformers then keeps the bytes "
                "saved with checkpointing"
            )
        return notes

    @cached_property
    def operations(self) -> dict[str, list[Operation]]:
        """The operations of each kind that the run concerns."""
        kinds = []
        if self.run.sequence is not None:
            kinds.append("forward")
        if self.run.training:
            kinds += OF_TRAINING
        if self.run.past is not None:
            kinds.append("step")
        if not self.found.has("checkpointed"):
            kinds = [kind for kind in kinds if kind not in OF_CHECKPOINTING]
        return {kind: self.found.bind(kind, self.names) for kind in kinds}

    @cached_property
    def figures(self) -> dict[str, int | None]:
        """Every figure by its name in JSON."""
        names = (*FLOPS.values(), *BYTES.values(), *MOVED.values())
        known = self._figures(self.operations)
        found: dict[str, int | None] = {name: known.get(name) for name in names}
        found |= {f"{kind}_attention_flops": self._attention(kind) for kind in ("forward", "step")}
        found["cache_bytes"] = self.cache_bytes
        found["weight_bytes"] = self.weight_bytes
        return found

    def _figures(self, operations: Mapping[str, Iterable[Operation]]) -> dict[str, int]:
        """Return the figures of some operations, given by kind."""
        figures = {}
        for kind, found in operations.items():
            of_kind = list(found)
            if kind in BYTES:
                dtype = self.run.dtype
                figures[BYTES[kind]] = costs.saved_for_backward_bytes(of_kind, dtype)
                continue
            figures[FLOPS[kind]] = costs.matmul_flops(of_kind)
            if kind in MOVED:
                figures[MOVED[kind]] = self._moved(of_kind)
        return figures

    def _moved(self, products: list[Operation]) -> int:
        others = sum(map(self.attribution.elements_of_others, products))
        moved = costs.moved_bytes(products, self.run.dtype)
        return moved + units.stored_bytes(others, self.run.dtype)

    def _attention(self, kind: str) -> int | None:
        """Return the FLOPs of products in modules that hold no matrix."""
        if kind not in self.operations:
            return None
        has_matrix = self.attribution.has_matrix
        return costs.matmul_flops(
            product for product in self.operations[kind] if not has_matrix(product.path)
        )

    @cached_property
    def attribution(self) -> Attribution:
        """The component and the layer of each operation."""
        return Attribution(self.found.weighing.ledger)

    @property
    def forward_matmul_flops(self) -> int | None:
        """The FLOPs of the forward pass; None if only a step is asked for."""
        return self.figures["forward_matmul_flops"]

    @property
    def backward_matmul_flops(self) -> int | None:
        """The FLOPs of the backward pass; None without training."""
        return self.figures["backward_matmul_flops"]

    @property
    def recomputed_flops(self) -> int | None:
        """The FLOPs that the backward pass computes again if layers are checkpointed."""
        return self.figures["recomputed_flops"]

    @property
    def step_matmul_flops(self) -> int | None:
        """The FLOPs of one more token for each sequence; None without a step."""
        return self.figures["step_matmul_flops"]

    @property
    def saved_for_backward_bytes(self) -> int | None:
        """The bytes that the forward pass saves for the backward pass; None without training."""
        return self.figures["saved_for_backward_bytes"]

    @property
    def checkpointed_bytes(self) -> int | None:
        """The bytes that it saves if layers are checkpointed."""
        return self.figures["checkpointed_bytes"]

    @property
    def moved_bytes(self) -> int | None:
        """The bytes that the products of the forward pass move, or those of the step alone.

        Each product reads both factors and writes its result once. Elementwise operations are not
        counted.
        """
        if self.run.sequence is None:
            return self.figures["step_moved_bytes"]
        return self.figures["moved_bytes"]

    @property
    def arithmetic_intensity(self) -> float | None:
        """The FLOPs for each byte moved, of the forward pass, or of the step alone."""
        flops = self.forward_matmul_flops
        if self.run.sequence is None:
            flops = self.step_matmul_flops
        if not flops or not self.moved_bytes:
            return None
        return flops / self.moved_bytes

    @property
    def cache_bytes(self) -> int | None:
        """The bytes of the cache after the step, or after the sequence; None in training."""
        kind = "stepped"
        if self.run.past is None:
            kind = "prefilled"
        has_none = self.run.training and self.run.past is None
        if has_none or not self.found.has(kind):
            return None
        held = self.found.bind(kind, {**self.names, "training": False})
        return costs.saved_for_backward_bytes(held, self.run.dtype)

    @property
    def weight_bytes(self) -> int:
        """The bytes of the unique parameters in the dtype of the run."""
        ledger = self.found.weighing.ledger
        return units.stored_bytes(ledger.parameters, self.run.dtype)

    def sweep(self, *, batch: Any = None, sequence: Any = None, past: Any = None) -> dict[str, Any]:
        """Return the figures of the run at other sizes; NumPy arrays give arrays.

        What is not given stays as it is. The same expressions are evaluated as for one size, so
        each element is what `cost` gives there. Bytes moved are left out if one weight holds
        several experts: the tokens decide which are used.

        Raises:
            UsageError: a size makes no sense, the run has none of that kind, or the arrays have
                shapes that do not fit together.

        Example:
            >>> import numpy
            >>> llama = cost("meta-llama/Llama-3.1-8B", sequence=2048)
            >>> batches, sequences = numpy.array([[1], [8]]), numpy.array([1024, 2048])
            >>> llama.sweep(batch=batches, sequence=sequences)["forward_matmul_flops"]
            array([[ 15919296282624,  32938104193024],
                   [127354370260992, 263504833544192]])
        """
        from weighbridge.answers.run_totals import swept  # noqa: PLC0415  # few ask

        given = {"batch": batch, "sequence": sequence, "past": past}
        sizes = {name: value for name, value in given.items() if value is not None}
        for name, value in sizes.items():
            self._check_swept(name, value)
        try:
            sum(sizes.values())
        except ValueError as error:  # NumPy's, for arrays that it cannot combine
            raise arrays_misfit(sizes) from error
        return swept(self, sizes)

    def _check_swept(self, name: str, value: Any) -> None:
        if getattr(self.run, name) is None:
            raise UsageError(
                f"the run has no {name}", hint=f"ask for the cost with {name} before the sweep"
            )
        option = {"sequence": "seq"}.get(name, name)
        is_array = getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u") and value.size
        ends = [int(value.min()), int(value.max())] if is_array else [value]
        for end in ends:
            check_size(option, end)
        if name != "batch":
            self._shown.check_room({option: ends[0]})
            check_positions(self.found, option, ends[-1], after=int(name == "past"))

    def groups(self, by: str = "component") -> list[CostGroup]:
        """Return the figures by component, layer or operation.

        Raises:
            UsageError: there is no such grouping.

        Example:
            >>> groups = cost("bert-base-chinese", sequence=512).groups("layer")
            >>> groups[0].name, groups[0].figures["forward_matmul_flops"]
            ('encoder.layer.0', 8053063680)
        """
        if by not in GROUPINGS:
            raise UsageError(
                "there is no such grouping",
                values={"by": by},
                hint=f"use one of {', '.join(GROUPINGS)}",
            )
        if by == "operation":
            return self._shapes()
        grouped: dict[str, dict[str, list[Operation]]] = {}
        for line in self.found.weighing.ledger.by(by):
            grouped[line.name] = {kind: [] for kind in self.operations}
        for kind, found in self.operations.items():
            for name, operation in self._named(found, by):
                kinds = grouped.setdefault(name, {kind: [] for kind in self.operations})
                kinds[kind].append(operation)
        groups = [CostGroup(name, self._figures(kinds)) for name, kinds in grouped.items()]
        return [group for group in groups if any(group.figures.values())]

    def _named(self, found: Iterable[Operation], by: str) -> Iterator[tuple[str, Operation]]:
        for operation in found:
            if by == "layer":
                yield from self.attribution.layers(operation)
            else:
                yield self.attribution.component(operation.path), operation

    def _shapes(self) -> list[CostGroup]:
        """Return the products by kind and dims, in each kind the largest first."""
        groups = []
        for kind in FLOPS:
            same: dict[tuple[int, ...], list[Operation]] = {}
            for product in self.operations.get(kind, ()):
                same.setdefault(product.shape, []).append(product)
            of_kind = [self._shape(kind, shape, found) for shape, found in same.items()]
            groups += sorted(of_kind, key=lambda group: -group.figures["flops"])
        return groups

    def _shape(self, kind: str, shape: tuple[int, ...], found: list[Operation]) -> CostGroup:
        figures = {
            "products": sum(len(product.places) * product.times for product in found),
            "flops": costs.matmul_flops(found),
            "moved_bytes": self._moved(found),
        }
        return CostGroup(f"{kind} {'x'.join(map(str, shape))}", figures)

    def to_dict(self, by: str = "component", *, formula: bool = False) -> dict[str, Any]:
        """Return everything, ready for JSON; with formulas only if asked."""
        found, run = self.found, self.run._asdict()
        formulas: dict[str, Any] = {}
        if formula:
            from weighbridge.answers.cost_formula import CostFormulas  # noqa: PLC0415  # few ask

            formulas = {"formulas": CostFormulas(self).to_dict()}
        groups = [{"name": group.name, **group.figures} for group in self.groups(by)]
        return {
            "model": found.weighing.model.where,
            "family": found.known.family,
            "class": found.class_name,
            "run": {**run, "decode": self.run.past is not None},
            "parameters": found.weighing.parameters,
            **self.figures,
            "moved_bytes": self.moved_bytes,
            "arithmetic_intensity": self.arithmetic_intensity,
            **formulas,
            "by": by,
            "groups": groups,
            "notes": self.notes,
            "evidence": found.evidence,
        }

    def document(
        self, lang: str = "en", by: str = "component", *, formula: bool = False
    ) -> Document:
        """Return the totals and the groups as tables; ``formula`` adds each total in letters."""
        from weighbridge.answers import cost_table  # noqa: PLC0415  # JSON does without

        return cost_table.document(self, lang, by, formula=formula)

    def csv(self, by: str | None = None, *, formula: bool = False) -> str:
        """Write the groups as CSV, which has no formulas; see `TabularAnswer.csv`.

        Raises:
            UsageError: the grouping is unknown, or formulas are asked for.
        """
        if formula:
            raise UsageError("--csv and --formula exclude each other", hint="drop one of the two")
        return super().csv(by)

    def _data_table(self, by: str) -> DataTable:
        """Return a row for each group, with a column for each figure."""
        from weighbridge.answers.data_table import (  # noqa: PLC0415  # a terminal does without
            INTEGER,
            Column,
            DataTable,
        )

        groups = self.groups(by)
        names = list(groups[0].figures)
        rows = [(group.name, *map(group.figures.__getitem__, names)) for group in groups]
        return DataTable((Column(by), *(Column(name, INTEGER) for name in names)), rows)
