"""Operations: what a class computes when it runs, as expressions over its config and the run.

A file of operations is derived like a blueprint, and kept in a separate file that weighing a model
never reads. For each class it holds the matrix products of the forward and backward passes and the
tensors that are saved for backward, each under the path of its module. This module reads such
files, checks them against their law and binds them to numbers.
"""

from __future__ import annotations

from functools import cache, cached_property
from itertools import chain, product

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in, parse, parse_all, source
from weighbridge.blueprint.bind import bound_size, uses
from weighbridge.blueprint.paths import indices_in, is_index, joined_path
from weighbridge.blueprint.schema import LARGEST_SIZE, MOST_LAYERS, MOST_PLACES, split_dims
from weighbridge.errors import ExpressionError, ModelError, either, nearest, shorten
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Raw

FORMATS = (1, 2)
"""Format 1 has only the CPU's kernels, and neither checkpointing, nor caches, nor loops."""
KINDS = ("forward", "backward", "saved")
"""The kinds that every class has: a forward and a backward pass."""
PRODUCTS = ("forward", "backward", "recomputed", "step")
TENSORS = ("saved", "checkpointed", "prefilled", "stepped")
ALL_KINDS = (*PRODUCTS, *TENSORS)
OF_BACKWARD = ("saved", "checkpointed")
"""The kinds of tensors that a backward pass needs."""
_MEASURE = "`weighbridge measure` runs the class itself"
NEVER_ONE = ("sliding_window", "mamba_n_heads")
"""Sizes that no run had at 1, where operations are others."""
LABELS = "num_labels"
_KEY_PARTS = ("qk_nope_head_dim", "qk_rope_head_dim")
VALUES = "v_head_dim"
HEADS_UNLIKE = parse(f"{' + '.join(_KEY_PARTS)} != {VALUES}")
"""What held in all runs of latent attention, for which flash has another kernel otherwise."""
_PADDED_WIDTH, _WIDEST = 8, 256  # of heads, to flash attention
KEY_HEADS = ("num_key_value_heads", "num_kv_heads")
HEADS = (
    *("num_attention_heads", "n_head", "n_heads", "num_heads"),
    *("encoder_attention_heads", "decoder_attention_heads"),
)
"""The fields that count heads of queries."""
RUN_NAMES = (
    *("batch", "sequence", "target", "past", "choices", "images", "patches"),
    *("attention", "device", "dtype", "training"),
)
"""The names besides fields and indices that an expression may use: how the class is run."""
CACHE_START = "cache."  # begins the path of a tensor of a cache, which is in no module
COMPUTE = "compute"  # the dtype of a tensor that has the dtype of the model
_USUAL_RUN = {
    "batch": 1,
    "choices": 2,
    "images": 0,
    "patches": 0,
    "attention": "eager",
    "device": "cpu",
    "dtype": "F32",
    "training": True,
}
ROTATED = "partial_rotary_factor"
"""The share of a head that rotary embeddings turn, which is held, at one value or some."""
NULL = "null"  # stands for null, which TOML lacks
_MOST_ELEMENTS = LARGEST_SIZE**2  # a dim of an operation may be a product of two sizes
_TIMES = " x "  # stands between the rounds of a loop and what each of them does
_ONCE: Tree = ("value", 1)
_FACTORS = 4  # of a product: batch, rows, inner, columns


class OperationTemplate(NamedTuple):
    """A product or a tensor, with the path of its module; products have no dtype.

    In a loop it occurs ``times`` at each place.
    """

    path: str
    dims: tuple[Tree, ...]
    dtype: str
    when: Tree | None
    times: Tree = _ONCE


class Operation(NamedTuple):
    """A template bound to numbers, valid in each of the ``places`` of its path's indices.

    The shape of a product is batch, rows, inner and columns.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    places: tuple[tuple[int, ...], ...]
    times: int = 1

    @property
    def paths(self) -> list[str]:
        """The paths of its modules.

        Example:
            >>> Operation("layer.{i}.dense", (1, 2, 3, 4), "", ((0,), (1,))).paths
            ['layer.0.dense', 'layer.1.dense']
        """
        found = []
        for place in self.places:
            path = self.path
            for index, value in zip(indices_in(path), place, strict=True):
                path = path.replace(f"{{{index}}}", str(value))
            found.append(path)
        return found


class Operations:
    """The operations of a family's classes, not yet bound to a config.

    Example:
        >>> bert = load_operations("bert")
        >>> query = bert.bind("BertModel", "forward", bert.names({}, batch=1, sequence=512))[0]
        >>> query.path, query.shape, len(query.places)
        ('encoder.layer.{i}.attention.self.query', (1, 512, 768, 768), 12)
    """

    def __init__(self, raw: Raw, *, takes_any_width: bool = False) -> None:
        self._raw = raw
        self.takes_any_width = takes_any_width
        """Whether flash attention pads no head: on the meta device, runs have any width."""
        self.family: str = raw["family"]
        self.source: str = raw["source"]
        self.kernels: str = raw["kernels"]
        """The package and the device whose kernels were recorded."""
        self.proof: Raw = raw["proof"]
        self.base_class: str = raw["class"]
        self.class_names: tuple[str, ...] = (self.base_class, *raw.get("classes", {}))
        self.repeat: dict[str, Tree] = parse_all(raw.get("repeat", {}))
        self.fields: dict[str, Any] = {
            name: _value(value) for name, value in raw.get("fields", {}).items()
        }
        """The fields that decide anything, with their defaults."""
        self.held: dict[str, Any] = {
            name: [*map(_value, value)] if isinstance(value, list) else _value(value)
            for name, value in raw.get("held", {}).items()
        }
        """The fields that had a single value in all recordings, or one of a list, with that."""
        self.types: dict[str, list[str]] = raw.get("types", {})
        """The fields that give each layer a type, with the types that layers had in recordings."""
        self.unstated: dict[str, Any] = raw.get("unstated", {})
        """What a config means that leaves a held field out, where that is another value."""
        self.tied: dict[str, Tree] = parse_all(raw.get("tied", {}))
        """The fields that a config may state only as they follow from others: no run drew them."""
        self.listed: dict[str, Tree] = parse_all(raw.get("listed", {}))
        """The lists of layers of which no item may be beyond them, with how many there are."""
        self.computed: dict[str, Tree] = parse_all(raw.get("computed", {}))
        """The fields that follow from others where a config leaves them out."""
        images = raw.get("images", {})
        self.image_tokens: Tree | None = parse(images["tokens"]) if images else None
        """The tokens that stand for each image among those of a sequence."""
        self.image_patch: Tree | None = parse(images["patch"]) if "patch" in images else None
        """The pixels on each side of a patch, if a run says how large its images are."""
        self.image_merged: Tree | None = parse(images["merged"]) if "merged" in images else None
        """The patches on each side of what becomes one token, in that case."""
        self._templates: dict[tuple[str, str], tuple[OperationTemplate, ...]] = {}
        self._names: dict[tuple[str, str], frozenset[str]] = {}
        self._widths: dict[str, tuple[Tree, ...]] = {}

    def names(self, fields: Mapping[str, Any], **run: Any) -> dict[str, Any]:
        """Return the values of names in expressions: fields, or their defaults, and the run.

        ``run`` overrides the default run in any of `RUN_NAMES`: a batch of 1, 2 choices, no images,
        eager attention, F32, training.
        """
        known = {name: fields.get(name, value) for name, value in self.fields.items()}
        stated = {name: fields[name] for name in self.computed if fields.get(name) is not None}
        known |= stated
        waiting = [name for name in self.computed if name not in stated]
        while waiting:
            ready = [name for name in waiting if not self._needs(name, waiting)]
            if not ready:
                raise ModelError(f"the values of {', '.join(waiting)} depend on each other")
            for name in ready:
                known[name] = evaluate(self.computed[name], known)
                waiting.remove(name)
        return {**known, **_USUAL_RUN, **run}

    def _needs(self, name: str, others: Iterable[str]) -> set[str]:
        """Return the others that a computed field depends on."""
        return set(names_in(self.computed[name])).intersection(others) - {name}

    def unheld(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a config whose values differ from the recorded ones.

        A list is given as a text of its items, and a list of the types of layers as a text of
        those types that no recording had.
        """
        meant = {**self.unstated, **fields}
        differing = {
            name: _shown_value(meant[name])
            for name, value in self.held.items()
            if name in meant
            and _as_filed(meant[name]) not in (value if isinstance(value, list) else [value])
        }
        for name, types in self.types.items():
            kinds = meant.get(name)
            if kinds is None and name in self.computed:
                kinds = self.names(fields)[name]
            if unknown := [kind for kind in kinds or () if kind not in types]:
                differing[name] = ", ".join(map(str, dict.fromkeys(unknown)))
        return differing

    def recorded(self, name: str) -> list[Any]:
        """Return the values of a field that recordings had, of those in `unheld`."""
        if name in self.types:
            return self.types[name]
        value = self.held[name]
        return value if isinstance(value, list) else [value]

    @property
    def never_one(self) -> tuple[str, ...]:
        """The heads, also of a sub-config, of which no proved run had one.

        They are those of keys and queries, or of queries where each has keys of its own.
        """
        single = self.proof.get("single", ())
        keys = [name for name in self.fields if _last(name) in KEY_HEADS]
        if not keys:
            heads = (name for name in self.fields if _last(name) in HEADS)
            return tuple(name for name in heads if name not in single)
        for name in keys:
            if name not in single:
                return name, f"{name.removesuffix(_last(name))}num_attention_heads"
        return ()

    @cached_property
    def whole(self) -> tuple[Tree, ...]:
        """That quotients leave no remainder, and that lists name no layers beyond the last.

        Example:
            >>> [source(rule) for rule in load_operations("mixtral").whole]
            ['hidden_size % num_attention_heads == 0']
        """
        quotients = (tree for tree in self.tied.values() if tree[0] == "//")
        rules: list[Tree] = [("==", ("%", *tree[1:]), ("value", 0)) for tree in quotients]
        for name, count in self.listed.items():
            largest = ("max", ("name", name))
            is_empty = ("==", ("len", ("name", name)), ("value", 0))
            rules.append(("or", is_empty, ("<", largest, count)))
        return tuple(rules)

    def check_sizes(self, class_name: str, kind: str, names: Mapping[str, Any]) -> None:
        """Refuse sizes that no run had, and with which operations of a kind are others.

        A window of one token is none to the cache of transformers. Heads of one number, of which
        rotary embeddings turn pairs, become pairs. What a backward pass needs depends on whether
        there is one key head or query head: what is done to one may be a view, to several a copy.
        It also depends on whether the part of a head that rotary embeddings turn is even,
        and, with latent attention, on whether heads of values are as wide as heads of keys. Flash
        attention pads heads, or leaves them to other kernels, where runs on the meta device did
        not. The loss of a classifier with one label is that of a regression.

        Raises:
            ModelError: ``names`` has such sizes.
        """
        for name, value in names.items():
            if value == 1 and _last(name) in NEVER_ONE:
                raise ModelError(
                    f"the operations of {self.family} were recorded only with a {name} of 2 or "
                    "more",
                    values={name: value},
                    hint=_MEASURE,
                )
        for rule in self.whole:
            if not evaluate(rule, names):
                raise ModelError(
                    f"the operations of {self.family} were recorded only with {source(rule)}",
                    values={name: _shown_value(names[name]) for name in names_in(rule)},
                    hint=_MEASURE,
                )
        self._check_rotated(kind, names)
        if kind in OF_BACKWARD:
            self._check_backward(class_name, names)

    def _check_backward(self, class_name: str, names: Mapping[str, Any]) -> None:
        """Refuse sizes with which what a backward pass needs is not known."""
        if names["attention"] == "flash" and not self.takes_any_width:
            self._check_flash(class_name, names)
        one = [name for name in self.never_one if names.get(name) == 1]
        if one:
            raise ModelError(
                f"what {self.family} saves for a backward pass was recorded only with several "
                "heads",
                values=dict.fromkeys(one, 1),
                hint=_MEASURE,
            )
        if names.get(LABELS) == 1 and self._reads(class_name, LABELS):
            raise ModelError(
                f"what {class_name} saves for a backward pass was recorded only with several "
                "labels",
                values={LABELS: 1},
                hint=_MEASURE,
            )

    def _reads(self, class_name: str, name: str) -> bool:
        """Whether what a class saves for its backward pass depends on a name."""
        return any(name in self.names_in_dims(class_name, kind) for kind in OF_BACKWARD)

    def _check_rotated(self, kind: str, names: Mapping[str, Any]) -> None:
        """Refuse an odd part of a head: its angles are kept in pairs, one more than it has."""
        for path in {**self.held, **names}:
            if _last(path) == ROTATED:
                self._check_pairs(kind, names, path)

    def _check_pairs(self, kind: str, names: Mapping[str, Any], path: str) -> None:
        share = names.get(path, self.held.get(path))
        name, head = _head(names, path.removesuffix(ROTATED))
        if type(share) is not float or type(head) is not int or int(head * share) % 2 == 0:
            return
        if share == 1:
            raise ModelError(
                f"the operations of {self.family} were recorded only with heads of an even width",
                values={name: head},
                hint=_MEASURE,
            )
        if kind in OF_BACKWARD:
            raise ModelError(
                f"what {self.family} saves for a backward pass was recorded only with an even part "
                "of a head that rotary embeddings turn",
                values={name: head, path: share},
                hint=_MEASURE,
            )

    def _check_flash(self, class_name: str, names: Mapping[str, Any]) -> None:
        """Refuse heads for which flash attention takes another kernel than recordings had."""
        if are_heads_alike(names):
            raise ModelError(
                f"what {self.family} saves for a backward pass of flash attention was recorded "
                "only with heads of values that are not as wide as heads of keys",
                values={name: names[name] for name in (*_KEY_PARTS, VALUES)},
                hint=_MEASURE,
            )
        for rule in self.flash_rules(class_name):
            if not evaluate(rule, names):
                raise ModelError(
                    "flash attention pads heads whose width is no multiple of "
                    f"{_PADDED_WIDTH}, and takes none wider than {_WIDEST}: what is saved then was "
                    "not recorded",
                    values={name: names[name] for name in names_in(rule)},
                    hint="use --profile cuda-math or cuda-eager",
                )

    def rules_of_training(self, class_name: str, attention: str) -> tuple[Tree, ...]:
        """Return what must hold of sizes in a training step, with the kernels of attention.

        They are those of `check_sizes` that are one expression each.

        Example:
            >>> mla = load_operations("deepseek_v2")
            >>> rules = mla.rules_of_training("DeepseekV2ForCausalLM", "flash")
            >>> source(rules[-1])
            'qk_nope_head_dim + qk_rope_head_dim != v_head_dim'
        """
        rules: list[Tree] = []
        if self._reads(class_name, LABELS):
            rules.append(("<", ("value", 1), ("name", LABELS)))
        if attention == "flash":
            rules += self.flash_rules(class_name)
        return tuple(rules)

    def flash_rules(self, class_name: str) -> tuple[Tree, ...]:
        """Return that flash attention takes the heads of a class as they are.

        Latent attention has another kernel, which takes wider heads, unless those of values are as
        wide as those of keys.

        Example:
            >>> rules = load_operations("llama").flash_rules("LlamaForCausalLM")
            >>> [source(rule) for rule in rules]
            ['head_dim % 8 == 0', 'head_dim <= 256']
        """
        rules: list[Tree] = []
        for width in self._head_widths(class_name):
            rules.append(("==", ("%", width, ("value", _PADDED_WIDTH)), ("value", 0)))
            if VALUES not in self.fields:
                rules.append(("<=", width, ("value", _WIDEST)))
        if VALUES in self.fields:
            rules.append(HEADS_UNLIKE)
        return tuple(rules)

    def _head_widths(self, class_name: str) -> tuple[Tree, ...]:
        """Return the widths of heads in the products of attention, of scores and of values."""
        if class_name not in self._widths:
            products = self.entries(class_name, "forward")
            found = chain.from_iterable(map(_widths_in, products))
            self._widths[class_name] = tuple(dict.fromkeys(found))
        return self._widths[class_name]

    def entries(self, class_name: str, kind: str) -> tuple[OperationTemplate, ...]:
        """Return a class's operations of one of `KINDS`.

        The entries of the class for a path override those of its base.

        Raises:
            ModelError: there is no such class.
        """
        if (class_name, kind) not in self._templates:
            self._templates[class_name, kind] = tuple(self._read(class_name, kind))
        return self._templates[class_name, kind]

    def names_in_dims(self, class_name: str, kind: str) -> frozenset[str]:
        """Return the names that the dims of a class's operations depend on.

        Example:
            >>> sorted(load_operations("phi3").names_in_dims("Phi3ForCausalLM", "stepped"))
            ['batch', 'hidden_size', 'num_attention_heads', 'num_key_value_heads', 'past', \
'sliding_window']
        """
        if (class_name, kind) not in self._names:
            dims = chain.from_iterable(entry.dims for entry in self.entries(class_name, kind))
            names = chain.from_iterable(map(names_in, dims))
            self._names[class_name, kind] = frozenset(names)
        return self._names[class_name, kind]

    def _read(self, class_name: str, kind: str) -> Iterator[OperationTemplate]:
        if class_name not in self.class_names:
            near = nearest(self.class_names, class_name) or list(self.class_names)
            hint = f"did you mean {either(near)}?"
            raise ModelError(
                f"there are no operations for the class {shorten(class_name, str)}", hint=hint
            )
        texts_by_path: dict[str, list[str]] = self._raw.get(kind, {})
        if class_name != self.base_class:
            own = self._raw["classes"][class_name]
            prefix = own.get("prefix", "")
            below = {
                path if path.startswith(CACHE_START) else joined_path(prefix, path): texts
                for path, texts in texts_by_path.items()
            }
            texts_by_path = {**below, **own.get(kind, {})}
        for path, texts in texts_by_path.items():
            yield from (_entry(path, text, kind) for text in texts)

    def bind(self, class_name: str, kind: str, names: Mapping[str, Any]) -> list[Operation]:
        """Return the operations of a kind, given a value for every name, in forward order.

        Raises:
            ModelError: there is no such class.
            ExpressionError: a name has no value, or an expression does not give a size.
        """
        self.check_sizes(class_name, kind, names)
        binding = _Binding(self.repeat, names)
        return list(chain.from_iterable(map(binding.bound, self.entries(class_name, kind))))


class _Binding:
    """Binds templates to the values of names, and evaluates each expression once."""

    def __init__(self, repeat: Mapping[str, Tree], names: Mapping[str, Any]) -> None:
        self._repeat, self._names = repeat, names
        self._sizes: dict[int, int] = {}
        """The values of dims, by the identity of their trees, which templates keep alive."""
        self._everywhere: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}
        self._where: dict[tuple[int, tuple[str, ...]], tuple[tuple[int, ...], ...]] = {}

    def bound(self, entry: OperationTemplate) -> Iterator[Operation]:
        """Yield the operation, if it occurs anywhere."""
        places = self._places(entry)
        if len(places) > MOST_PLACES:
            raise ExpressionError(f"has more than {MOST_PLACES:,} places", where=entry.path)
        if places:
            shape = tuple([self._size(dim) for dim in entry.dims])
            times = 1
            if entry.times != _ONCE:
                times = bound_size(entry.times, self._names, 0, _MOST_ELEMENTS)
            yield Operation(entry.path, shape, entry.dtype, places, times)

    def _size(self, dim: Tree) -> int:
        size = self._sizes.get(id(dim))
        if size is None:
            size = self._sizes[id(dim)] = _dim_size(dim, self._names)
        return size

    def _places(self, entry: OperationTemplate) -> tuple[tuple[int, ...], ...]:
        """Return the values of the indices in its path wherever an operation occurs."""
        indices = indices_in(entry.path)
        everywhere = self._everywhere.get(indices)
        if everywhere is None:
            counts = [bound_size(self._repeat[at], self._names, 0, MOST_LAYERS) for at in indices]
            everywhere = self._everywhere[indices] = tuple(product(*map(range, counts)))
        if entry.when is None:
            return everywhere
        key = (id(entry.when), indices)
        if key not in self._where:
            self._where[key] = self._holding(entry.when, indices, everywhere)
        return self._where[key]

    def _holding(
        self, when: Tree, indices: tuple[str, ...], everywhere: tuple[tuple[int, ...], ...]
    ) -> tuple[tuple[int, ...], ...]:
        """Return the places where a condition holds."""
        if not indices or not uses(when, indices):
            return everywhere if evaluate(when, self._names) else ()
        names = dict(self._names)
        holding = []
        for place in everywhere:
            names.update(zip(indices, place, strict=True))
            if evaluate(when, names):
                holding.append(place)
        return tuple(holding)


def _shown_value(value: Any) -> Any:
    """Return the value of a field as a message shows it: a list with its items."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _head(names: Mapping[str, Any], above: str) -> tuple[str, Any]:
    """Return the width of the heads that rotary embeddings turn, with the name to show for it.

    ``above`` is the sub-config that has it, as ``text_config.``, or empty.
    """
    for name in (f"{above}qk_rope_head_dim", f"{above}head_dim"):
        if names.get(name) is not None:
            return name, names[name]
    if heads := names.get(f"{above}num_attention_heads"):
        return f"{above}head_dim", names.get(f"{above}hidden_size", 0) // heads
    return "", None


def _widths_in(product: OperationTemplate) -> Iterator[Tree]:
    """Yield the width of heads, if a product is that of attention: as many rows as positions."""
    batch, rows, inner, columns = product.dims
    if not any(_last(name) in HEADS for name in names_in(batch)):
        return
    if rows == columns:
        yield inner
    elif rows == inner:
        yield columns


def are_heads_alike(names: Mapping[str, Any]) -> bool:
    """Whether heads of values are as wide as heads of keys, in latent attention.

    Example:
        >>> deepseek = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
        >>> are_heads_alike(deepseek | {"v_head_dim": 128})
        False
        >>> are_heads_alike(deepseek | {"v_head_dim": 192})
        True
    """
    of_keys = [names.get(name) or 0 for name in _KEY_PARTS]
    return all(of_keys) and names.get(VALUES) == sum(of_keys)


def _dim_size(dim: Tree, names: Mapping[str, Any]) -> int:
    size = bound_size(dim, names, 0, _MOST_ELEMENTS)
    if not size and not _may_be_zero(dim):
        bound_size(dim, names)  # refuses it
    return size


def _may_be_zero(dim: Tree) -> bool:
    """Whether a dim may be 0: a difference, as of a sequence of 1 and the token without a label."""
    return dim[0] == "-" or any(_may_be_zero(part) for part in dim[1:] if isinstance(part, tuple))


def _value(value: Any) -> Any:
    return None if value == NULL else value


def _as_filed(value: Any) -> Any:
    """Return a value as a file has it: a config that was read has tuples for its lists."""
    return list(value) if isinstance(value, tuple) else value


def split_condition(text: str) -> tuple[str, str]:
    """Return the shape of an operation, and its condition, which is empty if it has none.

    Example:
        >>> split_condition("batch (2 if is_gated else 1) if training")
        ('batch (2 if is_gated else 1)', 'training')
    """
    shape, _, condition = text.partition(" if ")
    if "(" not in shape:
        return shape, condition
    words = split_dims(text)
    at = words.index("if") if "if" in words else len(words)
    return " ".join(words[:at]), " ".join(words[at + 1 :])


@cache
def _entry(path: str, text: str, kind: str) -> OperationTemplate:
    shape, condition = split_condition(text)
    times, in_loop, rest = shape.partition(_TIMES)
    words, dtype = split_dims(rest if in_loop else shape), ""
    if kind in TENSORS:
        dtype, *others = words
        words = tuple(others)
    when = parse(condition) if condition else None
    template = OperationTemplate(path, tuple(map(parse, words)), dtype, when)
    return template._replace(times=parse(times)) if in_loop else template


def available() -> list[str]:
    """Return the names of the files of operations.

    These are families, and ``FAMILY.ours`` for a family's classes in this package.

    Example:
        >>> "bert" in available()
        True
    """
    return list(data.names("operations", ".toml"))


@cache
def load_operations(name: str) -> Operations:
    """Return operations that are shipped with this package; the tests check each against the law.

    Raises:
        ModelError: there are none with this name.
    """
    if name not in available():
        known = ", ".join(available())
        hint = f"`weighbridge derive {name} --operations` records them; there are files for {known}"
        raise ModelError(f"there are no operations for the family {shorten(name, str)}", hint=hint)
    return Operations(data.read_toml(f"operations/{name}.toml"))


# The law


def check_operations(raw: Raw, where: str = "") -> None:
    """Check a file of operations, as read, against the law.

    Raises:
        BlueprintError: a rule is broken; the message begins with the rule's name.

    Example:
        >>> check_operations({**data.read_toml("operations/bert.toml"), "format": 0})
        Traceback (most recent call last):
        weighbridge.errors.BlueprintError: format: this version reads format 1 or 2, not 0.
    """
    from weighbridge.blueprint import law  # noqa: PLC0415  # what is shipped is checked already

    law.hold(raw, LAW, where)


_TEXTS = ("family", "source", "kernels", "class")
_TABLES = (
    *("repeat", "fields", "computed", "held", "types", "unstated", "tied", "listed", "images"),
    *("classes", "proof"),
    *ALL_KINDS,
)
_REQUIRED = {"format", *_TEXTS, *KINDS, "fields", "held", "proof"}
_PROOF = {"by", "against", "runs"}


def _sections(raw: Raw) -> dict[str, Raw]:
    return {"": raw} | {
        f"classes.{name}.": of_class for name, of_class in raw.get("classes", {}).items()
    }


def _all(raw: Raw) -> Iterator[tuple[str, str, str, str]]:
    """Yield the place, kind, path and text of every entry."""
    for place, section in _sections(raw).items():
        for kind in ALL_KINDS:
            for path, texts in section.get(kind, {}).items():
                yield from ((f"{place}{kind}.{path}", kind, path, text) for text in texts)


def _keys(raw: Raw) -> Iterator[str]:
    """Every required key is present, and no key is unknown."""
    yield from (f"{key} is missing" for key in sorted(_REQUIRED - set(raw)))
    yield from (f"{key} is unknown" for key in sorted(set(raw) - {"format", *_TEXTS, *_TABLES}))
    for name, of_class in raw.get("classes", {}).items():
        yield from (
            f"classes.{name}.{key} is unknown"
            for key in sorted(set(of_class) - {"prefix", *ALL_KINDS})
        )
    if set(raw["proof"]) - {"holes", "profiles", "single"} != _PROOF:
        yield f"proof must have {', '.join(sorted(_PROOF))}, and may have holes, profiles, single"


def _format(raw: Raw) -> Iterator[str]:
    """The format is one that this version reads."""
    if raw["format"] not in FORMATS:
        yield f"this version reads format {' or '.join(map(str, FORMATS))}, not {raw['format']}"


def _types(raw: Raw) -> Iterator[str]:
    """Texts and tables have the right types, and each path has a list of texts."""
    yield from (f"{key} must be text" for key in _TEXTS if not isinstance(raw[key], str))
    yield from (
        f"{key} must be a table" for key in _TABLES if not isinstance(raw.get(key, {}), dict)
    )
    for place, section in _sections(raw).items():
        for kind in ALL_KINDS:
            for path, texts in section.get(kind, {}).items():
                if not _is_list_of_texts(texts):
                    yield f"{place}{kind}.{path} must be a list of texts"
    for name, types in raw.get("types", {}).items():
        if not _is_list_of_texts(types):
            yield f"types.{name} must be a list of texts"


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _paths(raw: Raw) -> Iterator[str]:
    """Every path is dotted, and its indices are in `repeat`."""
    for place, _, path, _ in _all(raw):
        if path and not all(map(_is_piece, path.split("."))):
            yield f"{place} is not a dotted path"
        yield from (
            f"{place}: {{{index}}} is not in repeat"
            for index in indices_in(path)
            if index not in raw["repeat"]
        )


def _is_piece(piece: str) -> bool:
    """Whether a piece of a path is an index, or a name that may have hyphens.

    Example:
        >>> [_is_piece(piece) for piece in ("{i}", "0", "self-attn", "", "a b")]
        [True, True, True, False, False]
    """
    name = piece[1:-1] if is_index(piece) else piece.replace("-", "_")
    return name != "" and f"_{name}".isidentifier()


def _shapes(raw: Raw) -> Iterator[str]:
    """A product has four sizes; a tensor begins with a known dtype or `compute`."""
    for place, kind, path, text in _all(raw):
        entry = _entry(path, text, kind)
        if kind in PRODUCTS and len(entry.dims) != _FACTORS:
            yield f"{place}: {text} must be batch, rows, inner and columns"
        if kind in TENSORS and entry.dtype not in (COMPUTE, *DTYPE_BITS):
            yield f"{place}: there is no dtype {entry.dtype}"


def _names(raw: Raw) -> Iterator[str]:
    """Every name is a field with a default, an index, or a name of the run; fields are used."""
    computed = raw.get("computed", {})
    fields, used = {*raw["fields"], *computed}, set[str]()
    for text in computed.values():
        used |= set(names_in(parse(text)))
    yield from (
        f"fields.{name} is a name of the run" for name in sorted(fields.intersection(RUN_NAMES))
    )
    yield from (
        f"{name} is in both held and fields"
        for name, value in raw["held"].items()
        if name in fields and not isinstance(value, list)
    )
    for index, text in raw.get("repeat", {}).items():
        used |= (found := set(names_in(parse(text))))
        yield from (f"repeat.{index}: {name} has no default" for name in sorted(found - fields))
    for place, kind, path, text in _all(raw):
        entry = _entry(path, text, kind)
        found = {name for dim in (*entry.dims, entry.times) for name in names_in(dim)}
        found |= set(names_in(entry.when or ("value", True))).difference(indices_in(path))
        yield from (
            f"{place}: {name} has no default"
            for name in sorted(found.difference(fields, RUN_NAMES))
        )
        used |= found
    yield from (f"fields.{name} is not used in any expression" for name in sorted(fields - used))


LAW: dict[str, Callable[[Raw], Iterator[str]]] = {
    "keys": _keys,
    "format": _format,
    "types": _types,
    "paths": _paths,
    "shapes": _shapes,
    "names": _names,
}
"""The rules of a file of operations by name; each relies on those before it."""
