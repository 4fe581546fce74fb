"""Serving on devices: whether weights, cache and activations fit, and bounds on speed."""

from __future__ import annotations

from functools import cached_property
from math import ceil, floor, prod

from weighbridge import units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.cache import Cache, dtype_of_cache, with_cache
from weighbridge.answers.cost import Run, RunCost, kernels_of_run
from weighbridge.answers.fitting import (
    Change,
    bytes_of,
    context_allowance,
    drawn_as,
    save_svg,
    that_fit,
    usable_bytes,
)
from weighbridge.answers.recorded import (
    beyond_positions,
    check_positions,
    check_size,
    learned_positions,
)
from weighbridge.costs import costs
from weighbridge.costs.activations import Modules
from weighbridge.costs.bounds import Bound, peak_of
from weighbridge.costs.devices import devices_on
from weighbridge.costs.parallel import ParallelDivision, ParallelPlan
from weighbridge.costs.serving import ServingMemory, activation_bytes, engine_called, most_elements
from weighbridge.errors import UsageError, WeighbridgeError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from weighbridge.answers.data_table import DataTable
    from weighbridge.answers.estimating import Estimates
    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.costs.devices import Devices
    from weighbridge.costs.serving import Engine
    from weighbridge.models.find import Described
    from weighbridge.render.document import Document

# Where inputs may be quantised too, products are as fast as in these.
_PRODUCTS = {"nvfp4": "F4", "mxfp4": "F4"}
_EIGHT_BITS = "F8_E4M3"
_WHOLE_DTYPES = ("F64", "F32", "F16", "BF16")  # others need scales beside the weights
_MOST = 1 << 31  # no larger batch or context is looked for


class Service(NamedTuple):
    """How a model is served: the context and the batch, dtypes, the division and the engine.

    ``batch`` is that of all devices, and ``prefill`` the tokens of one pass of a prompt.
    """

    context: int
    batch: int
    weights: str | None
    cache: str
    plan: ParallelPlan
    engine: Engine
    prefill: int

    @property
    def batch_of_copy(self) -> int:
        """The sequences of each copy of the model."""
        return ceil(self.batch / self.plan.data)


def serve(  # noqa: PLR0913  # each is a word of its own for the user
    model: Described,
    class_name: str | None = None,
    *,
    on: str,
    context: int,
    batch: int = 1,
    weights: str | None = None,
    cache: str | None = None,
    tp: int | None = None,
    pp: int = 1,
    ep: int = 1,
    engine: str = "plain",
    cache_memory: str | None = None,
    utilisation: float | None = None,
    prefill: int | None = None,
    reserve: str | None = None,
    device_file: str | os.PathLike[str] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Serving:
    """Compute whether a model fits on devices with its cache, and how fast it can be at most.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`; its operations must be recorded, with a cache.
        on: the devices, such as ``"2xH100"``.
        context: the tokens of each sequence, its prompt and its answer.
        batch: the sequences that are served at once.
        weights: the dtype of the weights, such as ``"bf16"``, or a scheme or method of `quantize`,
            such as ``"q4_k_m"`` or ``"fp8"``; by default as the files of the model store them.
        cache: the dtype of the cache; by default that of the model.
        tp: the ranks of tensor parallelism; by default all devices of a stage, divided by ``ep``.
        pp: the stages of a pipeline.
        ep: the ranks of expert parallelism.
        engine: ``"plain"`` or ``"vllm"``, which has blocks and keeps a share of the memory free.
        cache_memory: the bytes of cache on each device, if the engine has told them.
        utilisation: the share of the memory that the engine takes; by default its own.
        prefill: the tokens of one pass of a prompt; by default those of the engine.
        reserve: what is kept free on each device for what is not predicted; 1 GiB by default.
        device_file: a file of one's own devices.
        fields: config fields to replace.

    Raises:
        UsageError: a size or a name makes no sense, or the model cannot be divided so.
        ModelError: there is no such model, or no operations with a cache are recorded for it.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> two = serve("meta-llama/Llama-3.1-70B", on="2xH100", context=8192, batch=16)
        >>> two.fits, two.weight_bytes
        (False, 141107412992)
    """
    devices = devices_on(on, device_file)
    plan = _divided(devices, tp, pp, ep)
    check_size("prefill", prefill or 1)
    found = with_cache(model, class_name, fields=fields)
    service = service_for(found, context, batch, weights, cache)
    service = service._replace(plan=plan, engine=_engine(engine, utilisation))
    service = service._replace(prefill=min(context, prefill or service.engine.prefill))
    of_cache = bytes_of(cache_memory, "cache-memory") if cache_memory is not None else None
    return Serving(found, devices, service, context_allowance(reserve), of_cache)


def service_for(
    found: RecordedModel, context: int, batch: int, weights: str | None, cache: str | None
) -> Service:
    """Return how a model is served on one device of its own; the arguments are those of `serve`.

    Raises:
        UsageError: a size or a dtype makes no sense.
    """
    check_size("context", context)
    check_size("batch", batch)
    check_positions(found, "context", context)
    engine = engine_called("plain")
    of_cache, tokens = dtype_of_cache(found, cache), min(context, engine.prefill)
    return Service(context, batch, weights, of_cache, ParallelPlan(), engine, tokens)


def _divided(devices: Devices, tensor: int | None, stages: int, expert: int) -> ParallelPlan:
    """Return a plan with as many copies of the model as there are devices for."""
    check_size("pp", stages)
    check_size("ep", expert)
    if tensor is None:
        tensor = max(1, devices.number // (stages * expert))
    check_size("tp", tensor)
    if devices.number % (tensor * stages):
        raise UsageError(
            "the devices do not divide into copies of the model",
            values={"devices": devices.number, "tp": tensor, "pp": stages},
            hint="give --tp and --pp whose product divides the number of devices",
        )
    copies = devices.number // (tensor * stages)
    return ParallelPlan(tensor=tensor, pipeline=stages, expert=expert, data=copies)


def _engine(name: str, utilisation: float | None) -> Engine:
    engine = engine_called(name)
    if utilisation is None:
        return engine
    if not 0 < utilisation <= 1:
        raise UsageError(
            "--utilisation is not a share",
            values={"utilisation": utilisation},
            hint="give more than 0 and at most 1",
        )
    return engine._replace(utilisation=utilisation)


class Server:
    """A model in several services; what they share is computed once."""

    def __init__(self, found: RecordedModel) -> None:
        self.found = found
        self.division = ParallelDivision(found.weighing.ledger)
        self.modules = Modules(found.weighing.ledger, self.division.stack)
        self._bits: dict[str | None, float] = {}

    def memory(self, service: Service) -> ServingMemory:
        """Return what the fullest device holds."""
        tokens = service.prefill * min(service.batch_of_copy, 1)
        activations = activation_bytes(
            self.modules,
            self._products,
            service.plan,
            max(tokens, service.batch_of_copy),
            service.batch_of_copy,
            self.compute_dtype,
        )
        weights = self.weight_bytes(service)
        return ServingMemory(weights, self.cache_bytes(service), activations)

    @cached_property
    def _products(self) -> list[Any]:
        names = self.found.names(batch=1, sequence=1, past=1, target=1, training=False)
        return self.found.bind("step", names)

    @property
    def compute_dtype(self) -> str:
        """The dtype of the activations: that of the model, or BF16 if that is no dtype of one."""
        dtype = self.found.weighing.ledger.dtype
        return dtype if dtype in ("F32", "F16", "BF16") else "BF16"

    def weight_bytes(self, service: Service) -> int:
        """Return the bytes of weights on the fullest device."""
        held = most_elements(self.division, service.plan)
        return ceil(held * self.bits(service.weights) / 8)

    def bits(self, weights: str | None) -> float:
        """Return the bits of a parameter, on average, as files store it or in another form."""
        if weights not in self._bits:
            self._bits[weights] = self._bits_in(weights)
        return self._bits[weights]

    def _bits_in(self, weights: str | None) -> float:
        weighing = self.found.weighing
        if weights is None and weighing.bytes is not None:
            return 8 * weighing.bytes / weighing.parameters
        dtype = weights or weighing.ledger.dtype
        if units.is_dtype(dtype) and units.dtype(dtype) in _WHOLE_DTYPES:
            return float(units.DTYPE_BITS[units.dtype(dtype)])
        from weighbridge.answers.quantize import quantized_bytes  # noqa: PLC0415  # few ask for it

        return 8 * quantized_bytes(weighing, dtype, option="weights") / weighing.parameters

    def label(self, weights: str | None, lang: str = "en") -> str:
        """Return the name of a form of the weights: by default that in which files store them."""
        return weights or self.found.weighing.files.form(lang)

    def cache_bytes(self, service: Service) -> int:
        """Return the bytes of cache on the fullest device; engines fill the last block up."""
        block = service.engine.block
        context = ceil(service.context / block) * block
        return self._cached(context, service.batch_of_copy, service)

    def _cached(self, context: int, batch: int, service: Service) -> int:
        whole = Cache(self.found, context, 1, service.cache)
        held = self.found.bind("stepped", whole.names(context, 1))
        plan = service.plan
        total = 0.0
        for tensor in held:
            size = costs.saved_for_backward_bytes([tensor], service.cache)
            share = self.division.cache_share(tensor.path, plan.tensor)
            total += size * share
        return ceil(total * batch / plan.pipeline)

    def cache_tokens(self, service: Service, size: int) -> int:
        """Return how many tokens fit into some bytes of cache, in whole blocks."""
        block = service.engine.block
        one = Service(block, 1, service.weights, service.cache, service.plan, service.engine, 1)
        of_one, of_two = (
            self._cached(context, 1, one) for context in (_FAR, _FAR + block)
        )  # what a block adds once windows are full
        added = of_two - of_one
        if not added:
            return 0
        return floor(size / added) * block


_FAR = 1 << 20  # tokens, beyond all windows


class Serving(TabularAnswer):
    """What `serve` returns.

    Example:
        >>> one = serve("meta-llama/Llama-3.1-8B", on="H100", context=8192, batch=16)
        >>> one.fits, one.cache_bytes, one.largest_batch > 16
        (True, 17179869184, True)
    """

    groupings = ("held",)

    def __init__(
        self,
        found: RecordedModel,
        devices: Devices,
        service: Service,
        allowance: int,
        cache_memory: int | None = None,
    ) -> None:
        self.found, self.devices, self.service = found, devices, service
        self.allowance, self.cache_memory = allowance, cache_memory
        self.server = Server(found)
        self.server.division.check(service.plan)

    def at(self, context: int, batch: int) -> Serving:
        """Return the same service with another context and batch; what both share is kept.

        Raises:
            UsageError: a size makes no sense.

        Example:
            >>> one = serve("gpt2", on="L4", context=1024)
            >>> one.at(512, 2).cache_bytes == one.cache_bytes
            True
        """
        check_size("context", context)
        check_size("batch", batch)
        check_positions(self.found, "context", context)
        prefill = min(context, self.service.engine.prefill)
        service = self.service._replace(context=context, batch=batch, prefill=prefill)
        other = Serving(self.found, self.devices, service, self.allowance, self.cache_memory)
        other.server = self.server
        return other

    @property
    def status(self) -> int:
        """0 if it fits on the devices, 1 if not."""
        return 0 if self.fits else 1

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read, and on its positions."""
        return [*self.found.notes, *beyond_positions(self.found, self.service.context)]

    @cached_property
    def memory(self) -> ServingMemory:
        """What the fullest device holds."""
        return self.server.memory(self.service)

    @property
    def weight_bytes(self) -> int:
        """The bytes of the weights of the model, however many devices divide or copy them."""
        bits = self.server.bits(self.service.weights)
        return ceil(self.found.weighing.parameters * bits / 8)

    @property
    def weight_bits(self) -> float:
        """The bits of a parameter, on average."""
        return self.server.bits(self.service.weights)

    @property
    def cache_bytes(self) -> int:
        """The bytes of the cache of all sequences, however many devices divide or copy it."""
        service = self.service._replace(plan=ParallelPlan())
        return self.server.cache_bytes(service)

    @property
    def usable_bytes(self) -> int:
        """The memory of a device."""
        return usable_bytes(self.devices.device)

    @property
    def kept_free(self) -> int:
        """What the engine leaves free of it."""
        return self.usable_bytes - int(self.usable_bytes * self.service.engine.utilisation)

    @property
    def most_bytes(self) -> int:
        """What weights, cache and activations may take on a device."""
        return self.usable_bytes - self.kept_free - self.allowance

    @property
    def left_bytes(self) -> int:
        """What is left on the fullest device; negative if it does not fit."""
        return self.most_bytes - self.memory.bytes

    @property
    def fits(self) -> bool:
        """Whether every device has room."""
        return self.left_bytes >= 0

    @property
    def cache_room(self) -> int:
        """The bytes of cache on a device: those that the engine told, or what else is left."""
        if self.cache_memory is not None:
            return self.cache_memory
        return max(0, self.most_bytes - self.memory.weights - self.memory.activations)

    @cached_property
    def cache_tokens(self) -> int:
        """The tokens that the caches of all copies have room for, in whole blocks."""
        return self.server.cache_tokens(self.service, self.cache_room) * self.service.plan.data

    @cached_property
    def largest_batch(self) -> int:
        """The largest batch that fits at this context; 0 if none does."""
        return _largest(lambda batch: self._fits(self.service._replace(batch=batch)))

    @cached_property
    def largest_context(self) -> int:
        """The longest context that fits at this batch; 0 if none does.

        It is at most as long as the positions that the model has learned.
        """
        learned = min(learned_positions(self.found).values(), default=_MOST)
        return _largest(lambda context: self._fits(self.service._replace(context=context)), learned)

    def _fits(self, service: Service) -> bool:
        prefill = min(service.context, self.service.engine.prefill)
        return self.server.memory(service._replace(prefill=prefill)).bytes <= self.most_bytes

    @cached_property
    def changes(self) -> list[Change]:
        """What to change so that it fits, each change alone."""
        if self.fits:
            return []
        return that_fit(self._tried(), self.most_bytes)

    def _tried(self) -> Iterator[Change]:
        for options, tried in self._alternatives():
            yield Change(options, self.server.memory(tried).bytes)

    def _alternatives(self) -> Iterator[tuple[str, Service]]:
        """Yield other services, what costs least first: sizes, dtypes, more devices."""
        service = self.service
        if self.largest_batch:
            yield f"--batch {self.largest_batch}", service._replace(batch=self.largest_batch)
        eight = service._replace(cache=_EIGHT_BITS)
        if service.cache != _EIGHT_BITS:
            yield "--cache fp8", eight
        for form in self._smaller_forms():
            yield f"--weights {form}", service._replace(weights=form)
            yield f"--weights {form} --cache fp8", eight._replace(weights=form)
        heads = self.server.division.heads or 1
        for more in (2, 4, 8, 16):
            tensor = service.plan.tensor * more
            if heads % tensor == 0:
                number = self.devices.number * more
                options = f"--on {number}x{self.devices.device.name} --tp {tensor}"
                yield options, service._replace(plan=service.plan._replace(tensor=tensor))

    def _smaller_forms(self) -> Iterator[str]:
        """Yield quantisations of the weights that are smaller, where they are known."""
        for form in ("fp8", "awq"):
            try:
                bits = self.server.bits(form)
            except WeighbridgeError:  # the method does not pack this model
                continue
            if bits < self.server.bits(self.service.weights):
                yield form

    @cached_property
    def step_bound(self) -> Bound:
        """The least seconds of a step that gives each sequence one more token."""
        service = self.service
        plan, device = service.plan, self.devices.device
        # A token passes one stage after the other, or each stage reads its weights for every part
        # of the batch: either takes as long as reading all stages once.
        return Bound(
            sum(self._step_flops) / (plan.tensor * plan.pipeline * self.peak),
            (plan.pipeline * self.step_weight_bytes + self.memory.cache) / device.bandwidth,
        )

    @cached_property
    def _step_flops(self) -> tuple[float, float]:
        """The FLOPs of a step of the whole batch: of its matrices, and of attention.

        The matrices multiply what is new. Where code multiplies a cache of latents again, an engine
        may multiply the query instead.
        """
        batch, past = self.service.batch_of_copy, self.service.context - 1
        is_core = self.server.modules.is_core
        new, whole = (self.found.bind("step", self._names(batch, at)) for at in (1, past))
        of_matrices = costs.matmul_flops(one for one in new if not is_core(one.path))
        return of_matrices, costs.matmul_flops(one for one in whole if is_core(one.path))

    @property
    def step_flops(self) -> float:
        """The FLOPs of the matrices in a step of the whole batch, without attention."""
        return self._step_flops[0]

    def cache_names(self) -> dict[str, Any]:
        """Return the values of the letters for the cache of one sequence."""
        context = self.service.context
        return Cache(self.found, context, 1, self.service.cache).names(context, 1)

    def _names(self, batch: int, past: int) -> dict[str, Any]:
        whole = Cache(self.found, max(past, 1) + 1, batch, self.service.cache)
        return whole.names(max(past, 1) + 1, batch)

    @cached_property
    def read_weight_bytes(self) -> float:
        """The bytes of weights that a pass reads on a device at least.

        A token reads its own experts. Several may have the same ones, so that no more are read. Of
        an embedding a pass reads a few rows.
        """
        weighing, ledger = self.found.weighing, self.found.weighing.ledger
        lookups = sum(
            entry.parameters
            for entry in ledger.entries
            if entry.template.role.startswith("embedding") and not self._is_shared(entry)
        )
        active = weighing.parameters if weighing.active is None else weighing.active
        return self.memory.weights * (active - lookups) / weighing.parameters

    @cached_property
    def step_weight_bytes(self) -> float:
        """The bytes of weights that a step reads at least: a decoder's step needs no encoder."""
        if not self.found.uses("target"):
            return self.read_weight_bytes
        weighing = self.found.weighing
        running = {product.path for product in self.found.bind("step", self._names(1, 1))}
        read = sum(
            prod(entry.shape) * len(entry.indices)  # a head may use the weights of an embedding
            for entry in weighing.ledger.entries
            if entry.template.name.rpartition(".")[0] in running
        )
        return self.memory.weights * read / weighing.parameters

    def _is_shared(self, entry: Any) -> bool:
        """Whether a head uses the weights of an embedding too."""
        name = entry.template.name
        entries = self.found.weighing.ledger.entries
        return any(
            other.tied and other.template.tie and other.template.tie.to == name for other in entries
        )

    @cached_property
    def prefill_bound(self) -> Bound:
        """The least seconds until the first token of one sequence that has the whole context."""
        plan = self.service.plan
        flops, of_attention = self.prompt_flops
        compute = (flops + of_attention) / (plan.tensor * plan.pipeline * self.peak)
        return Bound(compute, self.read_weight_bytes / self.devices.device.bandwidth)

    @cached_property
    def prompt_flops(self) -> tuple[float, float]:
        """The FLOPs of one prompt of the whole context: of its matrices, and of attention.

        Of a prompt only the last token needs logits, and a causal mask needs half of attention.
        """
        context = self.service.context
        names = {**self._names(1, context - 1), "sequence": context, "target": 1}
        modules, matrices, attention = self.server.modules, [], []
        for product in self.found.bind("forward", names):
            if modules.is_core(product.path):
                attention.append(product)
            elif modules.is_in_layers(product.path):
                matrices.append(product)
        return costs.matmul_flops(matrices), costs.matmul_flops(attention) / 2

    @cached_property
    def estimates(self) -> Estimates:
        """The calibrated estimates of time, or why there are none."""
        from weighbridge.answers import estimating  # noqa: PLC0415  # a bound does without

        return estimating.estimates_of(self)

    def run_cost(self, *, is_step: bool) -> RunCost:
        """Return the cost of a step of the batch, or of the prompt of one sequence."""
        service = self.service
        dtype, profile, notes = kernels_of_run(self.found, None, training=False)
        past = max(service.context - 1, 1)
        if is_step:
            run = Run(service.batch_of_copy, None, None, past, profile, dtype, training=False)
        else:
            run = Run(1, past, None, None, profile, dtype, training=False)
        return RunCost(self.found, run, notes)

    @cached_property
    def _peak(self) -> tuple[str, float]:
        dtype, form = self.server.compute_dtype, self.service.weights
        form = _PRODUCTS.get(form or "", form)
        if form is not None and units.is_dtype(form):
            dtype = units.dtype(form)
        return peak_of(self.devices.device, dtype)

    @property
    def peak(self) -> float:
        """The FLOP/s at which a device multiplies at most, in the dtype of the products."""
        return self._peak[1]

    @property
    def peak_dtype(self) -> str:
        """The dtype whose peak this is."""
        return self._peak[0]

    @property
    def tokens_per_second(self) -> float:
        """The most tokens that all sequences can get in a second."""
        return self.service.batch / self.step_bound.seconds

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        service = self.service
        return {
            "model": self.found.weighing.model.where,
            "family": self.found.known.family,
            "class": self.found.class_name,
            "on": {"devices": self.devices.number, "device": self.devices.device.name},
            "context": service.context,
            "batch": service.batch,
            "weights": self.server.label(service.weights),
            "cache": service.cache,
            "plan": {**service.plan._asdict(), "world": service.plan.world},
            "engine": service.engine._asdict(),
            "fits": self.fits,
            "weight_bytes": self.weight_bytes,
            "cache_bytes": self.cache_bytes,
            "device": {
                "weight_bytes": self.memory.weights,
                "cache_bytes": self.memory.cache,
                "activation_bytes": self.memory.activations,
            },
            "allowance_bytes": self.allowance,
            "kept_free_bytes": self.kept_free,
            "usable_bytes": self.usable_bytes,
            "left_bytes": self.left_bytes,
            "cache_memory_bytes": self.cache_room,
            "cache_tokens": self.cache_tokens,
            "largest_batch": self.largest_batch,
            "largest_context": self.largest_context,
            "step_seconds": self.step_bound.seconds,
            "prefill_seconds": self.prefill_bound.seconds,
            "tokens_per_second": self.tokens_per_second,
            "estimate": self.estimates.to_dict(),
            "changes": [change._asdict() for change in self.changes],
            "notes": self.notes,
            "evidence": self.found.evidence,
        }

    def document(self, lang: str = "en") -> Document:
        """Return the memory of a device, the verdict, what to change, and the bounds on time."""
        from weighbridge.answers import serve_table  # noqa: PLC0415  # JSON does without

        return serve_table.serve_document(self, lang)

    def svg(self, lang: str | None = None, picture: str = "memory") -> str:
        """Return a picture, an SVG file: ``"memory"`` of a device, or the ``"roofline"`` of a pass.

        Raises:
            UsageError: there is no such picture.

        Example:
            >>> serve("gpt2", on="L4", context=1024).svg()[:4]
            '<svg'
        """
        from weighbridge.answers import serve_table  # noqa: PLC0415  # text does without

        return drawn_as(picture, serve_table.PICTURES)(self, lang or self.lang)

    def save(
        self, file: str | os.PathLike[str], lang: str | None = None, picture: str = "memory"
    ) -> Path:
        """Write a picture to a file, and return the path.

        Raises:
            UsageError: the file does not end in .svg, or cannot be written.
        """
        return save_svg(file, self.svg(lang, picture))

    def _data_table(self, _: str) -> DataTable:
        from weighbridge.answers.data_table import (  # noqa: PLC0415  # a terminal does without
            INTEGER,
            Column,
            DataTable,
        )

        held = {
            **self.memory._asdict(),
            "allowance": self.allowance,
            "kept_free": self.kept_free,
            "left": self.left_bytes,
        }
        return DataTable((Column("held"), Column("bytes", INTEGER)), list(held.items()))


def _largest(fits: Callable[[int], bool], most: int = _MOST) -> int:
    """Return the largest size that fits, if all smaller ones do; 0 if none does."""
    least, beyond = 0, 1
    while beyond <= most and fits(beyond):
        least, beyond = beyond, beyond * 2
    beyond = min(beyond, most + 1)
    while beyond - least > 1:
        middle = (least + beyond) // 2
        if fits(middle):
            least = middle
        else:
            beyond = middle
    return least
