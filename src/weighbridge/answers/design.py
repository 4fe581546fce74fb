"""Sizes for a budget of parameters: every one in a space, exactly, with published rules beside."""

from __future__ import annotations

import heapq
import math
import re
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.cache import cache
from weighbridge.answers.data_table import INTEGER, NUMBER, Column, DataTable
from weighbridge.answers.fitting import bytes_of, large_number, usable_bytes
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.costs.devices import devices_on
from weighbridge.errors import ModelError, UsageError, WeighbridgeError
from weighbridge.ledger.solving import Solver
from weighbridge.ledger.symbols import letters_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weighbridge.ledger.solving import Solved
    from weighbridge.models.find import Described
    from weighbridge.render.document import Document

TOKENS_OF_A_PARAMETER = 20  # Hoffmann et al. 2022
_LAYERS = "4..128"
_HEAD_SIZES = "64,128"
_KEY_VALUE_HEADS = (1, 2, 4, 8, 16, 32, 64, 128)
_WIDEST = 65_536
_FIRST_TRIED, _MORE_TRIED = 400, 16  # designs put in order and tried, and how many times more next
_WANTED_ALIGNMENT = 64
_WIDTH_AT_NO_DEPTH, _WIDTH_BY_LAYER = 5.039, 5.55e-2  # Levine et al. 2020: ln(width) by the layers
_RANGE = re.compile(r"(\d+)\.\.(\d+)(?::(\d+))?")
_RATIOS = re.compile(r"(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")
_SCIENTIFIC = re.compile(r"\d+(?:\.\d+)?[eE]\+?\d+")
ORDERS = ("distance", "alignment", "aspect", "layers", "width", "ratio", "kv_heads")
"""What designs can be ordered by; the default is the distance to the budget, then alignment."""


class Roles(NamedTuple):
    """The fields of a family that a design chooses; None where the family has no such field."""

    layers: str
    width: str
    free: str
    heads: str | None
    kv_heads: str | None
    head_size: str | None
    vocabulary: str | None


class Design(NamedTuple):
    """A choice of sizes, and its exact parameters."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    size: int
    parameters: int


class Space(NamedTuple):
    """What is chosen from: each size's values, and the bounds on the total."""

    layers: tuple[int, ...]
    head_sizes: tuple[int, ...]
    kv_heads: tuple[int, ...]
    widths: tuple[int, ...]
    multiple_of: int
    ratios: tuple[float, float]
    least: int
    most: int


def design(  # noqa: PLR0913  # each is a word of its own for the user
    like: Described,
    class_name: str | None = None,
    *,
    parameters: float | str,
    within: float | str = "0.5%",
    head_dim: str | int | None = None,
    multiple_of: int = 128,
    depth: str | int | None = None,
    width: str | int | None = None,
    kv_heads: str | int | None = None,
    ratio: str = "0.25..8",
    solve_for: str | None = None,
    fits: str | None = None,
    serve_on: str | None = None,
    context: int = 4096,
    order: str = "distance",
    top: int = 12,
    dtype: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> DesignSearch:
    """Find all sizes of a family that have a number of parameters, exactly.

    Layers, widths, head sizes and key-value heads are enumerated. The feed-forward size is not
    searched but solved for. Everything else is as in the model that it is like.

    Args:
        like: a model or a family, as for `weigh`.
        class_name: as for `weigh`; by default a class that generates text, if there is one.
        parameters: the budget, such as ``1.3e9`` or ``"1.3B"``.
        within: the part of the budget that the total may miss it by, such as ``"0.5%"``.
        head_dim: the head sizes: ``"64,128"``, a range ``"64..128:32"`` or one.
        multiple_of: what the width and the feed-forward size are multiples of.
        depth: the numbers of layers; by default 4 to 128.
        width: the widths; by default all multiples that the budget allows.
        kv_heads: the numbers of key-value heads; by default powers of two.
        ratio: the least and the most feed-forward size for each unit of width.
        solve_for: the field that is solved for; by default the feed-forward size.
        fits: the most bytes of weights and of the cache of one sequence, such as ``"24GiB"``.
        serve_on: devices that must serve it, as for `serve`.
        context: the tokens of a sequence, for ``fits`` and ``serve_on``.
        order: what the designs are ordered by, one of `ORDERS`.
        top: how many of them are returned; 0 for all.
        dtype: the dtype of the weights; by default BF16.
        fields: config fields to replace in the model that it is like.

    Raises:
        UsageError: a size, a range or a name makes no sense.
        ModelError: there is no such model, or its sizes cannot be solved for.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> found = design("meta-llama/Llama-3.1-8B", parameters="8B", depth=32, width=4096,
        ...                head_dim=128, kv_heads=8)
        >>> [(each.size, each.parameters) for each in found.designs]
        [(14208, 7979929600), (14336, 8030261248)]
    """
    _check_choices(order, multiple_of, top)
    found = weigh(like, class_name, fields=fields, dtype=dtype or "bf16")
    if class_name is None:
        found = _generating(found)
    budget, part = _budget(parameters), _part_of_budget(within)
    roles = _roles_of_fields(found, solve_for)
    space = Space(
        sizes_in(depth, _LAYERS, "depth"),
        sizes_in(head_dim, _HEAD_SIZES, "head-dim"),
        () if kv_heads is None else sizes_in(kv_heads, "", "kv-heads"),
        _widths(width, multiple_of),
        multiple_of,
        _ratios(ratio),
        math.ceil(budget * (1 - part)),
        math.floor(budget * (1 + part)),
    )
    most_bytes = None if fits is None else bytes_of(fits, "fits")
    limits = Limits(most_bytes, serve_on, context)
    return DesignSearch(found, roles, space, Wanted(budget, limits, order, top))


def _check_choices(order: str, multiple_of: object, top: object) -> None:
    """Refuse an order that there is not, and numbers that make no sense."""
    if order not in ORDERS:
        raise UsageError(
            "there is no such order", values={"order": order}, hint=f"use {', '.join(ORDERS)}"
        )
    if type(multiple_of) is not int or multiple_of < 1:
        raise UsageError(
            "--multiple-of must be a positive integer",
            values={"multiple-of": multiple_of},
            hint="give 64, 128 or 256",
        )
    if type(top) is not int or top < 0:
        raise UsageError(
            "--top must be 0 or more", values={"top": top}, hint="give 0 for all designs"
        )


class Limits(NamedTuple):
    """What designs must fit: bytes, devices, and the tokens of a sequence on them."""

    bytes: int | None
    devices: str | None
    context: int


class Wanted(NamedTuple):
    """The budget, the limits, the order of the designs, and how many of them to return."""

    budget: int
    limits: Limits
    order: str
    top: int


def sizes_in(given: str | int | None, usual: str, option: str) -> tuple[int, ...]:
    """Return the sizes of a list or range written as text, in order.

    Raises:
        UsageError: it has another form.

    Example:
        >>> sizes_in("16..48:16", "", "depth"), sizes_in("64, 128", "", "head-dim")
        ((16, 32, 48), (64, 128))
    """
    sizes: list[int] = []
    for piece in str(usual if given is None else given).split(","):
        spelled = _RANGE.fullmatch(piece.strip())
        if spelled:
            first, last, step = (int(number or 1) for number in spelled.groups())
            sizes += range(first, last + 1, max(step, 1))
        elif piece.strip().isdecimal():
            sizes.append(int(piece))
        else:
            sizes.append(0)
    if not sizes or min(sizes) < 1 or max(sizes) > _WIDEST:
        raise UsageError(
            f"--{option} is neither a size nor a range",
            values={option: given},
            hint="write it as 32, as 16,32 or as 16..48",
        )
    return tuple(sorted(set(sizes)))


def _widths(given: str | int | None, multiple_of: int) -> tuple[int, ...]:
    if given is None:
        return tuple(range(multiple_of, _WIDEST + 1, multiple_of))
    return sizes_in(given, "", "width")


def _budget(parameters: float | str) -> int:
    text = str(parameters).strip()
    if _SCIENTIFIC.fullmatch(text):
        return int(float(text))
    return large_number(text, "parameters")


def _part_of_budget(within: float | str) -> Fraction:
    found = _SHARE.fullmatch(str(within).strip())
    part = Fraction(found[1]) / (100 if found[2] else 1) if found else Fraction(1)
    if part >= 1:
        raise UsageError(
            "--within is no part of the budget",
            values={"within": within},
            hint="write it as 0.5% or as 0.005",
        )
    return part


def _ratios(text: str) -> tuple[float, float]:
    found = _RATIOS.fullmatch(text.strip())
    if found is None or float(found[1]) > float(found[2]):
        raise UsageError("--ratio is no range", values={"ratio": text}, hint="write it as 2.5..4")
    return float(found[1]), float(found[2])


def _generating(weighing: Weighing) -> Weighing:
    """Return the class of a family that generates text, where neither config nor user name one."""
    from weighbridge.models.find import is_generative  # noqa: PLC0415

    model = weighing.model
    if is_generative(weighing.class_name) or model.config.get("architectures"):
        return weighing
    for name in model.blueprint.class_names:
        if name.endswith("ForCausalLM"):
            return Weighing(model, name, weighing.ledger.dtype)
    return weighing


def _roles_of_fields(weighing: Weighing, solve_for: str | None) -> Roles:
    """Return the fields that a design chooses, by the letters that formulas give them."""
    fields, blueprint = weighing.ledger.fields, weighing.model.blueprint
    by_letter = {letter: name for name, letter in letters_of(blueprint).items() if name in fields}
    used = weighing.ledger.formula().fields()
    layers, width = by_letter.get("L"), by_letter.get("H")
    candidates = [by_letter.get(letter) for letter in ("F", "F_m", "F_l")]
    free = solve_for and blueprint.aliases.get(solve_for, solve_for)
    if solve_for and free not in used:
        raise UsageError(
            f"the parameters of {weighing.class_name} do not depend on {solve_for}",
            hint=f"they depend on {', '.join(sorted(used))}",
        )
    enumerated = [by_letter.get(letter) for letter in ("L", "H", "A", "A_kv", "D")]
    if free is not None and free in enumerated:
        raise UsageError(
            f"{free} is enumerated, so that it cannot be solved for",
            hint="solve for the feed-forward size or the vocabulary",
        )
    free = free or next((name for name in candidates if name in used), None)
    if layers is None or width is None or free is None:
        raise ModelError(
            f"{blueprint.family} has no layers, width and feed-forward size to choose",
            hint="name a family with them, such as llama, or another field with --solve-for",
        )
    return Roles(
        layers,
        width,
        free,
        by_letter.get("A"),
        by_letter.get("A_kv"),
        by_letter.get("D"),
        by_letter.get("V"),
    )


class DesignSearch(TabularAnswer):
    """What `design` returns.

    ``designs`` are the best by its order, each weighed. ``number`` is how many the space has.
    """

    groupings = ("design",)

    def __init__(self, weighing: Weighing, roles: Roles, space: Space, wanted: Wanted) -> None:
        self.weighing, self.roles, self.space = weighing, roles, space
        self.budget, self.limits, self.order, self.top = wanted
        layout = [name for name in self._layout_fields() if name]
        computed = weighing.model.computed
        self.solver = Solver(weighing.ledger, computed, roles.layers, roles.free, layout)

    def _layout_fields(self) -> tuple[str | None, ...]:
        roles = self.roles
        return roles.width, roles.heads, roles.kv_heads, roles.head_size

    @property
    def status(self) -> int:
        """0 if there is a design, 1 if there is none."""
        return 0 if self.designs else 1

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read."""
        return self.weighing.notes

    def layouts(self) -> Iterator[dict[str, int]]:
        """Yield every choice of width, head size, heads and key-value heads."""
        for width in self.space.widths:
            if not self._is_within_budget(width):
                return
            for heads, head_size in self._heads(width):
                for kv_heads in self._kv_heads(heads):
                    values = (width, heads, kv_heads, head_size)
                    names = self._layout_fields()
                    pairs = zip(names, values, strict=True)
                    yield {name: value for name, value in pairs if name and value}

    def _is_within_budget(self, width: int) -> bool:
        """Whether the vocabulary alone leaves anything of the budget at a width."""
        name = self.roles.vocabulary
        if name == self.roles.free:
            return True
        return not name or self.weighing.ledger.fields[name] * width <= self.space.most

    def _heads(self, width: int) -> Iterator[tuple[int, int]]:
        if not self.roles.heads:
            yield 0, 0
            return
        for size in self.space.head_sizes:
            if width % size == 0:
                yield width // size, size

    def _kv_heads(self, heads: int) -> Sequence[int]:
        if not self.roles.kv_heads or not heads:
            return (0,)
        asked = self.space.kv_heads or _KEY_VALUE_HEADS
        return [number for number in asked if number <= heads and heads % number == 0]

    def solved(self) -> Iterator[Solved]:
        """Yield the sizes of each layout within the budget."""
        space = self.space
        least, most = space.ratios
        for found in self.solver.solve(
            self.layouts(), space.layers, space.least, space.most, space.multiple_of
        ):
            width, sizes = found.layout[self.roles.width], found.sizes
            if self.roles.free != self.roles.vocabulary:
                sizes = _between(sizes, least * width, most * width)
            if sizes:
                yield found._replace(sizes=sizes)

    def every(self) -> Iterator[Design]:
        """Yield every design within the budget, in the order of the search."""
        roles = self.roles
        for found in self.solved():
            layout = found.layout
            width = layout[roles.width]
            heads = layout.get(roles.heads or "", 0)
            kv_heads = layout.get(roles.kv_heads or "", heads)
            head_size = width // heads if heads else 0
            rest, slope = found.rest, found.slope
            for size in found.sizes:
                total = rest + slope * size
                yield Design(found.layers, width, heads, kv_heads, head_size, size, total)

    @cached_property
    def number(self) -> int:
        """The number of designs in the space that are within the budget."""
        return sum(len(found.sizes) for found in self.solved())

    @cached_property
    def designs(self) -> list[Design]:
        """The designs in their order, as many as were asked for, each weighed and fitting."""
        if self.limits.devices is None and self.limits.bytes is None:
            found = self._ordered(self.top)
        else:
            found = self._fitting()
        for each in found:
            self._check(each)
        return found

    def _fitting(self) -> list[Design]:
        """Return the first designs in their order that fit; all designs are tried if need be."""
        room, found = Room(self), list[Design]()
        wanted = self.top or self.number
        tried, number = 0, _FIRST_TRIED
        while len(found) < wanted and tried < self.number:
            ordered = self._ordered(number if self.top else 0)
            fitting = filter(room.has, ordered[tried:])
            found += islice(fitting, wanted - len(found))
            tried = len(ordered)
            number *= _MORE_TRIED
        return found

    def _ordered(self, number: int) -> list[Design]:
        key = _KEYS[self.order]

        def rank(each: Design) -> tuple[Any, ...]:
            return (*key(self, each), each)

        if not number:
            return sorted(self.every(), key=rank)
        return heapq.nsmallest(number, self._candidates(number), key=rank)

    def _candidates(self, number: int) -> Iterator[Design]:
        """Yield the designs that may be among the first; far ones are left out early."""
        if self.order != "distance":
            yield from self.every()
            return
        budget, nearest = self.budget, list[int]()
        for each in self.every():
            distance = abs(each.parameters - budget)
            if len(nearest) < number:
                heapq.heappush(nearest, -distance)
            elif distance > -nearest[0]:
                continue
            else:
                heapq.heappushpop(nearest, -distance)
            yield each

    def fields_of(self, each: Design) -> dict[str, int]:
        """Return the config fields of a design."""
        roles = self.roles
        pairs = (
            (roles.layers, each.layers),
            (roles.width, each.width),
            (roles.heads, each.heads),
            (roles.kv_heads, each.kv_heads),
            (roles.head_size, each.head_size),
            (roles.free, each.size),
        )
        return {name: value for name, value in pairs if name and value}

    def weighed(self, each: Design) -> Weighing:
        """Weigh a design."""
        config, fields = self.weighing.model.config, self.fields_of(each)
        dtype = self.weighing.ledger.dtype
        return weigh(config, self.weighing.class_name, fields=fields, dtype=dtype)

    def _check(self, each: Design) -> None:
        """Hold a design against `weigh`."""
        parameters = self.weighed(each).parameters
        if parameters != each.parameters:
            raise ModelError(
                "the closed form and the weighing of a design differ",
                values={"closed form": each.parameters, "weighed": parameters},
                hint=f"report this, with the fields {self.fields_of(each)}",
            )

    def weight_bytes(self, each: Design) -> int:
        """Return the bytes of a design's weights."""
        return units.stored_bytes(each.parameters, self.weighing.ledger.dtype)

    def alignment(self, each: Design) -> int:
        """Return the largest power of two that divides every size of a design."""
        vocabulary = self.weighing.ledger.fields.get(self.roles.vocabulary or "")
        sizes = (each.width, each.size, each.head_size, vocabulary or 0)
        together = math.gcd(*sizes)
        return together & -together

    def cache_bytes(self, each: Design, tokens: int) -> int | None:
        """Return the bytes of the cache of one sequence; None if it is not known."""
        config = dict(self.weighing.model.config)
        try:
            found = cache(
                config,
                self.weighing.class_name,
                context=tokens,
                dtype=self.weighing.ledger.dtype,
                fields=self.fields_of(each),
            )
        except WeighbridgeError:
            return None
        return found.cache_bytes

    def kv_bytes_per_token(self, each: Design) -> int | None:
        """Return the bytes of keys and values that a token adds; None if it is not known."""
        one, two = self.cache_bytes(each, 1), self.cache_bytes(each, 2)
        return None if one is None or two is None else two - one

    def largest_batch(self, each: Design) -> int:
        """Return the largest batch that the devices serve at the context; 0 if none."""
        from weighbridge.answers.serve import serve  # noqa: PLC0415  # few ask for it

        return serve(
            dict(self.weighing.model.config),
            self.weighing.class_name,
            on=self.limits.devices or "",
            context=self.limits.context,
            batch=1,
            weights=self.weighing.ledger.dtype,
            fields=self.fields_of(each),
        ).largest_batch

    def columns(self, each: Design) -> dict[str, Any]:
        """Return what published rules say about a design, by their names."""
        found: dict[str, Any] = {
            "distance": each.parameters - self.budget,
            "bytes": self.weight_bytes(each),
            "ratio": round(each.size / each.width, 2),
            "aspect": round(each.width / each.layers, 1),
            "threshold": round(math.log(each.width, 3), 1),
            "fitted_depth": round(fitted_depth(each.width), 1),
            "alignment": self.alignment(each),
            "tokens": TOKENS_OF_A_PARAMETER * each.parameters,
            "kv_bytes_per_token": self.kv_bytes_per_token(each),
        }
        if self.limits.devices is not None:
            found["largest_batch"] = self.largest_batch(each)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        from weighbridge import data  # noqa: PLC0415

        rules = data.read_toml("facts/design_rules.toml")
        widths = [layout[self.roles.width] for layout in self.layouts()]
        return {
            "like": self.weighing.model.where,
            "family": self.weighing.model.blueprint.family,
            "class": self.weighing.class_name,
            "budget": self.budget,
            "least": self.space.least,
            "most": self.space.most,
            "dtype": self.weighing.ledger.dtype,
            "space": {
                "layers": list(self.space.layers),
                "widths": sorted(set(widths)),
                "head_sizes": list(self.space.head_sizes),
                "kv_heads": list(self.space.kv_heads or _KEY_VALUE_HEADS),
                "multiple_of": self.space.multiple_of,
                "ratios": list(self.space.ratios),
                "solved_for": self.roles.free,
            },
            "number": self.number,
            "order": self.order,
            "designs": [
                {
                    "fields": self.fields_of(each),
                    "parameters": each.parameters,
                    **self.columns(each),
                }
                for each in self.designs
            ],
            "rules": {name: rule["source"] for name, rule in rules.items()},
            "notes": self.notes,
        }

    def document(self, lang: str = "en") -> Document:
        """Return the designs as a table, with the rules and their sources."""
        from weighbridge.answers.design_table import design_document  # noqa: PLC0415

        return design_document(self, lang)

    def _data_table(self, _: str) -> DataTable:
        rows = [(*each, *self.columns(each).values()) for each in self.designs]
        names = [*Design._fields]
        if self.designs:
            names += self.columns(self.designs[0])
        numbers = ("ratio", "aspect", "threshold", "fitted_depth")
        kinds = {name: NUMBER if name in numbers else INTEGER for name in names}
        return DataTable(tuple(Column(name, kind) for name, kind in kinds.items()), rows)


class Room:
    """Which designs fit into bytes or devices, with as few as possible tried there.

    Of two designs that differ in the size that is solved for alone, the larger needs more memory.
    """

    def __init__(self, search: DesignSearch) -> None:
        self._search, self._limits = search, search.limits
        self._caches: dict[tuple[int, ...], int] = {}
        self._largest_that_fits: dict[tuple[int, ...], int] = {}
        self._least_that_does_not: dict[tuple[int, ...], int] = {}
        self._device_bytes, self._devices = math.inf, 1
        if self._limits.devices is not None:
            devices = devices_on(self._limits.devices)
            self._devices = devices.number
            self._device_bytes = usable_bytes(devices.device) * devices.number

    def has(self, each: Design) -> bool:
        """Return whether a design fits."""
        if each.heads % self._devices:
            return False  # they do not divide its heads
        most = self._device_bytes
        if self._limits.bytes is not None:
            most = min(most, self._limits.bytes)
        held = self._search.weight_bytes(each)
        if held > most or held + self._cache_bytes(each) > most:
            return False
        return self._limits.devices is None or self._is_served(each)

    def _cache_bytes(self, each: Design) -> int:
        shape = _shape_of(each)
        if shape not in self._caches:
            self._caches[shape] = self._search.cache_bytes(each, self._limits.context) or 0
        return self._caches[shape]

    def _is_served(self, each: Design) -> bool:
        shape, size = _shape_of(each), each.size
        if size <= self._largest_that_fits.get(shape, 0):
            return True
        if size >= self._least_that_does_not.get(shape, math.inf):
            return False
        is_served = self._search.largest_batch(each) > 0
        known = self._largest_that_fits if is_served else self._least_that_does_not
        known[shape] = size
        return is_served


def _shape_of(each: Design) -> tuple[int, ...]:
    """Return the sizes of a design without the one that is solved for."""
    return each.layers, each.width, each.heads, each.kv_heads, each.head_size


def fitted_depth(width: int) -> float:
    """Return the layers for which a width is best, by the fit of Levine et al. (2020).

    Example:
        >>> round(fitted_depth(4096), 1)
        59.1
    """
    return (math.log(width) - _WIDTH_AT_NO_DEPTH) / _WIDTH_BY_LAYER


def _between(sizes: range, least: float, most: float) -> range:
    """Return the sizes of a range that are from ``least`` to ``most``."""
    first = sizes.start + max(0, math.ceil((least - sizes.start) / sizes.step)) * sizes.step
    return range(first, min(sizes.stop, math.floor(most) + 1), sizes.step)


_KEYS: dict[str, Any] = {
    "distance": lambda search, each: (
        abs(each.parameters - search.budget),
        -search.alignment(each),
    ),
    "alignment": lambda search, each: (
        -min(search.alignment(each), _WANTED_ALIGNMENT),
        abs(each.parameters - search.budget),
    ),
    "aspect": lambda _, each: (each.width / each.layers,),
    "layers": lambda _, each: (each.layers,),
    "width": lambda _, each: (each.width,),
    "ratio": lambda _, each: (each.size / each.width,),
    "kv_heads": lambda _, each: (each.kv_heads,),
}
