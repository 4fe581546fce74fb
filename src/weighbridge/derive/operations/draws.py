"""Draws: random configs that a class can run on, and the sizes of a run.

Operations are found from several draws that have the same run sizes, layers and windows, so that
loops go round equally often, and no other size in common. Run sizes are prime numbers that divide
no other size. So the numbers of one tensor in all draws show of which sizes they are the product.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from transformers import PreTrainedConfig

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in, parse, parse_all
from weighbridge.blueprint.operations import HEADS, ROTATED, are_heads_alike
from weighbridge.errors import ModelError, WeighbridgeError
from weighbridge.models import find as models

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.derive.probing.subject import Subject

_SHORT = {"batch": 5, "choices": 5, "short": 7}
_WINDOWS = {"chunk": 13, "window": 19}
_LONG = {"target": 29, "sequence": 41, "past": 53}
"""The least values, in ascending order: ``short`` is a sequence shorter than any chunk or window,
and ``sequence`` is longer than either."""
_SHORT_WITH_IMAGES = {"batch": 7, "images": 11, "short": 19}
"""The sizes themselves, which divide neither the square of a small grid, nor one more."""
_SHORT_WITH_PATCHES = {"batch": 7, "images": 5, "short": 19}
"""The same if a run says how large its images are: code goes through them one by one."""
_TOKENS_OF_IMAGE = 13  # of each image, if the run says how many patches it has: a prime number
_MOST_TOKENS_OF_IMAGE = 16  # so that the images of a draw fit in a sequence that is not too long
_MOST_IMAGES = 3  # in each sequence of a draw in which everything is random
_SIZES = {"grid": 2, "small": 2, "medium": 13, "large": 130}
"""The least value of every other kind of size. Small ones are drawn first, to remain small. A grid
is no size itself, and may be equal to one; it remains so small that images fit in a sequence."""
_GRID = "grid"
_KINDS = {*_WINDOWS, *_SIZES}
_LEAST_SEQUENCE = 2  # of which one token is predicted
_LAYERS = 5  # enough for two types of layers, between a first and a last one
_LAYERS_ALIKE = 3  # a first one, one between, and a last one
_FEWEST_OF_A_TYPE = 2  # layers of each type, in draws that operations are found from
ROWS = 8
PADDED = (32, ROWS)
"""What memory-efficient attention pads its statistics, and the rows of a mask, to multiples of."""
CHUNK = 17  # the chunk of a family that has a field for it
PIECES = 11  # of each sequence: a prime number, and more than code repeats by hand
IN_PIECES = {
    CHUNK: {"batch": 7, "short": 13, "sequence": 173, "past": 179},
    64: {"batch": 5, "short": 13, "sequence": 643, "past": 653},
}
"""The sizes of runs whose sequences are cut into chunks, by the length of a chunk.

Code has many sizes then: the chunk, the pieces of a sequence and of all sequences, one more and one
less of these, and what is below the diagonal of a chunk. None of them is the product of others.
"""
_MOST_PIECES = 4  # the most chunks of a random sequence
_WHOLE_PIECES = 0.25  # the share of random sequences that have a whole number of them
_MOST_BATCHES = 11  # a sequence one longer or shorter is no multiple of a batch of at most this
_CHOICES = 3  # a number is drawn from so many that are free,
_PRIMES = 2  # and a prime number from so many
_MOST_REFUSED = 8000  # draws in a row that are no configs of the family
_MOST_TRIED = 400_000  # draws in a row, of which most have equal sizes
_LAYER_TYPES = "layer_types"
_TOKEN = "_token_id"  # a token that a model lacks is given to none
_NO_SHAPES = ("num_labels",)


class RunDraw(NamedTuple):
    """A config as changes by dotted path, its fields, and the sizes of a run by name."""

    changes: Mapping[str, Any]
    fields: Mapping[str, Any]
    run: Mapping[str, int]

    @property
    def names(self) -> dict[str, Any]:
        """The values that an expression of sizes may name."""
        return {**self.fields, **self.run}


class Draws:
    """The draws of a family; ``fixed`` fields have a value that a class cannot run without."""

    def __init__(
        self,
        subject: Subject,
        blueprint: Blueprint,
        fixed: Mapping[str, int] | None = None,
        images: Mapping[str, str] | None = None,
    ) -> None:
        self.subject, self.blueprint, self.fixed = subject, blueprint, fixed or {}
        self.images = parse_all(images or {})
        """What `images_in` says of the images in a sequence; empty if the class has none."""
        self.image_tokens = self.images.get("tokens")
        self.usual = {knob.path: knob.value for knob in subject.knobs({})}
        self._facts = data.read_toml("facts/running.toml")

    @cached_property
    def layer_types(self) -> dict[str, list[str]]:
        """The fields that give each layer a type, with the types they may have."""
        fields = self.subject.fields(self.subject.config({}))
        stated: list[str] = self._facts["types"].get(self._family, [])
        named = {name for name in fields if name.endswith(_LAYER_TYPES)} | {*self._named_types}
        return {
            name: sorted({*value, *stated})
            for name, value in fields.items()
            if name in named and _is_list_of_texts(value)
        }

    @cached_property
    def last_types(self) -> dict[str, str]:
        """The type that the config class gives the last layer in any case, by field."""
        found: dict[str, str] = {}
        for name, types in self.layer_types.items():
            counts = dict.fromkeys(self.layer_counts, _FEWEST_OF_A_TYPE)
            alike = [{**counts, name: [kind] * _FEWEST_OF_A_TYPE} for kind in types]
            made = [self.subject.fields(self.subject.config(changes))[name] for changes in alike]
            last = {of_layers[-1] for of_layers in made}
            if len(last) == 1 < len(types):
                found[name] = last.pop()
        return found

    @property
    def index_lists(self) -> list[str]:
        """The fields that list the indices of the layers that have another type."""
        lists: list[str] = self._facts["indices"].get(self._family, [])
        return lists

    @property
    def factors(self) -> list[Tree]:
        """The sums of sizes that are a dim of a tensor, besides those of the blueprint."""
        sums: list[str] = self._facts["factors"].get(self._family, [])
        return [*map(parse, sums)]

    @property
    def listed(self) -> dict[str, Tree]:
        """The lists of indices of layers, with how many layers there are."""
        return {
            name: ("name", count)
            for name in self.index_lists
            for count in self.layer_counts
            if _parent(name) == _parent(count)
        }

    @cached_property
    def windows(self) -> list[str]:
        """The fields that are windows or chunks, at which operations change."""
        return [path for path, tree in self.rules.items() if tree[-1] in _WINDOWS]

    @cached_property
    def halved(self) -> list[Tree]:
        """The windows that are half of a field, which says how wide both sides are together."""
        double = ("*", ("value", 2), ("name", "window"))
        return [
            ("//", ("name", path), ("value", 2))
            for path, tree in self.rules.items()
            if tree == double
        ]

    @cached_property
    def chunks(self) -> list[Tree]:
        """The lengths of the pieces into which code cuts a sequence: fields, or a number."""
        chunks: list[Tree] = [
            ("name", path) for path, tree in self.rules.items() if tree == ("name", "chunk")
        ]
        return chunks + ([("value", self.chunk)] if self.chunk else [])

    @cached_property
    def equal(self) -> dict[str, str]:
        """Sizes that released configs have equal to another, with it; no draw has them equal.

        They are the heads of keys, of which each serves several queries, those of linear attention,
        of which each serves several values, and those that the blueprint compares.
        """
        pairs = {**self.key_heads}
        for name, tree in self.rules.items():
            if name.endswith("value_heads") and tree[0] == "*":
                keys = (key for key in _fields_of(name, tree) if key.endswith("key_heads"))
                pairs.update(dict.fromkeys(keys, name))
        for left, right in self._compared:
            if {left, right} <= {("name", name) for name in self._sizes}:
                pairs[left[1]] = right[1]
        return pairs

    @cached_property
    def key_heads(self) -> dict[str, str]:
        """The heads of keys, of which each serves several queries, with the heads of queries.

        No draw has a single one, which code repeats as a view.
        """
        pairs = {}
        for name, tree in self.rules.items():
            if name.endswith("heads") and tree[0] == "*" and tree[2] == ("name", "small"):
                keys = (key for key in _fields_of(name, tree) if "kv_" in key or "key_value" in key)
                pairs.update(dict.fromkeys(keys, name))
        return pairs

    @cached_property
    def lone_heads(self) -> dict[str, str]:
        """The heads that are tried alone, with the heads of queries: those of keys, if any."""
        of_queries = (name for name in self.rules if name.rpartition(".")[2] in HEADS)
        return self.key_heads or {name: name for name in of_queries}

    @cached_property
    def nullable(self) -> list[str]:
        """Sizes that may be null, on which it depends which tensors exist."""
        asked = {left[1] for left, right in self._compared if right == ("value", None)}
        return [name for name in self._sizes if name in asked]

    @cached_property
    def _compared(self) -> list[tuple[Tree, Tree]]:
        """What the blueprint compares: whether it is equal decides which tensors exist."""
        parts = asked_by(self.blueprint)
        return [part[1:] for part in parts if part[0] in ("==", "!=") and part[1][0] == "name"]

    @property
    def chunk(self) -> int | None:
        """The length of the pieces into which the family's code cuts a sequence, if no field."""
        chunk: int | None = self._facts["chunks"].get(self._family)
        return chunk

    @property
    def turned(self) -> dict[str, Any]:
        """What some released models have otherwise than the draws: flags, texts and shares."""
        turned: dict[str, Any] = self._facts["turned"].get(self._family, {})
        return turned

    @property
    def unturned(self) -> dict[str, Any]:
        """The same with the values that the draws have: rotary embeddings turn all of a head."""
        return {name: 1.0 if name == ROTATED else self.usual[name] for name in self.turned}

    @property
    def read(self) -> dict[str, Any]:
        """Fields that the config class reads and does not name, with what it assumes."""
        values: dict[str, Any] = self._facts["read"].get(self._family, {})
        return values

    @property
    def released(self) -> dict[str, Any]:
        """The values that released models have, and the default config does not."""
        values: dict[str, Any] = self._facts["released"].get(self._family, {})
        return values

    def _following(self, changes: Mapping[str, Any]) -> dict[str, list[int]]:
        """Return the lists whose numbers follow from what is drawn, such as parts of a head."""
        lists: dict[str, list[str]] = self._facts["lists"].get(self._family, {})
        return {
            name: [evaluate(parse(text), changes) for text in texts]
            for name, texts in lists.items()
        }

    @cached_property
    def made(self) -> dict[str, Any]:
        """What the config class makes of its fields, and a config may state nevertheless.

        These are flags and texts that no tensor depends on; the blueprint computes the others.
        """
        config = self.subject.config({})
        known = {*self.usual, *self.blueprint.computed, *vars(PreTrainedConfig())}
        return {
            name: value
            for name, value in self.subject.fields(config).items()
            if name not in known and "." not in name and isinstance(value, bool | str)
        }

    def made_if_turned(self, name: str) -> list[Any]:
        """Return what else the config class makes of its fields for a name if one is turned."""
        configs = (self.subject.config({turned: of}) for turned, of in self.turned.items())
        values = [getattr(config, name, self.made[name]) for config in configs]
        return [value for value in dict.fromkeys(values) if value != self.made[name]]

    @property
    def left_out(self) -> list[str]:
        """The profiles that the family is not recorded on."""
        profiles: list[str] = self._facts["left_out"].get(self._family, [])
        return profiles

    @cached_property
    def rules(self) -> dict[str, Tree]:
        """The rule by which each size is drawn, in an order in which they can be evaluated."""
        rules: dict[str, Tree] = {}
        for path, value in self.usual.items():
            name = path.rpartition(".")[2]
            is_lacking = value is None and name.endswith(_TOKEN)
            is_list = path in self.index_lists or not isinstance(value, int | None)
            if is_list or path in self.layer_counts or is_lacking:
                continue
            is_shape = path in self.blueprint.sizes and name not in _NO_SHAPES
            by_name = self._rules_by_name
            stated = by_name.get(path, by_name.get(name, ["medium"] if is_shape else []))
            choices = map(parse, stated)
            fitting = (tree for tree in choices if self.usual.keys() >= {*_fields_of(path, tree)})
            rules.update((path, tree) for tree in itertools.islice(fitting, 1))
        small_first = sorted(rules.items(), key=lambda rule: "small" not in names_in(rule[1]))
        return dict(_in_order(dict(small_first)))

    @property
    def constants(self) -> dict[str, Any]:
        """The fields that have one value in every draw, with it."""
        values = {path: tree[1] for path, tree in self.rules.items() if tree[0] == "value"}
        return {**values, **self.released}

    @property
    def _named_types(self) -> list[str]:
        """The lists of texts that decide which tensors exist, if the reference has their length."""
        repeated = set(itertools.chain.from_iterable(map(names_in, self.blueprint.repeat.values())))
        return [name for name in self.blueprint._raw.get("values", {}) if name in repeated]

    @property
    def loops(self) -> list[str]:
        """The fields that say how often shared layers run."""
        loops: list[str] = self._facts["loops"].get(self._family, [])
        return loops

    @cached_property
    def layer_counts(self) -> list[str]:
        """The fields that are numbers of layers, of which every draw has as many."""
        counts = [*self.blueprint.counts, *self.loops]
        return [path for path in counts if path.rpartition(".")[2] not in self._rules_by_name]

    @cached_property
    def counts_in_dims(self) -> list[str]:
        """The numbers of layers that sizes of tensors are multiples of."""
        factors = set(itertools.chain.from_iterable(map(_factors_of, self.blueprint.dims.values())))
        return [name for name in self.layer_counts if ("name", name) in factors]

    @property
    def _rules_by_name(self) -> dict[str, list[str]]:
        fixed = {name: [str(value)] for name, value in self.fixed.items()}
        return {**self._facts["fields"], **self._facts["families"].get(self._family, {}), **fixed}

    def _layers(self, layers: int) -> dict[str, int]:
        """Return numbers of layers; where several are independent, each is another number.

        Those that are beside a list of types are as many as it has.
        """
        counted = [("name", path) for path in self.layer_counts]
        repeated = [tree for tree in self.blueprint.repeat.values() if tree in counted]
        apart = [tree[1] for tree in dict.fromkeys(repeated)]
        if typed := {_parent(name) for name in self.layer_types}:
            apart = ["", *(path for path in apart if _parent(path) not in typed)]
        more = {path: place for place, path in enumerate(apart)}
        return {path: layers + more.get(path, 0) for path in self.layer_counts}

    @property
    def _are_layers_alike(self) -> bool:
        """Whether neither a list nor a tensor tells one layer from another."""
        templates = map(self.blueprint.templates, self.blueprint.class_names)
        varies = any(template.varies for template in itertools.chain.from_iterable(templates))
        return not (varies or self.layer_types or self.index_lists)

    @property
    def _family(self) -> str:
        return self.blueprint.family

    def alike(self, dice: random.Random, count: int) -> list[RunDraw]:
        """Return draws with the same run sizes, layers and windows, and no other size in common.

        Raises:
            ModelError: no config could be drawn.
        """
        usual = _LAYERS_ALIKE if self._are_layers_alike else _LAYERS
        layers = self._facts["layers"].get(self._family, usual)
        numbers = _Numbers(dice)
        if self.counts_in_dims:
            numbers.reserve(layers)
        shared, windows = self._lengths(numbers)
        types = self._types(dice, layers, fewest=_FEWEST_OF_A_TYPE)
        draws: list[RunDraw] = []
        for draw in self._draw(numbers, layers, types, shared, windows):
            is_clear = not any(self._hides_a_product(draw, other) for other in draws)
            has_room = self._tokens_of_image(draw) <= _MOST_TOKENS_OF_IMAGE
            if is_clear and has_room and self._is_clear(draw):
                numbers.keep()
                draws.append(draw)
            if len(draws) == count:
                break
        return draws

    def _tokens_of_image(self, draw: RunDraw) -> int:
        """Return the tokens of each image in a sequence; 0 if the class has none."""
        if self.image_tokens is None:
            return 0
        tokens: int = evaluate(self.image_tokens, draw.names)
        return tokens

    @cached_property
    def patches_of_token(self) -> int:
        """The patches that are merged into each token of an image; 0 if no run says how many."""
        merged = self.images.get("merged")
        return 0 if merged is None else evaluate(merged, self.constants) ** 2

    def _lengths(self, numbers: _Numbers) -> tuple[dict[str, int], dict[str, int]]:
        """Return the sizes of a run and the windows, as prime numbers."""
        if self.chunks:
            return self._lengths_in_pieces(numbers)
        if self.image_tokens:
            sizes = _SHORT_WITH_PATCHES if self.patches_of_token else _SHORT_WITH_IMAGES
            shared = numbers.reserved(sizes)
            if self.patches_of_token:
                numbers.reserve(_TOKENS_OF_IMAGE)
                shared["patches"] = _TOKENS_OF_IMAGE * self.patches_of_token
        else:
            shared = {name: numbers.prime(least) for name, least in _SHORT.items()}
        over = max(shared.values())
        windows = {kind: numbers.prime(max(least, over)) for kind, least in _WINDOWS.items()}
        images = shared.get("images", 0)
        over = max(*windows.values(), images * _MOST_TOKENS_OF_IMAGE + 1)
        apart = [shared["batch"], images] if images else []
        lengths: dict[str, int] = {}
        for name, least in _LONG.items():
            others = lengths.values() if self._encodes_and_decodes else ()
            lengths[name] = numbers.length(max(least, over), apart, others)
        return shared | lengths, windows

    @property
    def _encodes_and_decodes(self) -> bool:
        """Whether runs have two sequences, which must not be padded to the same length."""
        return bool(self.subject.config({}).is_encoder_decoder)

    def _lengths_in_pieces(self, numbers: _Numbers) -> tuple[dict[str, int], dict[str, int]]:
        """Return the same of runs with sequences that code cuts into chunks."""
        chunk = self.chunk or CHUNK
        shared = numbers.reserved(IN_PIECES[chunk])
        numbers.reserve(PIECES)
        if self.chunk is None:
            numbers.reserve(chunk)
        windows = {"chunk": chunk, "window": numbers.prime(_WINDOWS["window"])}
        least = max(shared.values()) + 1
        more = {name: numbers.length(least, [shared["batch"]]) for name in ("target", "choices")}
        return shared | more, windows

    def _hides_a_product(self, draw: RunDraw, other: RunDraw) -> bool:
        """Whether the product of two sizes is the same in two draws, as if it were a constant."""
        pairs = itertools.combinations_with_replacement(self._sizes, 2)
        return any(
            draw.changes[one] * draw.changes[two] == other.changes[one] * other.changes[two]
            for one, two in pairs
        )

    def _is_clear(self, draw: RunDraw) -> bool:
        """Whether no size, or sum of sizes, can be taken for another, or for one of the run."""
        sums = self._sums(draw)
        sizes = [draw.changes[name] for name in self._free]
        values = [*sizes, *filter(None, sums.values())]
        calculated = [value for tree, value in sums.items() if not self._is_name(tree)]
        if not self._are_distinct(draw.changes) or not set(sizes).isdisjoint(calculated):
            return False
        return all(value % size for value in values for size in draw.run.values())

    def _is_name(self, tree: Tree) -> bool:
        """Whether a calculated size may be another size: by a condition, or divided by 1."""
        if tree[0] == "//":
            return [self.constants.get(name) for name in names_in(tree[2])] == [1]
        return bool(tree[0] == "if")

    @cached_property
    def _grids(self) -> list[str]:
        """The sizes that are multiples of a grid."""
        return [path for path, tree in self.rules.items() if _GRID in names_in(tree)]

    @cached_property
    def _free(self) -> list[str]:
        """The sizes that are not meant to be equal to others."""
        rules = self.rules
        return [path for path in self._sizes if rules[path][0] != "name" or _is_kind(rules[path])]

    def _are_distinct(self, changes: Mapping[str, Any]) -> bool:
        return len({changes[path] for path in self._free}) == len(self._free)

    def _sums(self, draw: RunDraw) -> dict[Tree, int]:
        """Return the factors of dims that are calculated, with their values."""
        sums: dict[Tree, int] = {}
        for part in itertools.chain.from_iterable(map(sums_in, self.blueprint.dims.values())):
            with suppress(WeighbridgeError):  # it may be of a layer that this config does not have
                sums[part] = evaluate(part, draw.fields)
        return sums

    @cached_property
    def _sizes(self) -> list[str]:
        """The fields that differ between draws."""
        kinds = set(_SIZES)
        names: list[str] = []
        for path, tree in self.rules.items():
            fields = _fields_of(path, tree)
            if kinds.intersection(names_in(tree)) or not set(fields).isdisjoint(names):
                names.append(path)
        return names

    def unlike(self, dice: random.Random, most_layers: int) -> Iterator[RunDraw]:
        """Yield draws in which everything is random.

        Raises:
            ModelError: no config could be drawn.
        """
        while True:
            numbers = _Numbers(dice, is_distinct=False)
            layers = dice.randint(1, most_layers)
            sizes = {**_SHORT, **_LONG}
            run = {name: dice.randint(1, 2 * least) for name, least in sizes.items()}
            run["sequence"] = max(run["sequence"], _LEAST_SEQUENCE)
            windows = {kind: dice.randint(2, 2 * least) for kind, least in _WINDOWS.items()}
            if self.chunk:
                run["sequence"] = dice.randint(_LEAST_SEQUENCE, _MOST_PIECES * self.chunk)
                if dice.random() < _WHOLE_PIECES:
                    run["sequence"] = dice.randint(1, _MOST_PIECES) * self.chunk
            types = self._types(dice, layers)
            for name, last in self.last_types.items():
                types[name][-1] = last
            drawn = self._draw(numbers, layers, types, run, windows)
            draw = next(draw for draw in drawn if not are_heads_alike(draw.fields))
            yield self._with_images(draw, dice) if self.image_tokens else draw

    def _with_images(self, draw: RunDraw, dice: random.Random) -> RunDraw:
        """Return a draw with some images, and as many more tokens in each sequence."""
        sizes = {"images": dice.randint(0, _MOST_IMAGES)}
        if self.patches_of_token:
            sizes["patches"] = dice.randint(1, _MOST_TOKENS_OF_IMAGE) * self.patches_of_token
        draw = draw._replace(run={**draw.run, **sizes})
        taken = sizes["images"] * (self._tokens_of_image(draw) + 1)  # one may stand between them
        lengths = {name: draw.run[name] + taken for name in ("sequence", "past")}
        return draw._replace(run={**draw.run, **lengths})

    def _types(self, dice: random.Random, layers: int, fewest: int = 1) -> dict[str, list[Any]]:
        """Return the types of layers, or the indices of some.

        Each type occurs this often, if there are enough layers: the first layer of a type may save
        what later ones share.
        """
        drawn: dict[str, list[Any]] = {}
        for name, types in self.layer_types.items():
            others = dice.choices(types, k=layers)
            drawn[name] = [*types, *others][:layers]
            is_rare = min(map(drawn[name].count, types)) < fewest
            if is_rare and layers >= fewest * len(types):
                drawn[name] = [*(fewest * types), *others][:layers]
            dice.shuffle(drawn[name])
        for name in self.index_lists:
            drawn[name] = sorted(dice.sample(range(layers), dice.randint(1, max(1, layers - 1))))
        return drawn

    def _draw(
        self,
        numbers: _Numbers,
        layers: int,
        types: Mapping[str, Any],
        run: Mapping[str, int],
        windows: Mapping[str, int],
    ) -> Iterator[RunDraw]:
        """Yield draws, without end; those that are no configs of the family are left out."""
        error: Exception = ModelError("no config could be drawn")
        refused = 0
        for _ in range(_MOST_TRIED):
            numbers.begin(self._grids)
            changes: dict[str, Any] = dict(self._layers(layers))
            for path, tree in self.rules.items():
                values = {**self.usual, **changes, **windows}
                changes[path] = numbers.value(tree, path, values)
            changes |= {**types, **self.released, **self._following(changes)}
            if numbers.is_distinct and not self._are_distinct(changes):
                continue
            refused += 1
            if refused > _MOST_REFUSED:
                break
            try:
                config = {"model_type": self._family, **self.subject.nested(changes)}
                bound = models.bound(config, self.blueprint, "a random config").fields
                fields = {**self.subject.fields(self.subject.config(changes)), **bound}
                fields |= self.unturned
            except Exception as refusal:  # whatever a config class raises
                error = refusal
                continue
            yield RunDraw(changes, fields, run)
        raise ModelError(f"no config could be drawn: {' '.join(str(error).split())}")


def sums_in(tree: Tree) -> Iterator[Tree]:
    """Yield the factors of a dim, and of its terms, that are no names and no numbers."""
    if tree[0] not in ("*", "name", "value"):
        yield tree
    if tree[0] in "*+-":
        for operand in tree[1:]:
            yield from sums_in(operand)


def _factors_of(tree: Tree) -> Iterator[Tree]:
    if tree[0] != "*":
        yield tree
        return
    for operand in tree[1:]:
        yield from _factors_of(operand)


def asked_by(blueprint: Blueprint) -> Iterator[Tree]:
    """Yield the conditions under which tensors exist, and the conditions that these are made of."""
    for tree in dict.fromkeys(map(parse, blueprint._raw.get("when", {}).values())):
        yield from _parts_of(tree)


def _parts_of(tree: Tree) -> Iterator[Tree]:
    yield tree
    if tree[0] in ("and", "or", "not"):
        for operand in tree[1:]:
            yield from _parts_of(operand)


def _is_list_of_texts(value: Any) -> bool:
    is_list = isinstance(value, list | tuple) and bool(value)
    return is_list and all(isinstance(item, str) for item in value)


def _fields_of(path: str, tree: Tree) -> list[str]:
    """Return the fields in a rule; a name without a dot stands beside the field that it draws."""
    return [_beside(path, name) for name in names_in(tree) if name not in _KINDS]


def _beside(path: str, name: str) -> str:
    return name if "." in name else f"{_parent(path)}.{name}".strip(".")


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _is_kind(tree: Tree) -> bool:
    return tree[0] == "name" and tree[1] in _KINDS


def _in_order(rules: Mapping[str, Tree]) -> Iterator[tuple[str, Tree]]:
    """Yield rules, each after those of the fields that it names."""
    waiting = dict(rules)
    while waiting:
        ready = [
            path
            for path, tree in waiting.items()
            if waiting.keys().isdisjoint(_fields_of(path, tree))
        ]
        if not ready:
            raise ModelError("the rules of facts/running.toml go round in a circle")
        for path in ready:
            yield path, waiting.pop(path)


def _is_told_from_padded(length: int) -> bool:
    """Whether a length, one more, and its padded forms are different numbers.

    Example:
        >>> [length for length in (43, 47, 53, 59) if _is_told_from_padded(length)]
        [43, 53]
    """
    return len({*_padded(length), length + 1}) > len(PADDED)


def _padded(length: int) -> list[int]:
    return [-(-length // multiple) * multiple for multiple in PADDED]


class _Numbers:
    """Numbers that no other size of a draw has, nor the same size of an earlier draw."""

    def __init__(self, dice: random.Random, *, is_distinct: bool = True) -> None:
        self._dice, self.is_distinct = dice, is_distinct
        self._primes = set[int]()
        self._drawn: dict[int, str] = {}
        self._grids: dict[str, int] = {}
        self._earlier: dict[str, set[int]] = {}

    def begin(self, grids: Iterable[str] = ()) -> None:
        """Begin a draw, with a grid for each of these sizes; no number is its square, or beside."""
        self._drawn = {}
        self._grids = {path: self._fresh_grid(path) for path in grids}
        if self.is_distinct:
            for path, grid in self._grids.items():
                self._drawn |= {grid**2: f"{path} squared", grid**2 + 1: f"{path} squared, and one"}

    def keep(self) -> None:
        """Keep the numbers of the draw, so that the next draw has others."""
        for number, path in self._drawn.items():
            self._earlier.setdefault(path, set()).add(number)
        for path, number in self._grids.items():
            self._earlier.setdefault(path, set()).add(number)

    def reserve(self, number: int) -> None:
        """Keep a prime number from being drawn, and from dividing another number."""
        self._primes.add(number)

    def prime(self, least: int) -> int:
        """Return a prime number that will divide no other number."""
        return self._new_prime(itertools.count(least))

    def length(self, least: int, apart: Iterable[int] = (), others: Iterable[int] = ()) -> int:
        """Return a prime number that differs from what kernels pad it to, by more than 1.

        What they pad it to is no multiple of the numbers ``apart``, nor what they pad others to.
        """
        lengths = filter(_is_told_from_padded, itertools.count(least))
        taken = set(itertools.chain.from_iterable(map(_padded, others)))
        return self._new_prime(
            length
            for length in lengths
            if all(padded % number for padded in _padded(length) for number in apart)
            and taken.isdisjoint(_padded(length))
        )

    def _new_prime(self, candidates: Iterable[int]) -> int:
        primes = filter(self._is_new_prime, candidates)
        number = self._dice.choice(list(itertools.islice(primes, _PRIMES)))
        self._primes.add(number)
        return number

    def reserved(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return sizes that are prime numbers, which will divide no other number."""
        self._primes.update(sizes.values())
        return dict(sizes)

    def _is_new_prime(self, number: int) -> bool:
        """Whether a number is a prime, new, and beside no multiple of a small one."""
        is_prime = all(number % part for part in range(2, number))
        small = [prime for prime in self._primes if prime <= _MOST_BATCHES]
        near = (number - 1, number + 1)
        is_beside = any(other % prime == 0 for other in near for prime in small)
        return is_prime and number not in self._primes and not is_beside

    def value(self, tree: Tree, path: str, known: Mapping[str, Any]) -> Any:
        """Return the value of a rule; every kind of size in it is another number."""
        if tree[0] == "*":
            left, right = (self.value(part, path, known) for part in tree[1:])
            return left * right
        if tree[0] != "name":
            return evaluate(tree, {name: known[_beside(path, name)] for name in names_in(tree)})
        if tree[1] == _GRID:
            return self._grids[path]
        if tree[1] in _SIZES:
            return self._fresh(path, _SIZES[tree[1]])
        if tree[1] in _WINDOWS:
            return known[tree[1]]
        return known[_fields_of(path, tree)[0]]

    def _fresh(self, path: str, least: int) -> int:
        numbers = (number for number in itertools.count(least) if self._is_free(path, number))
        number = self._dice.choice(list(itertools.islice(numbers, _CHOICES)))
        if self.is_distinct:
            self._drawn[number] = path
        return number

    def _fresh_grid(self, path: str) -> int:
        earlier = self._earlier.get(path, ())
        numbers = (number for number in itertools.count(_SIZES[_GRID]) if number not in earlier)
        return self._dice.choice(list(itertools.islice(numbers, _CHOICES)))

    def _is_free(self, path: str, number: int) -> bool:
        is_used = number in self._drawn or number in self._earlier.get(path, ())
        return not is_used and all(number % prime for prime in self._primes)
