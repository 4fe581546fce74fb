"""Diagrams of a model's parts, drawn from its ledger: the embeddings, a layer, the heads.

A diagram is drawn only if it can account for every tensor of its part. The order of the steps of a
layer does not follow from its tensors; it is data, in `facts/orders.toml`, and left open for
families that are not listed there.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import names_in
from weighbridge.answers.sentences import marked_shape
from weighbridge.ledger.symbols import size_symbols
from weighbridge.render.diagram import (
    Apart,
    Beside,
    Box,
    Flow,
    Frame,
    Junction,
    Residual,
    Strip,
    Strips,
)
from weighbridge.render.document import Diagram
from weighbridge.units import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.answers.sentences import Narrator
    from weighbridge.ledger.rows import Entry
    from weighbridge.render.diagram import Part


class _CannotDrawError(Exception):
    """A part of the model has tensors that no diagram here accounts for."""


class Diagrams:
    """The diagrams of one part of a model, such as its encoder; ``entries`` are its tensors."""

    def __init__(
        self,
        narrator: Narrator,
        entries: Sequence[Entry],
        class_name: str,
        config: Mapping[str, Any],
        lang: str,
    ) -> None:
        self.narrator, self.entries, self.config = narrator, entries, config
        self.class_name = class_name
        self.texts = data.read_toml(f"words/diagrams.{lang}.toml")

    def of_section(self, components: Sequence[str]) -> Iterator[Diagram]:
        """Yield the diagrams of a section about these components."""
        if not {"embedding.token", "embedding.patch"}.isdisjoint(components):
            yield from _drawn(self._embeddings)
        if "attention" in components:
            yield from _drawn(self._layer)

    def of_component(self, component: str) -> Iterator[Diagram]:
        """Yield the diagrams of a component."""
        if component == "attention":
            yield from _drawn(self._heads)

    # The layer that is drawn

    @cached_property
    def drawn_layer(self) -> _Layer:
        """The commonest layer of the part, if all its layers are in one list."""
        starts = {
            _layer_prefix(entry)
            for entry in self.entries
            if entry.template.repeat and entry.template.role.startswith("attention.")
        }
        if len(starts) != 1:
            raise _CannotDrawError
        prefix = starts.pop()
        layers: dict[int, list[Entry]] = {}
        for entry in self.entries:
            if entry.template.repeat and _layer_prefix(entry) == prefix:
                for index in entry.indices.outermost:
                    layers.setdefault(index, []).append(entry)
        signatures = {index: _signature(entries) for index, entries in layers.items()}
        commonest, alike = Counter(signatures.values()).most_common(1)[0]
        for index, entries in layers.items():
            if signatures[index] == commonest:
                return _Layer(prefix, entries, alike, len(layers))
        raise _CannotDrawError

    def order(self, kind: str) -> str | None:
        """Return the order of steps in the part that is drawn, if it is known."""
        orders = data.read_toml("facts/orders.toml")
        for family, prefix, config in self._families():
            settings: dict[str, Any] = orders["settings"].get(family, {})
            if any(config.get(field, usual) != usual for field, usual in settings.items()):
                continue
            for order, places in orders[kind].items():
                if f"{family}:{prefix}" in places.split():
                    return str(order)
        return None

    def _families(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield the families whose list of layers this is, with its prefix there and its config.

        The text or vision model inside another model may be that of a family of its own.
        """
        blueprint = self.narrator.blueprint
        prefix = self.drawn_layer.prefix.removeprefix(blueprint.prefix(self.class_name))
        yield blueprint.family, prefix, self.config
        module, _, inside = prefix.partition(".")
        for path, family in blueprint.configs.items():
            if module in _MODULES_OF_CONFIGS.get(path, ()):
                config = self.config.get(path) or {}
                if config.get("model_type", family) == family:
                    yield family, inside, config

    # Embeddings

    def _embeddings(self) -> Diagram:
        tables = [entry for entry in self.entries if entry.template.role.startswith("embedding.")]
        if all(entry.tied for entry in tables):
            raise _CannotDrawError
        inputs = _Inputs(self, tables)
        order = self._embedding_order(inputs)
        summands, _, steps = order.partition("|")
        branches = [inputs.branch(branch.split()) for branch in summands.split("+")]
        parts: list[Part] = list(branches[0])
        if len(branches) > 1:
            parts = [Beside(tuple(map(_as_one, branches))), Junction()]
        parts += [inputs.step(step) for step in steps.split()]
        if inputs.rest:
            raise _CannotDrawError
        words = self.texts["embeddings"]
        source, title, caption = "token", "title", "caption_one"
        if len(branches) > 1:
            caption = "caption"
        if summands.startswith("patch"):
            source, title, caption = "image", "title_image", "caption_patches"
            if len(branches) > 1:
                caption = "caption_image"
        vector = Box((words["vector"].format(width=inputs.width),), "data")
        whole = (Box((words[source],), "data"), *parts, vector)
        return Diagram("embeddings", words[title], words[caption], whole)

    def _embedding_order(self, inputs: _Inputs) -> str:
        if list(inputs.rest) == ["token"]:
            return "token |"
        order = self.order("embeddings")
        if order is None:
            raise _CannotDrawError
        return order

    # A layer

    def _layer(self) -> Diagram:
        layer, words = self.drawn_layer, self.texts["layer"]
        blocks = self._blocks(layer.entries)
        order = self.order("layers")
        steps = []
        if order is not None:
            steps = [block.split() for block in order.split(",")]
        into = Box((words["into"].format(width=self.width),), "data")
        if not _is_order_of(steps, blocks):
            apart = [part for block in blocks.values() for part in block.apart()]
            return Diagram("layer", words["title"], words["caption_apart"], (Apart(tuple(apart)),))
        parts: list[Part] = [into]
        for block_steps in steps:
            block = next(blocks[step] for step in block_steps if step in blocks)
            parts += block.in_order(block_steps)
        caption = words["caption_all"]
        if layer.alike < layer.layers:
            caption = words["caption_some"].format(alike=layer.alike, layers=layer.layers)
        return Diagram("layer", words["title"], caption, (*parts, into))

    def _blocks(self, entries: Sequence[Entry]) -> dict[str, _Block]:
        """Return the blocks of a layer: attention, perhaps cross-attention, and the rest."""
        by_block: dict[str, list[Entry]] = {}
        for entry in entries:
            by_block.setdefault(_BLOCKS.get(_stem(entry), ""), []).append(entry)
        if not {"attention", "ffn"} <= by_block.keys() <= set(_BLOCKS.values()):
            raise _CannotDrawError
        blocks = {}
        for name in dict.fromkeys(_BLOCKS.values()):
            if name in by_block:
                norms = [entry for entry in by_block[name] if _is_block_norm(entry)]
                others = [entry for entry in by_block[name] if not _is_block_norm(entry)]
                frame = self._frame(name, _Tensors(self, others))
                blocks[name] = _Block(frame, tuple(self.norms(norms)))
        return blocks

    def _frame(self, name: str, tensors: _Tensors) -> Part:
        words = self.texts["layer"]
        if name != "ffn":
            title = [words[name]]
            if name == "attention" and self.attention is not None:
                title.append(words["heads"].format(heads=self.attention.heads))
            return Frame(tuple(title), tuple(self._attention(name, tensors)))
        if "router" in tensors or "expert.down" in tensors:
            return self._experts(tensors)
        frame = Frame((words["ffn"],), tuple(tensors.feed_forward("ffn")))
        tensors.check_all_drawn()
        return frame

    def _attention(self, name: str, tensors: _Tensors) -> list[Part]:
        """Return the steps of an attention: projections, softmax, output."""
        parts = [
            self._projections(name, tensors),
            Box((self.texts["box"]["attend"],), "step"),
            tensors.box(f"{name}.output"),
        ]
        tensors.check_all_drawn()
        return parts

    def _projections(self, name: str, tensors: _Tensors) -> Part:
        if f"{name}.kv_down" in tensors:
            return Beside((_as_one(tensors.query(name)), _as_one(tensors.latent(name))))
        if f"{name}.qkv" in tensors:
            return _as_one([tensors.box(f"{name}.qkv"), *tensors.fused_norms(name)])
        if f"{name}.kv" in tensors:
            key_value: list[Part] = [tensors.box(f"{name}.kv")]
        else:
            key = tensors.box(f"{name}.key", longest=_LONGEST_OF_THREE)
            norms = tensors.optional_norm(f"{name}.key_norm")
            value = tensors.box(f"{name}.value", longest=_LONGEST_OF_THREE)
            key_value = [_as_one([key, *norms]), value]
        query = _as_one(tensors.query(name))
        if name != "cross_attention":
            return Beside((query, *key_value))
        source = Box((self.texts["layer"]["encoder"],), "data", has_input=False)
        return Beside((query, Flow((source, Beside(tuple(key_value))))))

    def _experts(self, tensors: _Tensors) -> Part:
        words = self.texts["layer"]
        experts, active = tensors.experts()
        title = [words["experts"], words["number"].format(experts=experts)]
        if active and active < experts:
            title.append(words["active"].format(active=active))
        parts = []
        if "router" in tensors:
            parts.append(tensors.box("router"))
        chosen = Frame(tuple(title), (*parts, *tensors.feed_forward("expert", is_narrow=True)))
        if "shared_expert.down" not in tensors:
            tensors.check_all_drawn()
            return chosen
        always = tensors.feed_forward("shared_expert", is_narrow=True)
        if "shared_expert.switch" in tensors:
            switch = Beside((_as_one(always), tensors.box("shared_expert.switch")))
            always = [switch, Junction("×")]
        tensors.check_all_drawn()
        shared = Frame((words["shared_expert"],), tuple(always))
        return Flow((Beside((chosen, shared)), Junction()))

    def norms(self, entries: Sequence[Entry]) -> Iterator[Box]:
        """Yield a box for each norm: its scale, and its shift if it has one."""
        by_module: dict[str, list[Entry]] = {}
        for entry in entries:
            by_module.setdefault(entry.template.name.rpartition(".")[0], []).append(entry)
        for vectors in by_module.values():
            yield self.norm("norm", vectors)

    def norm(self, name: str, vectors: Sequence[Entry]) -> Box:
        """Return the box of a norm with these vectors."""
        shapes = {entry.shape for entry in vectors}
        if len(shapes) != 1 or len(vectors) > len(_NORM_LETTERS):
            raise _CannotDrawError
        letters = ", ".join(_NORM_LETTERS[: len(vectors)])
        size = " × ".join(map(count, vectors[0].shape))
        dims = self.narrator.dims(vectors[0])
        if not all(map(str.isdigit, dims)):
            size = f"{marked_shape(dims)} = {size}"
        return Box((self.texts["box"][name], f"{letters}: {size}"))

    @property
    def width(self) -> int:
        """The width of the vectors that enter and leave a layer."""
        tensors = _Tensors(self, self.drawn_layer.entries)
        return tensors.linear("attention.output").outputs

    # Heads

    @cached_property
    def attention(self) -> _Attention | None:
        """The heads of the layer that is drawn; None if they are not known."""
        tensors = _Tensors(self, self.drawn_layer.entries)
        heads = self._heads_field(tensors)
        if heads is None:
            return None
        try:
            return self._attention_of(tensors, heads)
        except _CannotDrawError:
            return None

    def _heads_field(self, tensors: _Tensors) -> str | None:
        """Return the config field with the number of heads of this part."""
        fields = [
            field
            for field, value in self.narrator.ledger.fields.items()
            if type(value) is int and _letter_of(field) in _HEADS
        ]
        used = tensors.fields_of_attention()
        sharing = [field for field in fields if field in used]
        if len(sharing) == 1:
            return sharing[0]
        configs = {field.rpartition(".")[0] for field in used}
        inside = [field for field in fields if field.rpartition(".")[0] in configs]
        if len(inside) == 1:
            return inside[0]
        side = self.drawn_layer.prefix.split(".")
        sided = [field for field in inside if _side(field) in side]
        return sided[0] if len(sided) == 1 else None

    def _attention_of(self, tensors: _Tensors, field: str) -> _Attention:
        heads: int = self.narrator.ledger.fields[field]
        value_size = _divided(tensors.linear("attention.output").inputs, heads)
        size, key_heads = value_size, heads
        if "attention.kv_down" in tensors:
            last = "q_up" if "attention.q_up" in tensors else "query"
            size = _divided(tensors.linear(f"attention.{last}").outputs, heads)
        elif "attention.qkv" in tensors:
            all_heads = _divided(tensors.linear("attention.qkv").outputs, size)
            key_heads = _divided(all_heads - heads, 2)
        elif "attention.kv" in tensors:
            key_heads = _divided(tensors.linear("attention.kv").outputs, 2 * size)
        else:
            size = _divided(tensors.linear("attention.query").outputs, heads)
            key_heads = _divided(tensors.linear("attention.key").outputs, size)
            if tensors.linear("attention.value").outputs != key_heads * value_size:
                raise _CannotDrawError
        _divided(heads, key_heads)
        return _Attention(field, heads, key_heads, size, value_size)

    def _heads(self) -> Diagram:
        attention = self.attention
        if attention is None:
            raise _CannotDrawError
        tensors = _Tensors(
            self, [entry for entry in self.drawn_layer.entries if _stem(entry) == "attention"]
        )
        tensors.leave_out("attention.norm")
        words = self.texts["heads"]
        groups = attention.heads // attention.key_heads
        into = Box((self.texts["layer"]["into"].format(width=self.width),), "data")
        heads, cells = self._sizes("A", attention.heads), _head_cells(attention.heads, groups)
        key_heads = self._sizes("A_kv", attention.key_heads)
        if groups == 1:
            key_heads = heads
        key_size = self._sizes("D", attention.size, attention)
        value_size = self._sizes("D", attention.value_size, attention)
        strips = (
            _strip(words["query"], words, heads, key_size, cells.query),
            _strip(words["key"], words, key_heads, key_size, cells.key_value),
            _strip(words["value"], words, key_heads, value_size, cells.key_value),
        )
        result = _strip(words["result"], words, heads, value_size, cells.query)
        parts = [
            into,
            self._projections("attention", tensors),
            Strips(strips),
            Box((self.texts["box"]["attend"],), "step"),
            Strips((result,)),
            tensors.box("attention.output"),
            into,
        ]
        tensors.check_all_drawn()
        caption = words["caption"]
        if groups > 1:
            caption = words["caption_grouped"].format(group=groups)
        return Diagram("heads", words["title"], caption, tuple(parts))

    def _sizes(self, letter: str, value: int, attention: _Attention | None = None) -> str:
        """Return a size as text: its letter in this model, if it has one, and its value."""
        letters = self._letters_here
        for kinds in _SIZE_LETTERS.get(letter, ((letter,),)):
            sizes = [letters[kind] for kind in kinds if kind in letters]
            if len(sizes) == len(kinds) and sum(size for _, size in sizes) == value:
                sum_of_letters = " + ".join(f"${known}$" for known, _ in sizes)
                return f"{sum_of_letters} = {count(value)}"
        heads_letter = self.narrator.letters.get(self._heads_letter_field)
        if letter == "A" and heads_letter:
            return f"${heads_letter}$ = {count(value)}"
        if attention is not None and attention.size == attention.value_size:
            return f"$d_k$ = {count(value)}"
        return count(value)

    @property
    def _letters_here(self) -> dict[str, tuple[str, int]]:
        """The letters of sizes in the config of this part, by their general letters."""
        letters = {}
        for field, known in self.narrator.letters.items():
            if field.rpartition(".")[0] == self._config_of_heads and field in self.narrator.values:
                letters[_letter_of(field)] = known, self.narrator.values[field]
        return letters

    @property
    def _heads_letter_field(self) -> str:
        return self.attention.field if self.attention else ""

    @property
    def _config_of_heads(self) -> str:
        return self._heads_letter_field.rpartition(".")[0]


class _Layer(NamedTuple):
    """The layer that is drawn: the prefix of its list, its tensors, how many layers are alike."""

    prefix: str
    entries: list[Entry]
    alike: int
    layers: int


class _Attention(NamedTuple):
    """The numbers and sizes of heads; ``field`` is where the config has the number."""

    field: str
    heads: int
    key_heads: int
    size: int
    value_size: int


class _Linear(NamedTuple):
    """A matrix with its bias, if it has one."""

    weight: Entry
    bias: Entry | None

    @property
    def sides(self) -> tuple[int, int]:
        """Outputs and inputs. Only a bias shows that a matrix is stored as inputs × outputs."""
        outputs, inputs = self.weight.shape[-2:]
        if self.bias is not None and self.bias.shape[-1] != outputs:
            outputs, inputs = inputs, outputs
        return outputs, inputs

    @property
    def outputs(self) -> int:
        return self.sides[0]

    @property
    def inputs(self) -> int:
        return self.sides[1]


class _Block(NamedTuple):
    """A block of a layer, and the norms that belong to it, in the order of their names."""

    frame: Part
    norms: tuple[Box, ...]

    def apart(self) -> list[Part]:
        """Return its parts, without a claim about their order."""
        if not self.norms:
            return [self.frame]
        return [Beside(self.norms), self.frame]

    def in_order(self, steps: Sequence[str]) -> list[Part]:
        """Return its parts in an order of steps; ``add`` adds what went in."""
        norms = iter(self.norms)
        inside: list[Part] = []
        for step in steps:
            if step == "norm":
                inside.append(next(norms))
            elif step == "add":
                inside = [Residual(tuple(inside))]
            else:
                inside.append(self.frame)
        return inside


def _is_order_of(steps: Sequence[Sequence[str]], blocks: Mapping[str, _Block]) -> bool:
    """Whether an order has the blocks of a layer, each with as many norms."""
    norms = {name: len(block.norms) for name, block in blocks.items()}
    ordered = {}
    for block_steps in steps:
        for name in blocks.keys() & set(block_steps):
            ordered[name] = block_steps.count("norm")
    return ordered == norms


class _Tensors:
    """The tensors of a part by role; each is taken out when it is drawn."""

    def __init__(self, diagrams: Diagrams, entries: Iterable[Entry]) -> None:
        self.diagrams, self.words = diagrams, diagrams.texts["box"]
        self.by_role: dict[str, list[Entry]] = {}
        for entry in entries:
            self.by_role.setdefault(entry.template.role, []).append(entry)
        self.undrawn = set(self.by_role)

    def __contains__(self, role: str) -> bool:
        return role in self.by_role

    def leave_out(self, role: str) -> None:
        self.undrawn.discard(role)

    def check_all_drawn(self) -> None:
        """Refuse to draw a part with tensors that its diagram does not show."""
        if self.undrawn:
            raise _CannotDrawError

    def linear(self, role: str) -> _Linear:
        """Return the only matrix of a role, with its bias."""
        weights = [entry for entry in self.by_role.get(role, ()) if not _is_bias(entry)]
        biases = [entry for entry in self.by_role.get(role, ()) if _is_bias(entry)]
        if len(weights) != 1 or len(biases) > 1 or len(weights[0].shape) < _MATRIX:
            raise _CannotDrawError
        return _Linear(weights[0], biases[0] if biases else None)

    def box(self, role: str, name: str = "", longest: int = 0) -> Box:
        """Return the box of a matrix: its name, its shape in letters and in numbers."""
        linear = self.linear(role)
        self.undrawn.discard(role)
        name = name or role.rpartition(".")[2]
        return self.shape_box(name, linear.weight, linear.bias, longest)

    def shape_box(self, name: str, weight: Entry, bias: Entry | None, longest: int = 0) -> Box:
        """Return the box of a tensor; letters longer than ``longest`` characters are left out."""
        dims = self.diagrams.narrator.dims(weight)
        letters, numbers = _shape(list(map(_marked, dims))), _shape(list(map(count, weight.shape)))
        all_dims = list(dims)
        if bias is not None:
            bias_dims = self.diagrams.narrator.dims(bias)
            letters += f"\n+ {marked_shape(bias_dims)}"
            numbers += f"\n+ {' × '.join(map(count, bias.shape))}"
            all_dims += bias_dims
        lines = [self.words[name], letters, numbers]
        visible = letters.replace("$", "").replace(" * ", "·").split("\n")
        if all(map(str.isdigit, all_dims)) or len(max(visible, key=len)) > (longest or _LONGEST):
            del lines[1]
        return Box(tuple(lines))

    def norm_box(self, role: str, name: str) -> Box:
        self.undrawn.discard(role)
        return self.diagrams.norm(name, self.by_role[role])

    def optional_norm(self, role: str, name: str = "norm") -> list[Part]:
        if role not in self:
            return []
        return [self.norm_box(role, name)]

    def query(self, name: str) -> list[Part]:
        """Return the way from a vector to its queries, through a bottleneck or directly."""
        if f"{name}.q_down" in self:
            return [
                self.box(f"{name}.q_down"),
                *self.optional_norm(f"{name}.q_down_norm"),
                self.box(f"{name}.q_up"),
            ]
        direct = self.box(f"{name}.query", longest=_LONGEST_OF_THREE)
        return [direct, *self.optional_norm(f"{name}.query_norm")]

    def latent(self, name: str) -> list[Part]:
        """Return the way from a vector to its keys and values through a bottleneck."""
        return [
            self.box(f"{name}.kv_down"),
            *self.optional_norm(f"{name}.kv_down_norm"),
            self.box(f"{name}.kv_up"),
        ]

    def fused_norms(self, name: str) -> list[Part]:
        """Return the norms of queries and keys that come from one matrix."""
        norms: list[Part] = []
        for kind in ("query_norm", "key_norm"):
            norms += self.optional_norm(f"{name}.{kind}", kind)
        if len(norms) > 1:
            return [Beside(tuple(norms))]
        return norms

    def feed_forward(self, name: str, *, is_narrow: bool = False) -> list[Part]:
        """Return the steps of a feed-forward network, with a gate or without."""
        words = self.words
        is_gated = f"{name}.gate" in self or f"{name}.gate_up" in self
        step = Box((words["gating" if is_gated else "activation"],), "step")
        down = self.box(f"{name}.down")
        if f"{name}.gate_up" in self:
            return [self.box(f"{name}.gate_up"), step, down]
        if f"{name}.gate" not in self:
            return [self.box(f"{name}.up"), step, down]
        gate, up = self.linear(f"{name}.gate"), self.linear(f"{name}.up")
        if is_narrow and gate.weight.shape == up.weight.shape and not (gate.bias or up.bias):
            self.undrawn -= {f"{name}.gate", f"{name}.up"}
            return [self.shape_box("gate_up_each", gate.weight, None), step, down]
        return [Beside((self.box(f"{name}.gate"), self.box(f"{name}.up"))), step, down]

    def experts(self) -> tuple[int, int]:
        """Return the number of experts in a layer, and of those that a token uses."""
        entry = self.linear("expert.down").weight
        if len(entry.shape) > _MATRIX:
            experts, of_one = entry.shape[0], prod(entry.shape[1:])
        else:
            experts, of_one = (
                len(next(inside for _, inside in entry.indices.items())),
                prod(entry.shape),
            )
        layers = len(entry.indices.outermost)
        active = self.diagrams.narrator.ledger.active_of(entry)
        return experts, active // (of_one * layers)

    def fields_of_attention(self) -> set[str]:
        """Return the config fields in the shapes of attention."""
        used: set[str] = set()
        for role, entries in self.by_role.items():
            if role.startswith("attention."):
                for entry in entries:
                    for dim in entry.template.dims:
                        used |= set(names_in(self.diagrams.narrator.blueprint.dims[dim]))
        return used


class _Inputs:
    """The embedding tensors of a part by the last piece of their role."""

    def __init__(self, diagrams: Diagrams, entries: Sequence[Entry]) -> None:
        self.tensors = _Tensors(diagrams, entries)
        self.words = diagrams.texts
        self.width = 0

    @property
    def rest(self) -> list[str]:
        """The kinds that are not drawn yet."""
        return [role.removeprefix("embedding.") for role in self.tensors.undrawn]

    def branch(self, kinds: Sequence[str]) -> list[Part]:
        """Return what happens to one summand: its table, then further steps."""
        parts: list[Part] = [self.table(kinds[0])]
        for kind in kinds[1:]:
            if kind == "class":
                joined = Box((self.words["embeddings"]["concatenate"],), "step")
                special = self.table(kind)._replace(has_input=False)
                parts = [Beside((special, _as_one(parts))), joined]
            else:
                parts.append(self.step(kind))
        return parts

    def table(self, kind: str) -> Box:
        role = f"embedding.{kind}"
        entries = self.tensors.by_role.get(role, [])
        weights = [entry for entry in entries if not _is_bias(entry)]
        biases = [entry for entry in entries if _is_bias(entry)]
        if len(weights) != 1 or len(biases) > 1:
            raise _CannotDrawError
        self.tensors.undrawn.discard(role)
        self.width = weights[0].shape[-1]
        if kind == "patch":
            self.width = weights[0].shape[0]
        return self.tensors.shape_box(role, weights[0], biases[0] if biases else None)

    def step(self, kind: str) -> Box:
        role = f"embedding.{kind}"
        if role not in self.tensors:
            raise _CannotDrawError
        if kind == "norm":
            return self.tensors.norm_box(role, kind)
        self.width = self.tensors.linear(role).outputs
        return self.tensors.box(role, role)


def _strip(
    name: str, words: Mapping[str, str], heads: str, size: str, cells: tuple[tuple[str, int], ...]
) -> Strip:
    return Strip(name, words["heads"].format(name=name, heads=heads, size=size), cells)


class _Cells(NamedTuple):
    """The cells of heads: those of queries, and those of keys and values below them."""

    query: tuple[tuple[str, int], ...]
    key_value: tuple[tuple[str, int], ...]


def _head_cells(heads: int, group: int) -> _Cells:
    """Number the heads; key-value heads are as wide as their group of query heads.

    Where there are many, only the first and the last are shown.

    Example:
        >>> _head_cells(4, 2)
        _Cells(query=(('1', 1), ('2', 1), ('3', 1), ('4', 1)), key_value=(('1', 2), ('2', 2)))
        >>> [text for text, _ in _head_cells(32, 4).query]
        ['1', '2', '3', '4', '5', '6', '7', '8', '…', '29', '30', '31', '32']
        >>> [text for text, _ in _head_cells(32, 4).key_value]
        ['1', '2', '…', '8']
    """
    groups = heads // group
    shown = list(range(1, groups + 1))
    inside = _shown(group, _MOST_IN_GROUP if groups > 1 else _MOST_CELLS)
    if groups * len(inside) > _MOST_CELLS:
        before = max(1, (_MOST_CELLS - 1) // len(inside) - 1)
        shown = [*range(1, before + 1), 0, groups]
    query: list[tuple[str, int]] = []
    key_value: list[tuple[str, int]] = []
    for number in shown:
        if not number:
            query.append(("…", 1))
            key_value.append(("…", 1))
            continue
        first = (number - 1) * group
        query += [(str(first + head) if head else "…", 1) for head in inside]
        key_value.append((str(number), len(inside)))
    return _Cells(tuple(query), tuple(key_value))


def _shown(number: int, most: int) -> list[int]:
    """Return the numbers from 1; 0 stands for those left out before the last."""
    if number <= most:
        return list(range(1, number + 1))
    return [*range(1, most - 1), 0, number]


_MOST_CELLS = 13  # cells side by side, each wide enough for three digits
_MOST_IN_GROUP = 4
_MATRIX = 2  # dims
_LONGEST = 24  # characters of a shape in letters, about half a phone's width
_LONGEST_OF_THREE = 15  # of each of three shapes side by side
_NORM_LETTERS = ("$gamma$", "$beta$")
_SIZE_LETTERS = {"D": (("D",), ("D_n", "D_r"), ("D_v",))}  # what the size of a head may be
_HEADS = ("A", "A_e", "A_d")  # the letters of numbers of heads
_BLOCKS = {
    "attention": "attention",
    "cross_attention": "cross_attention",
    "ffn": "ffn",
    "router": "ffn",
    "expert": "ffn",
    "shared_expert": "ffn",
}
"""The block of a layer that each component belongs to, in order."""


_MODULES_OF_CONFIGS = {
    "text_config": ("language_model", "text_model"),
    "vision_config": ("vision_tower", "vision_model"),
}
"""The modules that are built from a config inside another."""


def _stem(entry: Entry) -> str:
    return entry.template.role.partition(".")[0]


def _is_block_norm(entry: Entry) -> bool:
    return entry.template.role in ("attention.norm", "cross_attention.norm", "ffn.norm")


def _marked(dim: str) -> str:
    """Return a factor of a shape as prose, a sum in brackets."""
    return marked_shape([dim, dim]).partition(" × ")[0]


def _shape(dims: Sequence[str]) -> str:
    """Return a shape as a line that may be broken before its third dim."""
    if len(dims) <= _MATRIX:
        return " × ".join(dims)
    return f"{' × '.join(dims[:_MATRIX])}\n× {' × '.join(dims[_MATRIX:])}"


def _is_bias(entry: Entry) -> bool:
    return entry.template.name.endswith("bias")


def _layer_prefix(entry: Entry) -> str:
    return entry.template.name.partition("{")[0]


def _signature(entries: Iterable[Entry]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((entry.template.name, entry.shape) for entry in entries)


def _letter_of(field: str) -> str:
    symbol = size_symbols().get(field.rpartition(".")[2])
    return symbol.letter if symbol else ""


def _side(field: str) -> str:
    """Return the side of a field of an encoder and decoder: ``"encoder"``."""
    return field.rpartition(".")[2].partition("_")[0]


def _divided(number: int, divisor: int) -> int:
    quotient, rest = divmod(number, divisor)
    if rest or quotient < 1:
        raise _CannotDrawError
    return quotient


def _drawn(draw: Callable[[], Diagram]) -> Iterator[Diagram]:
    """Yield a diagram if it can be drawn."""
    try:
        yield draw()
    except _CannotDrawError:
        return


def _as_one(parts: Sequence[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    return Flow(tuple(parts))
