"""What a page computes of a run: the recorded operations of a class, as the page's expressions.

The page binds them as `blueprint.operations` does, and folds them as `cost`, `cache`, `train` and
`serve` do: FLOPs by component, the cache at any context, and the memory of one device at each
moment of a training step. Conditions on what a page cannot change, such as the kernels, are
decided here. The answers of the package at some runs are in it too, and the page checks itself.
"""

from __future__ import annotations

from random import Random

from weighbridge.algebra.expr import evaluate, names_in, source
from weighbridge.algebra.settle import settled
from weighbridge.answers.cache import Cache
from weighbridge.answers.cost import cost
from weighbridge.answers.fitting import context_allowance, usable_bytes
from weighbridge.answers.recorded import learned_positions, recorded
from weighbridge.answers.serve import serve
from weighbridge.answers.train import train
from weighbridge.blueprint.operations import CACHE_START, COMPUTE, PRODUCTS, ROTATED
from weighbridge.blueprint.paths import indices_in
from weighbridge.costs.activations import DIVIDED, Modules
from weighbridge.costs.attribution import Attribution
from weighbridge.costs.devices import known_devices
from weighbridge.costs.optimizers import optimizer_called, precision_called
from weighbridge.costs.parallel import ParallelDivision
from weighbridge.costs.profiles import PROFILES, USUAL, nearest_profile
from weighbridge.costs.serving import engine_called
from weighbridge.data import LANGUAGES
from weighbridge.errors import WeighbridgeError
from weighbridge.explorer.settings import Bench, explicit_config
from weighbridge.explorer.trees import TreeTable, value_json
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.models.fields import may_be_alone
from weighbridge.render.messages import error_message
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.answers.weigh import Weighing
    from weighbridge.blueprint.operations import OperationTemplate

RUNS = 5
"""The runs at which a page compares its figures with those of Python, the first as given."""
_MOST_TRIES = 4 * RUNS
SEQUENCE, CONTEXT = 2048, 8192
"""The tokens of a sequence and of a cache that a page begins with, if there are positions."""
_OPTIMIZER, _PRECISION, _ENGINE, _ANY_DEVICE = "adamw", "master", "plain", "H100"
_KINDS = ("forward", "backward", "saved", "checkpointed", "stepped", "step")
_IMAGE_SIDE = 448
"""The pixels on each side of an image, if a run says how large its images are."""
_USUAL = ("choices", "images", "patches")
"""The names of a run, besides its sizes, that a page does not change: no images, for one."""
_IN_TRAINING = ("forward", "backward", "saved", "checkpointed")
_AFTER, _CORE, _DIVIDED = 2, 4, 8
"""Marks of a module: it does not stand before the layers, is attention itself, is divided."""
_ROPE = ("rope_scaling", "rope_parameters", "rotary_pct", "rotary_dim", "head_dim", ROTATED)
_MOST_TIMES = 4  # a dial of key heads goes up to so many times its start
_WHOLE_DTYPES = ("F32", "F16", "BF16")
_COMPUTED_IN = precision_called(_PRECISION).compute


def run_of_page(weighing: Weighing, bench: Bench, table: TreeTable) -> dict[str, Any]:
    """Return what a page holds of a class that runs, or why there is nothing to hold.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> gpt2 = weigh("openai-community/gpt2")
        >>> made = run_of_page(gpt2, Bench(gpt2), TreeTable())["run"]
        >>> made["sequence"], made["context"], len(made["checks"])
        (1024, 1024, 5)
        >>> detr = weigh("detr")
        >>> made = run_of_page(detr, Bench(detr), TreeTable())
        >>> made["unrecorded"]["en"][:45]
        'There are no operations for the family detr. '
    """
    try:
        page = _RunOfPage(weighing, bench, table)
        return {"run": {**page.operations(), **page.facts(), "checks": list(page.checks())}}
    except WeighbridgeError as error:
        return {"unrecorded": {lang: _on_its_own(error, lang) for lang in LANGUAGES}}


def _on_its_own(error: WeighbridgeError, lang: str) -> str:
    """Return the text of an error as it stands alone on a page."""
    text = error_message(error, lang)
    return text if error.where else text[:1].upper() + text[1:]


class _RunOfPage:
    """The operations of a class, bound to nothing but the kernels and the dtype of a run."""

    def __init__(self, weighing: Weighing, bench: Bench, table: TreeTable) -> None:
        self.weighing, self.bench, self.table = weighing, bench, table
        dtype = weighing.ledger.dtype
        self.dtype = dtype if dtype in _WHOLE_DTYPES else "BF16"
        self.computed_in = _COMPUTED_IN
        class_name = weighing.class_name
        model = weighing.model
        asked = model.where if model.origin in ("catalogue", "defaults") else model.config
        # The reason why nothing is recorded is about what the user gave, not about its expansion.
        self.found = recorded(asked, class_name, dtype=self.dtype)
        self.known = self.found.known
        self.config = explicit_config(model, self._more_fields())
        self.trained_with = _profile_of_training(self.found)
        self.attribution = Attribution(weighing.ledger)
        self.modules = Modules(weighing.ledger, ParallelDivision(weighing.ledger).stack)
        self._nullable = frozenset((*self.known.fields, *self.known.computed))
        self._paths: dict[str, int] = {}
        self._path_table: list[list[Any]] = []

    def _more_fields(self) -> list[str]:
        """Return the fields besides those of the blueprint that decide what a run takes."""
        names = (*self.known.fields, *self.known.held, *self.known.computed, *_ROPE)
        return [name for name in dict.fromkeys(names) if name not in self.weighing.model.fields]

    # Operations

    def operations(self) -> dict[str, Any]:
        """Return each kind of operations, and what their expressions need."""
        kinds = {kind: list(self._of_kind(kind)) for kind in _KINDS}
        own_fields = self.weighing.model.fields
        names = self.found.names()
        computed = self.found.computed
        waiting = _in_order(
            {name: computed[name] for name in self.known.computed if name in computed}
        )
        return {
            **{kind: entries for kind, entries in kinds.items() if entries},
            "paths": self._path_table,
            "repeat": {name: self.table.number(tree) for name, tree in self.known.repeat.items()},
            "constants": {
                name: value_json(names[name])
                for name in (*self.known.fields, *self.known.computed, *_USUAL)
                if name not in own_fields and name not in waiting
            },
            "computed": [[name, self.table.number(computed[name])] for name in waiting],
            "held": self._held(),
            "rules": self._as_rules(self.known.whole),
            "trained": self._as_rules(_rules_of_training(self.found)),
            "positions": list(learned_positions(self.found)),
            **self._of_images(),
        }

    def _as_rules(self, rules: Iterable[Tree]) -> list[list[Any]]:
        return [[source(rule), self.table.number(rule)] for rule in rules]

    def _of_images(self) -> dict[str, Any]:
        """Return how many tokens of a sequence stand for an image, if the class reads images.

        Where a run says how large its images are, it is an image of a usual size.
        """
        known = self.known
        if known.image_tokens is None:
            return {}
        if known.image_patch is None or known.image_merged is None:
            return {"image": self.table.number(known.image_tokens)}
        side = ("*", known.image_patch, known.image_merged)
        rows = ("//", ("value", _IMAGE_SIDE), side)
        return {"image": self.table.number(("*", rows, rows)), "image_side": _IMAGE_SIDE}

    def _held(self) -> dict[str, list[Any]]:
        """Return the values that fields must keep, of those that a dial could change.

        Of a list whose only item may stand alone it is the list, as a page has it.
        """
        own_fields = self.weighing.model.fields
        held = {**self.known.held}
        for field in self.known.never_one:
            heads = own_fields.get(field)
            if type(heads) is int:
                held.setdefault(field, [*range(2, _MOST_TIMES * heads + 1)])  # see `check_sizes`
        listed = {name: of if isinstance(of, list) else [of] for name, of in held.items()}
        return {
            name: [value_json((one,) if may_be_alone(name) else one) for one in values]
            for name, values in listed.items()
            if name in own_fields
        }

    def _of_kind(self, kind: str) -> Iterator[list[Any]]:
        decided = self._decided(kind)
        for entry in self.found.entries(kind):
            when = None if entry.when is None else settled(entry.when, decided, self._nullable)
            if when == ("value", False):
                continue
            if when == ("value", True):
                when = None
            yield self._as_json(entry, when, decided, kind)

    def _decided(self, kind: str) -> dict[str, Any]:
        """Return the values of the names that no dial changes: kernels, dtype, training."""
        if kind in _IN_TRAINING:
            kernels = PROFILES[self.trained_with].names
            return {**kernels, "dtype": self.computed_in, "training": True}
        if kind == "stepped":
            held_in = "F32" if self.dtype == "F32" else "BF16"
            profile = nearest_profile(USUAL, self.found.profiles, "BF16") or self.found.profiles[0]
            return {**PROFILES[profile].names, "dtype": held_in, "training": False}
        return {"attention": "eager", "device": "cpu", "dtype": "F32", "training": False}

    def _as_json(
        self, entry: OperationTemplate, when: Tree | None, decided: Mapping[str, Any], kind: str
    ) -> list[Any]:
        """Return an operation: its path, dims, condition, rounds, and the bits of an element."""
        dims = [self.table.number(settled(dim, decided, self._nullable)) for dim in entry.dims]
        bits = 0 if kind in PRODUCTS or entry.dtype == COMPUTE else DTYPE_BITS[entry.dtype]
        written = [self._path(entry.path), dims]
        more: list[Any] = [
            -1 if when is None else self.table.number(when),
            bits,
            -1
            if entry.times == ("value", 1)
            else self.table.number(settled(entry.times, decided, self._nullable)),
        ]
        while more and more[-1] in (-1, 0):  # what is usual is left out
            del more[-1]
        return [*written, *more]

    def _path(self, path: str) -> int:
        """Return the number of a path; the table has its indices, component and marks."""
        if path not in self._paths:
            self._paths[path] = len(self._path_table)
            component = self.attribution.component(path)
            if path.startswith(CACHE_START):
                component = next(name for name in reversed(path.split(".")) if not name.isdigit())
            self._path_table.append([path, list(indices_in(path)), component, self._marks(path)])
        return self._paths[path]

    def _marks(self, path: str) -> int:
        modules = self.modules
        marks = (
            (_AFTER, not modules.is_first(path)),
            (_CORE, modules.is_core(path)),
            (_DIVIDED, modules.way(path) == DIVIDED),
        )
        return sum(mark for mark, holds in marks if holds)

    # Facts

    def facts(self) -> dict[str, Any]:
        """Return what a page needs to fold operations: bytes of states, allowances, devices."""
        optimizer, precision = optimizer_called(_OPTIMIZER), precision_called(_PRECISION)
        one, two = (optimizer.state_bytes((size,), precision.updated) for size in (1, 2))
        most = min(learned_positions(self.found).values(), default=0)
        master = DTYPE_BITS[precision.master] // 8 if precision.master else 0
        engine = engine_called(_ENGINE)
        return {
            "sequence": min(SEQUENCE, most or SEQUENCE),
            "context": min(CONTEXT, most or CONTEXT),
            "dtype": self.dtype,
            "bytes": DTYPE_BITS[self.dtype] // 8,
            "training": {
                "optimizer": _OPTIMIZER,
                "precision": _PRECISION,
                "compute": DTYPE_BITS[self.computed_in] // 8,
                "parameters": DTYPE_BITS[precision.parameters] // 8,
                "gradients": DTYPE_BITS[precision.gradients] // 8,
                "states": two - one + master,
                "each": 2 * one - two,
                "updated": DTYPE_BITS[precision.updated] // 8,
                "temporaries": optimizer.temporaries,
                "scores": PROFILES[self.trained_with].attention in ("eager", "math"),
            },
            "prefill": engine.prefill,
            "allowance": context_allowance(None),
            "devices": [
                [device.name, usable_bytes(device)]
                for device in sorted(known_devices().values(), key=usable_bytes)
            ],
            "evidence": self.found.evidence,
        }

    # Checks

    def checks(self) -> Iterator[list[Any]]:
        """Yield runs with what weighbridge answers for them, the same on every machine."""
        random = Random(f"run of {self.known.family} {self.weighing.class_name}")  # noqa: S311
        most = min(learned_positions(self.found).values(), default=0)
        yield self.answers({}, {"batch": 1, "sequence": min(SEQUENCE, most or SEQUENCE)})
        found = 1
        for _ in range(_MOST_TRIES):
            if found == RUNS:
                return
            changes = self.bench.random_changes(random)
            longest = most or CONTEXT
            run = {"batch": random.randint(1, 9), "sequence": random.randint(2, longest)}
            try:
                yield self.answers(changes, run)
            except WeighbridgeError:
                continue
            found += 1

    def answers(self, changes: Mapping[str, Any], run: Mapping[str, int]) -> list[Any]:
        """Return a run and its figures by name; the context of its cache is its sequence."""
        found = recorded(self.config, self.weighing.class_name, fields=changes, dtype=self.dtype)
        figures = answers_at(found, self.config, changes, run)
        written = {name: value_json(value) for name, value in changes.items()}
        return [written, dict(run), {name: str(value) for name, value in figures.items()}]


def _profile_of_training(found: RecordedModel) -> str:
    return nearest_profile(USUAL, found.profiles, _COMPUTED_IN) or found.profiles[0]


def _rules_of_training(found: RecordedModel) -> tuple[Tree, ...]:
    attention = PROFILES[_profile_of_training(found)].attention
    return found.known.rules_of_training(found.class_name, attention)


def answers_at(
    found: RecordedModel,
    config: Mapping[str, Any],
    changes: Mapping[str, Any],
    run: Mapping[str, int],
) -> dict[str, int]:
    """Return the figures of a run by name, as the commands give them.

    Those of a training step are left out where it has other kernels than the page.

    Args:
        found: the model with its changes.
        config: its config without them.
        changes: the fields to change.
        run: the batch and the sequence; the context is as long.
    """
    named: dict[str, Any] = {"class_name": found.class_name, "fields": changes}
    batch, tokens = run["batch"], run["sequence"]
    trained = all(evaluate(rule, found.names()) for rule in _rules_of_training(found))
    whole = cost(config, **named, batch=batch, sequence=tokens, train=trained, dtype="BF16")
    figures = {"forward": whole.forward_matmul_flops}
    if trained:
        figures["backward"] = whole.backward_matmul_flops
    ways = ("none", "full") if found.has("checkpointed") else ("none",)
    for checkpointing in ways if trained else ():
        fit = train(
            config,
            **named,
            on=_ANY_DEVICE,
            batch=batch,
            sequence=tokens,
            optimizer=_OPTIMIZER,
            precision=_PRECISION,
            checkpointing=checkpointing,
        )
        for moment in fit.worst.moments:
            figures[f"{checkpointing} {moment.name}"] = moment.bytes
    if found.has("stepped"):
        dtype = found.weighing.ledger.dtype
        cached = Cache(found, tokens, batch, dtype)
        held = serve(
            config, **named, on=_ANY_DEVICE, context=tokens, batch=batch, weights=dtype.lower()
        ).memory
        figures["cache"] = cached.cache_bytes
        figures["serving"] = held.bytes
    return {name: int(value or 0) for name, value in figures.items()}


def _in_order(computed: Mapping[str, Tree]) -> list[str]:
    """Return the names of computed fields, each after those that it needs."""
    ordered: list[str] = []
    waiting = list(computed)
    while waiting:
        ready = [name for name in waiting if set(names_in(computed[name])).isdisjoint(waiting)]
        ordered += ready or waiting
        waiting = [name for name in waiting if ready and name not in ready]
    return ordered
