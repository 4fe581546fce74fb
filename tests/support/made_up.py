"""Made-up blueprints of format 2, and the rows that a program would build from each.

Each has a feature that shipped blueprints may lack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Fields = dict[str, Any]
    Rows = Iterator[tuple[str, tuple[int, ...]]]

PROOF = {"by": "nothing", "against": "nothing", "configs": 1}


def blueprint(family: str, **parts: Any) -> dict[str, Any]:
    """Return a raw blueprint whose modules are all called Module."""
    paths = {name.rpartition(".")[0] for name in parts["tensors"]} - {""}
    head = {"format": 2, "family": family, "source": "made up", "class": "Base", "proof": PROOF}
    return {**head, "modules": dict.fromkeys(sorted(paths), "Module"), **parts}


STAGES = blueprint(
    "stages",
    defaults={
        "width": 4,
        "depths": [2, 1, 3],
        "ratio": 2.5,
        "relative": True,
        "window": 3,
        "shift": 1,
    },
    repeat={"j": "len(depths)", "k": "depths[j]"},
    tensors={
        "scale": "",
        "stages.{j}.blocks.{k}.norm.weight": "width*2**j",
        "stages.{j}.blocks.{k}.mlp.weight": "int(width * 2**j * ratio) width*2**j",
        "stages.{j}.blocks.{k}.table": "((2*window - 1)**2 if relative else window) 2",
        "stages.{j}.blocks.{k}.shift.weight": "width",
        "stages.{j}.down.weight": "width*2**(j + 1) width*2**j",
        "stages.{j}.bias": "width",
        "head.weight": "width*2**(len(depths) - 1)",
    },
    when={
        "stages.{j}.down": "j < len(depths) - 1",
        "stages.{j}.blocks.{k}.shift": "k % 2 == shift",
    },
    buffers={"stages.{j}.blocks.{k}.index": "I64 window window"},
)


def stages_rows(fields: Fields) -> Rows:
    width, depths, ratio, window = (fields[name] for name in ("width", "depths", "ratio", "window"))
    yield "scale", ()
    for j, depth in enumerate(depths):
        here = width * 2**j
        for k in range(depth):
            yield f"stages.{j}.blocks.{k}.norm.weight", (here,)
            yield f"stages.{j}.blocks.{k}.mlp.weight", (int(width * 2**j * ratio), here)
            yield (
                f"stages.{j}.blocks.{k}.table",
                ((2 * window - 1) ** 2 if fields["relative"] else window, 2),
            )
            if k % 2 == fields["shift"]:
                yield f"stages.{j}.blocks.{k}.shift.weight", (width,)
        if j < len(depths) - 1:
            yield f"stages.{j}.down.weight", (2 * here, here)
        yield f"stages.{j}.bias", (width,)
    yield "head.weight", (width * 2 ** (len(depths) - 1),)


EXPERTS = blueprint(
    "experts",
    nullable=["low_rank"],
    zero=["shared"],
    defaults={
        "width": 6,
        "layers": 5,
        "first_dense": 2,
        "experts": 4,
        "experts_per_token": 2,
        "shared": 1,
        "hidden": 3,
        "low_rank": 2,
    },
    computed={
        "kinds": '["full" if (i + 1) % 3 == 0 else "slide" for i in range(layers)]',
    },
    repeat={"i": "layers", "e": "experts"},
    tensors={
        "embed.weight": "7 width",
        "layers.{i}.q.weight": "width width",
        "layers.{i}.q_a.weight": "low_rank width",
        "layers.{i}.mlp.dense.weight": "hidden width",
        "layers.{i}.mlp.router.weight": "experts width",
        "layers.{i}.mlp.experts.{e}.up.weight": "hidden width",
        "layers.{i}.mlp.fused.up": "experts 2*hidden width",
        "layers.{i}.mlp.shared.weight": "shared*hidden width",
        "layers.{i}.sink": "width",
    },
    when={
        "layers.{i}.q": "low_rank == null",
        "layers.{i}.q_a": "low_rank != null",
        "layers.{i}.mlp.dense": "i < first_dense",
        "layers.{i}.mlp.router": "i >= first_dense",
        "layers.{i}.mlp.experts": "i >= first_dense",
        "layers.{i}.mlp.experts.{e}.up": "hidden > 0",
        "layers.{i}.mlp.fused": "not i < first_dense",
        "layers.{i}.sink": 'kinds[i] == "full"',
    },
    buffers={"layers.{i}.mlp.router.bias": "F32 experts"},
    active={
        "layers.{i}.mlp.experts.{e}": "experts_per_token",
        "layers.{i}.mlp.fused": "experts_per_token",
    },
    classes={
        "Head": {
            "prefix": "model",
            "tensors": {"lm_head.weight": "7 width", "aux.{i}.weight": "width"},
            "when": {"aux.{i}": "i % 2 == 0"},
            "buffers": {"aux.{i}.seen": "I64 layers"},
            "ties": {"lm_head.weight": "model.embed.weight if experts_per_token > 0"},
            "modules": {"lm_head": "Linear", "aux.{i}": "Aux"},
        },
        "Alone": {
            "base": False,
            "tensors": {"own.{i}.w": "width width"},
            "modules": {"own.{i}": "Own"},
        },
    },
)


def experts_rows(fields: Fields) -> Rows:
    width, hidden, experts, low_rank = (
        fields[name] for name in ("width", "hidden", "experts", "low_rank")
    )
    yield "embed.weight", (7, width)
    for i in range(fields["layers"]):
        if low_rank is None:
            yield f"layers.{i}.q.weight", (width, width)
        else:
            yield f"layers.{i}.q_a.weight", (low_rank, width)
        if i < fields["first_dense"]:
            yield f"layers.{i}.mlp.dense.weight", (hidden, width)
        else:
            yield f"layers.{i}.mlp.router.weight", (experts, width)
            for e in range(experts):
                yield f"layers.{i}.mlp.experts.{e}.up.weight", (hidden, width)
            yield f"layers.{i}.mlp.fused.up", (experts, 2 * hidden, width)
        yield f"layers.{i}.mlp.shared.weight", (fields["shared"] * hidden, width)
        if fields["kinds"][i] == "full":
            yield f"layers.{i}.sink", (width,)


SHARED = blueprint(
    "shared",
    defaults={"width": 4, "layers": 3, "share": True, "groups": 2},
    repeat={"i": "layers", "g": "groups"},
    tensors={
        "encoder.{i}.w": "width width",
        "encoder.{i}.b": "max(i, width)",
        "decoder.{i}.w": "width width",
        "blocks.{i}.parts.{g}.w": "width",
    },
    ties={
        "decoder.{i}.w": "encoder.{i}.w if share",
        "blocks.{i}.parts.{g}.w": "blocks.0.parts.{g}.w if i > 0",
    },
)


def shared_rows(fields: Fields) -> Rows:
    layers, width = range(fields["layers"]), fields["width"]
    for i in layers:
        yield f"encoder.{i}.w", (width, width)
        yield f"encoder.{i}.b", (max(i, width),)
    yield from ((f"decoder.{i}.w", (width, width)) for i in layers)
    yield from (
        (f"blocks.{i}.parts.{g}.w", (width,)) for i in layers for g in range(fields["groups"])
    )


ALL: dict[str, tuple[dict[str, Any], Callable[[Fields], Rows]]] = {
    "stages": (STAGES, stages_rows),
    "experts": (EXPERTS, experts_rows),
    "shared": (SHARED, shared_rows),
}

MIXED = {
    "format": 2,
    "family": "mixed",
    "source": "made up",
    "class": "MixedModel",
    "require": ["len(layer_types) == depth", "len(sizes) == depth"],
    "proof": {"by": "nothing", "against": "nothing", "configs": 1},
    "defaults": {
        "width": 8,
        "depth": 4,
        "first_k": 3,
        "layer_types": ["full", "sliding", "full", "sliding"],
        "sizes": [5, 6, 5, 7],
    },
    "repeat": {"i": "depth"},
    "tensors": {
        "embeddings.word_embeddings.weight": "3 width",
        "h.{i}.attention.self.query.weight": "width width",
        "h.{i}.attention.self.key.weight": "width+i width",
        "h.{i}.intermediate.dense.weight": "sizes[i] width",
        "h.{i}.output.dense.weight": "width sizes[i]",
        "h.{i}.output.LayerNorm.weight": "width",
        "pooler.dense.weight": "width width",
    },
    "when": {"h.{i}.attention": 'layer_types[i] == "full"', "h.{i}.intermediate": "i < first_k"},
    "modules": {
        "embeddings.word_embeddings": "Embedding",
        "h.{i}.attention.self.query": "Linear",
        "h.{i}.attention.self.key": "Linear",
        "h.{i}.intermediate.dense": "Linear",
        "h.{i}.output.dense": "Linear",
        "h.{i}.output.LayerNorm": "LayerNorm",
        "pooler.dense": "Linear",
    },
}
