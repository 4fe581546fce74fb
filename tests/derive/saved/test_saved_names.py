"""The contents of files where transformers fuses, splits and renames tensors on loading.

Tested on made-up blueprints, and on derived ones against the files that transformers saves.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from made_up import blueprint

from weighbridge import data, readers
from weighbridge.answers.verify import verify
from weighbridge.answers.weigh import weigh
from weighbridge.blueprint import law
from weighbridge.blueprint.schema import Blueprint
from weighbridge.derive.generalize.draft import Draft, Drafted
from weighbridge.derive.probing import reversal
from weighbridge.derive.probing.probe import Probe, ProbedTensor
from weighbridge.derive.probing.symbolic import SymbolicTrace
from weighbridge.derive.saved.saved_names import SavedNames, learn_saved
from weighbridge.derive.saved.saved_tensors import SavedTensor
from weighbridge.derive.toml_text import blueprint_text
from weighbridge.errors import BlueprintError
from weighbridge.ledger.ledger import Ledger, bind
from weighbridge.matching.comparison import compare_tensors
from weighbridge.readers import StoredCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from weighbridge.ledger.rows import Row

    Raw = dict[str, Any]


def raw() -> Raw:
    """Return a blueprint whose files hold single experts, fused attention, and other paths."""
    return blueprint(
        "stored",
        defaults={
            "width": 4,
            "layers": 3,
            "dense": 1,
            "experts": 2,
            "hidden": 3,
            "each": 1,
            "tied": True,
        },
        repeat={"i": "layers", "e": "experts", "z": "2 * experts"},
        tensors={
            "embed.weight": "7 width",
            "blocks.{i}.attn.q": "width width",
            "blocks.{i}.attn.k": "width width",
            "blocks.{i}.attn.v": "width width",
            "blocks.{i}.mlp.up": "hidden width",
            "blocks.{i}.moe.up": "experts 2*hidden width",
            "blocks.{i}.norm.weight": "width",
            "out.weight": "7 width",
            "mixed": "experts*(1+hidden) width",
        },
        when={"blocks.{i}.moe": "i >= dense", "blocks.{i}.mlp": "i < dense"},
        ties={
            "out.weight": "embed.weight if tied",
            "blocks.{i}.norm.weight": "blocks.0.norm.weight if i > 1",
        },
        buffers={"blocks.{i}.norm.seen": "I64 width"},
        active={"blocks.{i}.moe": "each"},
        stored={
            "blocks.{i}.attn.q": ["h.{i}.qkv: 3*width width"],
            "blocks.{i}.attn.k": ["h.{i}.qkv: 3*width width"],
            "blocks.{i}.attn.v": ["h.{i}.qkv: 3*width width"],
            "blocks.{i}.moe.up": [
                "h.{i}.experts.{e}.gate_proj.weight: hidden width",
                "h.{i}.experts.{e}.up_proj.weight: hidden width",
            ],
            "blocks": ["h"],
            "mixed": ["mixed.{z}: (1 if z < experts else hidden) width"],
        },
        renamed={"tower.h": "h"},
        classes={
            "Head": {
                "prefix": "model",
                "tensors": {"head.weight": "width width"},
                "modules": {"head": "Linear"},
            },
            "Other": {
                "prefix": "model",
                "tensors": {"head.weight": "width width"},
                "modules": {"head": "Linear"},
                "stored": {
                    "model.embed": ["wte"],
                    "head": ["top"],
                    "model.blocks.{i}.norm": ["model.n.{i}"],
                },
            },
        },
    )


FIELDS = raw()["defaults"]


def ledger(class_name: str = "Base", **fields: Any) -> Ledger:
    made = raw()
    law.check(made)
    return bind(Blueprint(made), class_name, {**FIELDS, **fields})


def rows(stored: Iterable[Row]) -> dict[str, tuple[int, ...]]:
    return {row.name: row.shape for row in stored}


def found(stored: Iterable[Row]) -> StoredCheckpoint:
    return StoredCheckpoint(
        "model.safetensors",
        "safetensors",
        tuple(stored),
        {},
        ("model.safetensors",),
        0,
        {},
        {},
        (),
        None,
    )


def untied(stored: Iterable[Row]) -> list[Row]:
    return [row for row in stored if not row.tied_to]


def differences(held: Ledger, stored: Iterable[Row]) -> list[tuple[str, str]]:
    return [
        (difference.kind, difference.name)
        for difference in compare_tensors(held, found(stored)).differences
    ]


# Made-up blueprints


def test_files_hold_experts_one_by_one_and_the_rest_under_other_paths() -> None:
    assert rows(ledger(layers=2).stored_rows) == {
        "embed.weight": (7, 4),
        "h.0.qkv": (12, 4),
        "h.0.mlp.up": (3, 4),
        "h.0.norm.weight": (4,),
        "h.1.qkv": (12, 4),
        "h.1.experts.0.gate_proj.weight": (3, 4),
        "h.1.experts.0.up_proj.weight": (3, 4),
        "h.1.experts.1.gate_proj.weight": (3, 4),
        "h.1.experts.1.up_proj.weight": (3, 4),
        "h.1.norm.weight": (4,),
        "out.weight": (7, 4),
        "mixed.0": (1, 4),
        "mixed.1": (1, 4),
        "mixed.2": (3, 4),
        "mixed.3": (3, 4),
    }


def test_a_class_stores_what_the_base_does_under_its_prefix() -> None:
    below = {f"model.{name}": shape for name, shape in rows(ledger().stored_rows).items()}
    assert rows(ledger("Head").stored_rows) == {**below, "head.weight": (4, 4)}


def test_the_entries_of_a_class_override_those_of_the_base() -> None:
    of_head = rows(ledger("Head").stored_rows)
    others = {"model.embed.weight": "wte.weight", "head.weight": "top.weight"}
    others |= {f"model.h.{i}.norm.weight": f"model.n.{i}.weight" for i in range(3)}
    expected = {others.get(name, name): shape for name, shape in of_head.items()}
    assert rows(ledger("Other").stored_rows) == expected


@pytest.mark.parametrize("class_name", ["Base", "Head", "Other"])
def test_both_ledgers_have_the_same_parameters(class_name: str) -> None:
    for fields in (
        {},
        {"layers": 0},
        {"experts": 5, "each": 2, "dense": 0},
        {"tied": False, "width": 6},
    ):
        held = ledger(class_name, **fields)
        assert (
            held.stored.parameters
            == held.parameters
            == sum(row.parameters for row in held.stored_rows)
        )
        assert held.stored.active == held.active
        assert held.stored.formula()(**held.fields) == held.parameters
        assert held.stored.active_formula()(**held.fields) == held.active
        assert held.stored.tensors == len(held.stored_rows)


def test_a_stored_tensor_has_a_role_of_its_own() -> None:
    roles = {row.name: row.role for row in ledger(layers=2).stored_rows}
    assert roles["h.1.experts.1.up_proj.weight"] == "expert.up"
    assert roles["h.1.experts.1.gate_proj.weight"] == "expert.gate"
    assert (
        roles["h.0.norm.weight"]
        == {row.name: row.role for row in ledger().rows}["blocks.0.norm.weight"]
    )


def test_ties_are_between_the_names_in_files() -> None:
    ties = {row.name: row.tied_to for row in ledger("Other", layers=4).stored_rows if row.tied_to}
    assert ties == {
        "model.out.weight": "wte.weight",
        "model.n.2.weight": "model.n.0.weight",
        "model.n.3.weight": "model.n.0.weight",
    }


def test_a_buffer_is_renamed_with_the_path_above_it() -> None:
    assert [row.name for row in ledger(layers=2).stored.buffers()] == [
        "h.0.norm.seen",
        "h.1.norm.seen",
    ]
    assert [row.name for row in ledger(layers=1).buffers()] == ["blocks.0.norm.seen"]


def test_if_files_hold_the_module_s_tensors_both_ledgers_are_one() -> None:
    plain = raw()
    for section in (plain, *plain["classes"].values()):
        section.pop("stored", None)
    plain["repeat"].pop("e")
    law.check(plain)
    held = bind(Blueprint(plain), "Head", FIELDS)
    assert held.stored is held
    assert held.stored_rows == held.rows


def test_the_number_of_experts_is_a_size_that_a_formula_can_replace() -> None:
    held = ledger()
    assert held.formula(experts=5) == ledger(experts=5).parameters


def change(stored: dict[str, list[str]], of: str = "") -> Callable[[Raw], Any]:
    return lambda made: (
        (made["classes"][of] if of else made).setdefault("stored", {}).update(stored)
    )


UNLAWFUL: dict[str, tuple[Callable[[Raw], Any], str]] = {
    "a text": (change({"blocks": "h"}), "types: stored must be a table of lists of texts"),  # type: ignore[dict-item]
    "nothing": (change({"blocks": []}), "types: stored must be a table of lists of texts"),
    "a class's text": (
        change({"head": "x"}, "Head"),
        "types: classes.Head.stored must be a table of lists of texts",
    ),  # type: ignore[dict-item]
    "a name now that is no text": (
        lambda made: made["renamed"].update(a=1),
        "types: renamed must be a table of texts",
    ),
    "dims cut short": (change({"out.weight": ["x: 7 width*"]}), "expressions: x: width*: expected"),
    "dims of no field": (
        change({"out.weight": ["x: 7 height"]}),
        "names: x: height has no default",
    ),
    "dims of an index elsewhere": (
        change({"out.weight": ["x: 7 i"]}),
        "names: x: i has no default",
    ),
    "no path": (change({"out.weight": ["x..y: 7 width"]}), "paths: x..y is not a dotted path"),
    "an index of nothing": (
        change({"out.weight": ["x.{y}: 7 width"]}),
        "paths: x.{y} is not a dotted path",
    ),
    "an older path with an index": (
        lambda made: made["renamed"].update({"old.{i}": "h"}),
        "paths: old.{i}, now h, is not a dotted path without indices",
    ),
    "in place of nothing": (change({"head": ["x"]}), "stored: there is no tensor under head"),
    "fewer elements": (
        change({"out.weight": ["x: 6 width"]}),
        "stored: 24 elements are stored in place of 28, from",
    ),
    "too few of many": (
        change({"blocks.{i}.moe.up": ["h.{i}.experts.{e}.up: hidden width"]}),
        "stored: 24 elements are stored in place of 48, from blocks.{i}.moe.up",
    ),
    "a part of one": (
        change({"blocks.{i}.attn.v": ["h.{i}.v: width width"]}),
        "stored: 48 elements are stored in place of 32, from blocks.{i}.attn.q",
    ),
    "two under one name": (
        change({"out": ["x"], "embed": ["x"]}),
        "stored: Base: embed.weight and out.weight are",
    ),
    "one under the name of another": (
        change({"out": ["embed"]}),
        "stored: Base: embed.weight and out.weight are",
    ),
    "one in two dims": (
        change({"blocks.{i}.attn.v": ["h.{i}.qkv: width 3*width"]}),
        "stored: Base: blocks.{i}.attn.",
    ),
    "several without dims": (
        change({"out.weight": ["x", "y"]}),
        "stored: Base: out.weight are stored under names",
    ),
    "all layers in one": (
        change({"blocks.{i}.moe.up": ["up: 3*experts 2*hidden width"]}),
        "stored: whether blocks.{i}.moe.up exists depends on {i}",
    ),
    "as many as cannot be": (
        lambda made: made["repeat"].update(e="10**9"),
        "stored: 10 ** 9: gives more than 100,000 places",
    ),
}


@pytest.mark.parametrize("case", UNLAWFUL)
def test_a_blueprint_with_a_wrong_entry_is_refused(case: str) -> None:
    breaking, message = UNLAWFUL[case]
    made = raw()
    breaking(made)
    with pytest.raises(BlueprintError) as caught:
        law.check(made)
    assert str(caught.value).startswith(message)


# Checkpoints


@pytest.mark.parametrize("class_name", ["Base", "Head", "Other"])
def test_a_checkpoint_as_transformers_saves_it_agrees(class_name: str) -> None:
    held = ledger(class_name)
    assert differences(held, untied(held.stored_rows)) == []


@pytest.mark.parametrize("class_name", ["Base", "Head", "Other"])
def test_a_checkpoint_of_the_modules_in_memory_agrees_with_a_note(class_name: str) -> None:
    held = ledger(class_name)
    assert differences(held, untied(held.rows)) == [("in_memory", class_name)]


def test_a_mixture_of_both_does_not_agree() -> None:
    held = ledger()
    stored, memory = untied(held.stored_rows), untied(held.rows)
    mixed = [
        *(row for row in stored if "experts" not in row.name),
        *(row for row in memory if "moe" in row.name),
    ]
    kinds = dict(differences(held, mixed))
    assert kinds.keys() == {"missing", "extra"}


def test_missing_tensors_have_the_names_in_files_if_the_form_is_unclear() -> None:
    held = ledger(layers=1)
    found_differences = differences(held, [row for row in held.rows if row.name == "embed.weight"])
    assert ("missing", "h.0.qkv") in found_differences
    assert {kind for kind, _ in found_differences} == {"missing"}


def test_a_class_is_known_by_the_name_that_its_head_has_in_files(tmp_path: Path) -> None:
    from numpy import zeros
    from safetensors.numpy import save_file

    made = tmp_path / "made.toml"
    made.write_text(blueprint_text(raw(), ""), encoding="utf-8")
    stored_rows = untied(ledger("Other").stored_rows)
    save_file(
        {row.name: zeros(row.shape, "float32") for row in stored_rows},
        tmp_path / "model.safetensors",
    )
    verification = verify({}, tmp_path, blueprint=made)
    assert (verification.status, verification.class_name, verification.choice.why) == (
        0,
        "Other",
        "fits",
    )


def test_a_lost_expert_is_missing_by_the_name_that_files_have() -> None:
    held = ledger()
    stored = [row for row in untied(held.stored_rows) if row.name != "h.2.experts.1.up_proj.weight"]
    assert differences(held, stored) == [("missing", "h.2.experts.1.up_proj.weight")]


def test_an_expert_of_another_shape_is_reported() -> None:
    held = ledger()
    stored = [
        row._replace(shape=(4, 3)) if row.name == "h.1.experts.0.gate_proj.weight" else row
        for row in untied(held.stored_rows)
    ]
    assert differences(held, stored) == [("shape", "h.1.experts.0.gate_proj.weight")]


def test_older_paths_are_known() -> None:
    held = ledger()
    stored = [
        row._replace(name=row.name.replace("h.", "tower.h.", 1)) for row in untied(held.stored_rows)
    ]
    stored = [row._replace(name=row.name.replace("emtower.h.", "emh.")) for row in stored]
    found_differences = compare_tensors(held, found(stored)).differences
    assert {difference.kind for difference in found_differences} == {"old_name"}
    assert {difference.about for difference in found_differences} == {("tower.h", "h")}


# Generalized from a few configs

WIDE = ("name", "wide")
DRAFT = Draft(
    repeats={"h": ("name", "layers")},
    tensors={
        name: Drafted(name, tuple(("name", dim) for dim in dims))
        for name, dims in {
            "h.{0}.text": ("one", "wide"),
            "h.{0}.image": ("two", "wide"),
            "out": ("wide",),
        }.items()
    },
)
CONFIGS = [
    {"layers": 2, "one": 2, "two": 4, "wide": 5},
    {"layers": 3, "one": 3, "two": 1, "wide": 7},
    {"layers": 4, "one": 1, "two": 3, "wide": 4},
]

Layer = dict[
    str, tuple[tuple[int, ...], tuple[str, ...]]
]  # the tensors of a file: their shapes and their source tensors


def probe(fields: dict[str, int]) -> Probe:
    layers = range(fields["layers"])
    shapes = {
        f"h.{i}.{name}": (fields[size], fields["wide"])
        for i in layers
        for name, size in BOTH.items()
    }
    tensors = {
        name: ProbedTensor(shape, ())
        for name, shape in {**shapes, "out": (fields["wide"],)}.items()
    }
    return Probe(fields, fields, tensors, {}, {}, {}, SymbolicTrace())


BOTH = {"text": "one", "image": "two"}


class Files:
    """The contents of files, layer by layer; an exception where the reference fails."""

    def __init__(self, layer: Callable[[int, dict[str, int]], Layer]) -> None:
        self.layer = layer

    def in_files(self, _: str, fields: Any) -> reversal.Files:
        found = [self.layer(i, fields) for i in range(fields["layers"])]
        tensors = {name: reversal.InFile(*made) for layer in found for name, made in layer.items()}
        return reversal.Files({**tensors, "out": reversal.InFile((fields["wide"],), ("out",))}, {})


def learned(layer: Callable[[int, dict[str, int]], Layer]) -> SavedNames:
    subject: Any = Files(layer)
    return learn_saved(subject, "Model", DRAFT, [probe(fields) for fields in CONFIGS])


def as_they_are(i: int, fields: dict[str, int]) -> Layer:
    return {
        f"h.{i}.{name}": ((fields[size], fields["wide"]), (f"h.{i}.{name}",))
        for name, size in BOTH.items()
    }


def numbered_through(i: int, fields: dict[str, int]) -> Layer:
    one = fields["one"]
    text = {f"h.{i}.all.{at}": ((fields["wide"],), (f"h.{i}.text",)) for at in range(one)}
    return text | {
        f"h.{i}.all.{one + at}": ((fields["wide"],), (f"h.{i}.image",))
        for at in range(fields["two"])
    }


def test_unchanged_tensors_have_no_dims_of_their_own() -> None:
    found = learned(as_they_are)
    assert found.stored == {name: [SavedTensor(name, None)] for name in DRAFT.tensors}
    assert not found.holes


def test_a_number_at_the_end_of_a_piece_is_an_index_where_it_must_be() -> None:
    found = learned(
        lambda i, fields: {
            f"layer_{i}.w1": ((fields["one"], fields["wide"]), (f"h.{i}.text",)),
            f"layer_{i}.w2": ((fields["two"], fields["wide"]), (f"h.{i}.image",)),
        }
    )
    assert [held.name for name in ("h.{0}.text", "h.{0}.image") for held in found.stored[name]] == [
        "layer_{0}.w1",
        "layer_{0}.w2",
    ]


def test_several_tensors_may_be_numbered_through() -> None:
    held = SavedTensor("h.{0}.all.{1}", (WIDE,), ("+", ("name", "one"), ("name", "two")))
    found = learned(numbered_through)
    assert found.stored["h.{0}.text"] == found.stored["h.{0}.image"] == [held]


def test_tensors_numbered_through_may_change_their_dims_on_the_way() -> None:
    def layer(i: int, fields: dict[str, int]) -> Layer:
        return {
            name: ((fields["wide"], 1) if of[0].endswith("text") else (1, fields["wide"]), of)
            for name, (_, of) in numbered_through(i, fields).items()
        }

    (held,) = learned(layer).stored["h.{0}.text"]
    is_text = ("<", ("index", 1), ("name", "one"))
    assert held.dims == (("if", is_text, WIDE, ("value", 1)), ("if", is_text, ("value", 1), WIDE))


def test_several_tensors_may_be_stored_as_one() -> None:
    def layer(i: int, fields: dict[str, int]) -> Layer:
        shape = (fields["one"] + fields["two"], fields["wide"])
        return {f"h.{i}.both": (shape, (f"h.{i}.text", f"h.{i}.image"))}

    held = SavedTensor("h.{0}.both", (("+", ("name", "one"), ("name", "two")), WIDE))
    found = learned(layer)
    assert found.stored["h.{0}.text"] == found.stored["h.{0}.image"] == [held]


def refused(i: int, fields: dict[str, int]) -> Layer:
    raise ValueError("cannot be turned back")


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (refused, "cannot be turned back"),
        (
            lambda i, fields: {
                f"h.{i + 1}.text": ((fields["one"], fields["wide"]), (f"h.{i}.text",))
            },
            "the numbers in h.{1}.text do not count up from 0",
        ),
        (
            lambda i, fields: {
                f"{'ab'[i % 2]}.{i}": ((fields["one"], fields["wide"]), (f"h.{i}.text",))
            },
            "the names of h.{0}.text follow no pattern",
        ),
        (
            lambda i, fields: {f"h.{i}.x": ((7 * i * i * fields["one"] + 1, 1), (f"h.{i}.text",))},
            "no expression gives",
        ),
        (
            lambda i, fields: {
                f"h.{i}.x": ((2, 1), (f"h.{i}.text", *([f"h.{i}.image"] if i % 2 else [])))
            },
            "h.{0}.text is stored with different tensors in different configs",
        ),
    ],
    ids=["an error", "a distance", "two names", "no dims", "now this, now that"],
)
def test_contents_without_a_pattern_are_a_hole(
    layer: Callable[[int, dict[str, int]], Layer], why: str
) -> None:
    found = learned(layer)
    assert not found.stored
    assert len(found.holes) == 1
    assert found.holes[0].startswith("Model: the contents of files were not derived: ")
    assert why in found.holes[0]


# What transformers saves


class Family(NamedTuple):
    """A family, one of its classes, and a tiny config."""

    name: str
    class_name: str
    config: Raw


TEXT = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 32,
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAVA = Family(
    "llava",
    "LlavaForConditionalGeneration",
    {
        "text_config": {"model_type": "llama", **TEXT},
        "vision_config": {
            "model_type": "clip_vision_model",
            "hidden_size": 8,
            "intermediate_size": 12,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 8,
            "patch_size": 4,
        },
        "vision_feature_layer": -1,
    },
)
FAMILIES = [
    Family("mixtral", "MixtralForCausalLM", {**TEXT, "num_local_experts": 3}),
    Family(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        {
            **TEXT,
            "num_experts": 3,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 10,
            "mlp_only_layers": [1],
        },
    ),
    Family(
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        {
            **{name: value for name, value in TEXT.items() if name != "head_dim"},
            "first_k_dense_replace": 1,
            "n_routed_experts": 4,
            "n_group": 2,
            "topk_group": 1,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 10,
            "kv_lora_rank": 6,
            "q_lora_rank": 5,
            "qk_nope_head_dim": 4,
            "qk_rope_head_dim": 2,
            "v_head_dim": 3,
        },
    ),
    Family(
        "gpt_oss", "GptOssForCausalLM", {**TEXT, "num_local_experts": 3, "num_experts_per_tok": 2}
    ),
    LLAVA,
    Family(
        "qwen2_vl",
        "Qwen2VLForConditionalGeneration",
        {
            "text_config": {"model_type": "qwen2_vl_text", **TEXT},
            "vision_config": {
                "model_type": "qwen2_vl_vision",
                "depth": 2,
                "embed_dim": 8,
                "num_heads": 2,
                "hidden_size": 16,
            },
        },
    ),
    Family(
        "bert",
        "BertForMaskedLM",
        {
            "vocab_size": 32,
            "hidden_size": 8,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 12,
        },
    ),
]


class Saved(NamedTuple):
    """A tiny model as transformers saved it, and its blueprint as it is shipped, in a file."""

    family: Family
    folder: Path
    blueprint: Path
    state: dict[str, tuple[int, ...]]


def derived(family: str, class_name: str) -> str:
    from weighbridge.derive.derivation import derive
    from weighbridge.derive.probing.reference import FamilySubject

    subject = FamilySubject(family)
    assert class_name in subject.task_classes()
    found = derive(subject, classes=[class_name])
    assert found.exact
    return found.text


@pytest.fixture(scope="module", params=FAMILIES, ids=[family.name for family in FAMILIES])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    family: Family = request.param
    folder = tmp_path_factory.mktemp(family.name)
    config = transformers.AutoConfig.for_model(family.name, **family.config)
    module = getattr(transformers, family.class_name)(config)
    module.save_pretrained(folder)
    path = folder / f"{family.name}.toml"
    path.write_text(data.read_text(f"blueprints/{family.name}.toml"), encoding="utf-8")
    state = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    return Saved(family, folder, path, state)


pytestmark = pytest.mark.filterwarnings("ignore")  # the reference's own


@pytest.mark.sampled("src/weighbridge/derive", "src/weighbridge/blueprint")
def test_a_class_derived_alone_has_the_names_in_files_that_are_shipped(
    saved: Saved, tmp_path: Path
) -> None:
    alone = tmp_path / "alone.toml"
    alone.write_text(derived(saved.family.name, saved.family.class_name), encoding="utf-8")
    weighings = [
        weigh(saved.folder / "config.json", saved.family.class_name, blueprint=path)
        for path in (alone, saved.blueprint)
    ]
    ours, shipped = (rows(weighing.stored_rows) for weighing in weighings)
    assert ours == shipped


def test_the_names_in_files_are_those_that_transformers_saves(saved: Saved) -> None:
    read = readers.read(saved.folder)
    weighing = weigh(
        saved.folder / "config.json", saved.family.class_name, blueprint=saved.blueprint
    )
    buffers = {row.name: row.shape for row in weighing.ledger.stored.buffers()}
    assert rows(row for row in read.rows if row.name not in buffers) == rows(
        untied(weighing.stored_rows)
    )
    assert rows(row for row in read.rows if row.name in buffers).items() <= buffers.items()
    assert sum(row.count for row in read.rows) >= weighing.parameters
    assert rows(weighing.rows).keys() <= saved.state.keys()


def test_the_checkpoint_that_transformers_saves_agrees(saved: Saved) -> None:
    verification = verify(saved.folder, saved.folder, blueprint=saved.blueprint)
    assert (verification.status, verification.class_name) == (0, saved.family.class_name)
    assert {difference.kind for difference in verification.differences} <= {"buffer"}


def test_the_modules_own_tensors_agree_too(saved: Saved, tmp_path: Path) -> None:
    from numpy import zeros
    from safetensors.numpy import save_file

    weighing = weigh(
        saved.folder / "config.json", saved.family.class_name, blueprint=saved.blueprint
    )
    stored = {row.name: zeros(row.shape, "float32") for row in untied(weighing.rows)}
    save_file(stored, tmp_path / "model.safetensors")
    verification = verify(saved.folder / "config.json", tmp_path, blueprint=saved.blueprint)
    found_differences = {difference.kind for difference in verification.differences}
    assert (verification.status, verification.class_name) == (0, saved.family.class_name)
    assert found_differences == (
        set() if weighing.ledger.stored is weighing.ledger else {"in_memory"}
    )


@pytest.mark.parametrize("saved", [LLAVA], indirect=True, ids=["llava"])
def test_older_files_that_transformers_loads_agree_too(saved: Saved, tmp_path: Path) -> None:
    """The outside oracle: what transformers itself misses in a file with an old path."""
    import transformers
    from safetensors.torch import load_file, save_file

    older = {
        name.replace("vision_tower.", "vision_tower.vision_model."): tensor
        for name, tensor in load_file(saved.folder / "model.safetensors").items()
    }
    save_file(older, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_bytes((saved.folder / "config.json").read_bytes())
    kind = getattr(transformers, saved.family.class_name)
    _, info = kind.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    verification = verify(tmp_path, tmp_path, blueprint=saved.blueprint)
    assert verification.status == 0
    assert {difference.about for difference in verification.differences} == {
        ("vision_tower.vision_model", "vision_tower")
    }


def test_the_old_names_of_all_families_are_those_that_transformers_knows() -> None:
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping

    renames = data.read_toml("facts/renames.toml")["names"]
    legacy = {
        source.strip("."): target.strip(".")
        for renaming in get_checkpoint_conversion_mapping("legacy")
        for source, target in zip(renaming.source_patterns, renaming.target_patterns, strict=False)
        if not source.startswith(
            "^"
        )  # the prefix of models inside others is stated in the families of the latter
    }
    assert renames == legacy


def test_the_table_by_tensor_has_the_names_in_files(saved: Saved) -> None:
    weighing = weigh(
        saved.folder / "config.json", saved.family.class_name, blueprint=saved.blueprint
    )
    names = [row.name for row in weighing.stored_rows]
    assert list(weighing.by("tensor")) == names
    assert [line.split(",")[0] for line in weighing.csv("tensor").splitlines()[1:]] == names
    assert [row["name"] for row in weighing.to_dict("tensor")["stored_rows"]] == names
    assert sum(weighing.by("tensor").values()) == weighing.parameters
    assert ("that the files store" in weighing.text(by="tensor")) == (
        weighing.ledger.stored is not weighing.ledger
    )
    assert all(math.prod(row.shape) == row.count for row in weighing.stored_rows)
