"""Operations of format 2, against fresh runs of the reference code and against known figures."""

from __future__ import annotations

import copy
import itertools
import random
import tomllib
from typing import Any

import pytest

from weighbridge import data
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.blueprint import operations, schema
from weighbridge.costs import costs
from weighbridge.costs.profiles import PROFILES
from weighbridge.derive.operations import costing
from weighbridge.derive.operations.costing import Proof, recorded_classes
from weighbridge.derive.operations.drafting import Drafting, is_dropout
from weighbridge.derive.operations.draws import PADDED, ROWS, Draws, RunDraw
from weighbridge.derive.operations.numbers import Numbers
from weighbridge.derive.operations.questions import _first_of
from weighbridge.derive.operations.reading import Memory, Reading
from weighbridge.derive.operations.runs import RecordedItem, RunMode, SameAs
from weighbridge.derive.operations.workload import fixed_fields, images_in
from weighbridge.derive.probing.reference import FamilySubject
from weighbridge.derive.write import expression
from weighbridge.errors import ModelError
from weighbridge.models import find as models

RECORDED = [
    name
    for name in operations.available()
    if data.read_toml(f"operations/{name}.toml")["format"] == 2
]


def proof_in(family: str) -> Any:
    return data.read_toml(f"operations/{family}.toml")["proof"]


CLASSES = [
    (family, class_name)
    for family in RECORDED
    for class_name in operations.load_operations(family).class_names
]
RUNS = 2


def proof_of(family: str, raw: Any, class_name: str | None = None) -> Proof:
    subject = FamilySubject(family)
    subject.task_classes()
    class_name = class_name or raw["class"]
    if class_name != subject.base_class:
        subject.check_class(class_name)
    draws = Draws(subject, schema.load(family), fixed_fields(class_name), images_in(class_name))
    return Proof(draws, class_name, raw)


@pytest.mark.sampled("src/weighbridge/derive/operations", "src/weighbridge/costs")
@pytest.mark.parametrize(("family", "class_name"), CLASSES)
def test_fresh_runs_are_as_the_file_says(family: str, class_name: str, seed: str) -> None:
    raw = data.read_toml(f"operations/{family}.toml")
    proof = proof_of(family, raw, class_name)
    proof.dice = random.Random(f"{seed} {family}")  # noqa: S311
    for profile in raw["proof"]["profiles"]:
        assert proof.of_profile(profile, runs=RUNS) is None


@pytest.mark.sampled("src/weighbridge/derive/operations", "src/weighbridge/costs")
@pytest.mark.parametrize("family", [of for of in RECORDED if "single" in proof_in(of)])
def test_fresh_runs_with_one_key_head_are_as_the_file_says(family: str, seed: str) -> None:
    raw = data.read_toml(f"operations/{family}.toml")
    proof = proof_of(family, raw)
    proof.dice = random.Random(f"{seed} {family}")  # noqa: S311
    assert {*raw["proof"]["single"]} <= {*proof._draws.lone_heads}
    for profile in {"cuda-eager", "cuda-flash"}.intersection(raw["proof"]["profiles"]):
        assert list(proof.with_ones(profile, runs=RUNS)) == []


APART = ["phi", "phi3", "seed_oss", "stablelm", "starcoder2", "falcon", "albert", "ernie"]
APART += ["gpt_bigcode", "gpt_neox", "marian", "mbart", "opt", "pegasus", "llava", "nemotron_h"]
"""Families with several dropouts, and key heads or a turned field."""


@pytest.mark.sampled("src/weighbridge/derive/operations", "src/weighbridge/costs")
@pytest.mark.parametrize("family", APART)
def test_one_dropout_is_on_where_heads_are_equal_or_a_field_is_turned(
    family: str, seed: str
) -> None:
    """Which tensor is kept may then depend on one dropout, and on no other."""
    raw = data.read_toml(f"operations/{family}.toml")
    proof, dice = proof_of(family, raw), random.Random(f"{seed} {family}")  # noqa: S311
    proof.dice, draws = dice, proof._draws
    dropouts = [name for name, value in draws.usual.items() if is_dropout(name, value)]
    equal = {key: SameAs(query) for key, query in draws.key_heads.items()}
    ways = [way for way in (equal, draws.turned) if way]
    assert len(dropouts) > 1
    assert ways
    for profile in raw["proof"]["profiles"]:
        settings = []
        for mode, draw in proof._settings(profile, (), 30):
            on = dice.choice(dropouts)
            changes: dict[str, Any] = {name: 0.1 if name == on else 0.0 for name in dropouts}
            changes |= dice.choice(ways)
            run = {**draw.run, "batch": dice.choice((1, draw.run["batch"]))}
            alone = mode._replace(changes=tuple(changes.items()))
            settings.append((alone, draw._replace(run=run)))
        assert proof._agreed(settings, runs=8) is None


@pytest.mark.parametrize("width", [256, 264])
def test_heads_too_wide_for_flash_attention_are_not_run_with_it(width: int) -> None:
    """Where 48 heads of 8 become one of 384, torch takes another kernel."""
    proof = proof_of("olmoe", data.read_toml("operations/olmoe.toml"))
    draw = next(proof._draws.unlike(random.Random(0), 2))  # noqa: S311
    sizes = {"hidden_size": width, "num_attention_heads": 1, "num_key_value_heads": 1}
    wide = RunDraw({**draw.changes, **sizes}, {**draw.fields, **sizes}, draw.run)
    for profile in ("cuda-flash", "cuda-math"):
        is_run = width <= 256 or profile != "cuda-flash"
        found = proof.difference(wide, RunMode("train", profile, "BF16"))
        assert found == ("" if is_run else None)


def test_fresh_runs_with_one_key_head_find_a_copy_that_is_a_view() -> None:
    raw = copy.deepcopy(data.read_toml("operations/llama.toml"))
    path = "model.layers.{i}.self_attn"
    condition = " and (num_key_value_heads != 1 or batch > 1)"
    texts = raw["saved"][path]
    raw["saved"][path] = [text.replace(condition, "") for text in texts]
    assert raw["saved"][path] != texts
    proof = proof_of("llama", raw)
    assert proof.of_profile("cuda-eager") is None
    ((name, difference),) = proof.with_ones("cuda-eager")
    assert name == "num_key_value_heads"
    assert difference.startswith("saved of model.layers")


@pytest.mark.sampled("src/weighbridge/derive")
@pytest.mark.parametrize(
    ("family", "found"),
    [
        ("llama", {}),
        ("olmo", {"clip_qkv": "null"}),
        ("granitemoehybrid", {"position_embedding_type": ["nope", "null"]}),
        ("t5", {"dense_act_fn": ["relu", "gelu_new"], "feed_forward_proj": ["relu", "gated-gelu"]}),
        ("gemma3_text", {"use_bidirectional_attention": False}),  # it halves the window
    ],
)
def test_fields_that_are_null_in_all_runs_are_held_where_they_matter(
    family: str, found: dict[str, Any]
) -> None:
    raw = data.read_toml(f"operations/{family}.toml")
    held = dict(proof_of(family, raw).held())
    assert found.items() <= held.items()
    assert held == raw["held"]


@pytest.mark.sampled("src/weighbridge/derive/operations", "src/weighbridge/data/operations")
@pytest.mark.parametrize("family", RECORDED)
def test_operations_follow_a_field_that_they_name_and_runs_do_not_draw(family: str) -> None:
    raw = data.read_toml(f"operations/{family}.toml")
    proof = proof_of(family, raw)
    named = ((name, value) for name, value in proof._undrawn() if name in raw["fields"])
    assert [name for name, value in named if not proof._is_free(name, value)] == []


def test_a_field_that_stands_for_another_is_found() -> None:
    """With one dense layer, the first layer is every layer without experts."""
    raw = copy.deepcopy(data.read_toml("operations/glm4_moe.toml"))
    texts = raw["saved"]["model.layers.{i}.self_attn"]
    wrong = [text.replace("if i == 0", "if i < first_k_dense_replace") for text in texts]
    assert wrong != texts
    assert proof_of("glm4_moe", raw)._is_free("first_k_dense_replace", 2)
    raw["saved"]["model.layers.{i}.self_attn"] = wrong
    assert not proof_of("glm4_moe", raw)._is_free("first_k_dense_replace", 2)


def test_a_field_that_no_run_follows_is_held() -> None:
    fields = {"attention_k_eq_v": True, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 4}
    known = operations.load_operations("gemma4_text")
    assert known.unheld(fields) == {"num_kv_shared_layers": 4}


@pytest.mark.parametrize("class_name", ["RobertaForQuestionAnswering", "RobertaForMultipleChoice"])
def test_fresh_runs_find_what_is_wrong_with_a_head(class_name: str) -> None:
    raw = copy.deepcopy(data.read_toml("operations/roberta.toml"))
    of_class = raw["classes"][class_name]
    path = next(path for path, texts in of_class["checkpointed"].items() if texts)
    of_class["checkpointed"][path] = []
    difference = proof_of("roberta", raw, class_name).of_profile("cuda-math")
    assert difference is not None
    assert difference.startswith(f"checkpointed of {path}")


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta"])
def test_every_class_of_an_encoder_is_recorded(family: str) -> None:
    known = operations.load_operations(family)
    assert known.class_names == tuple(schema.load(family).class_names)
    assert set(known.proof["profiles"]) == set(PROFILES)
    assert known.proof["holes"] == []
    for class_name in known.class_names:
        assert list(known.entries(class_name, "checkpointed"))
        assert list(known.entries(class_name, "recomputed"))


@pytest.mark.parametrize("family", [name for name in RECORDED if "." not in name])
def test_a_file_has_the_classes_that_would_be_recorded(family: str) -> None:
    known = operations.load_operations(family)
    holes = [hole.partition(":")[0] for hole in known.proof["holes"]]
    recorded = recorded_classes(schema.load(family))
    assert list(known.class_names) == [name for name in recorded if name not in holes]


@pytest.mark.parametrize("family", RECORDED)
def test_a_hole_says_what_differs_without_a_run(family: str) -> None:
    for hole in proof_in(family)["holes"]:
        assert len(hole) < 250, hole
        assert "RunMode" not in hole


def test_dropouts_are_run_with_equal_heads_too() -> None:
    draws = draws_of("cohere")
    draws.subject.task_classes()
    draws.subject.check_class("CohereForCausalLM")
    drafting = Drafting(draws, "CohereForCausalLM", random.Random(0))  # noqa: S311
    equal = ("num_key_value_heads", SameAs("num_attention_heads"))
    for mode in ("train", "checkpoint"):
        settings = [of for of in drafting.settings("cpu") if of.mode == mode and of.training]
        ways = {of.changes for of in settings}
        assert {(("attention_dropout", share), equal) for share in (0.0, 0.1)} <= ways
        telling = [of.changes for of in drafting._telling(settings)]
        assert {changes for changes in ways if equal in changes} <= set(telling)


def test_the_last_layer_is_drawn_as_the_class_makes_it(seed: str) -> None:
    draws = draws_of("gemma4_text")
    assert draws.last_types == {"layer_types": "full_attention"}
    drawn = itertools.islice(draws.unlike(random.Random(seed), 5), 20)  # noqa: S311
    assert {draw.changes["layer_types"][-1] for draw in drawn} == {"full_attention"}
    assert draws_of("gemma3_text").last_types == {}


@pytest.mark.parametrize("family", ["t5", "whisper"])
def test_two_sequences_are_not_padded_to_one_length(family: str, seed: str) -> None:
    (draw,) = draws_of(family).alike(random.Random(seed), 1)  # noqa: S311
    lengths = [draw.run[name] for name in ("target", "sequence", "past")]
    for multiple in PADDED:
        assert len({-(-length // multiple) for length in lengths}) == len(lengths)


def test_a_run_needs_no_padding_next_to_its_usual_lengths() -> None:
    draws = draws_of("t5")
    draws.subject.task_classes()
    draws.subject.check_class("T5ForConditionalGeneration")
    drafting = Drafting(draws, "T5ForConditionalGeneration", random.Random(0))  # noqa: S311
    even = [edge for edge in drafting.edges() if not any(size % ROWS for size in edge.values())]
    assert [set(edge) for edge in even] == [{"sequence", "past"}, {"target"}]


def test_a_window_that_is_half_of_a_field_has_edges_and_questions() -> None:
    """`local_attention` says how wide both sides are together; code compares one of them."""
    draws = draws_of("modernbert")
    draws.subject.task_classes()
    draws.subject.check_class("ModernBertForMaskedLM")
    drafting = Drafting(draws, "ModernBertForMaskedLM", random.Random(0))  # noqa: S311
    (half,) = draws.halved
    assert expression(half) == "local_attention // 2"
    width = evaluate(half, drafting.draws[0].fields)
    lengths = [edge["sequence"] for edge in drafting.edges() if "sequence" in edge]
    assert {width - 1, width, width + 1} <= {*lengths}
    asked = [tree for tree, _ in drafting._questions.asked("saved", (), ["sequence"])]
    assert (">=", ("name", "sequence"), half) in asked
    proof = proof_of("modernbert", data.read_toml("operations/modernbert.toml"))
    drawn = [draw for _, draw in proof._settings("cpu", (), 200)]
    halves = [evaluate(half, draw.fields) for draw in drawn]
    near = [draw.run["sequence"] - width for draw, width in zip(drawn, halves, strict=True)]
    assert {-1, 0, 1} <= {*near}


def test_a_fixed_field_has_one_value_in_every_draw(seed: str) -> None:
    subject = FamilySubject("bert")
    fixed = Draws(subject, schema.load("bert"), {"num_labels": 2})
    assert fixed.constants["num_labels"] == 2
    drawn = fixed.alike(random.Random(seed), 2)  # noqa: S311
    assert [draw.fields["num_labels"] for draw in drawn] == [2, 2]
    free = draws_of("bert").alike(random.Random(seed), 2)  # noqa: S311
    assert len({draw.fields["num_labels"] for draw in free}) == 2


@pytest.mark.parametrize(
    ("kind", "path", "text"),
    [
        ("saved", "model.norm", "compute batch*sequence*hidden_size"),
        ("step", "lm_head", "1 batch hidden_size intermediate_size"),
        ("checkpointed", "lm_head", "compute batch*hidden_size"),
        ("stepped", "cache.{i}.keys", "compute batch*past*head_dim*num_key_value_heads"),
    ],
)
def test_fresh_runs_find_a_file_that_is_wrong(kind: str, path: str, text: str) -> None:
    raw = copy.deepcopy(data.read_toml("operations/llama.toml"))
    assert raw[kind][path] != [text]
    raw[kind][path] = [text]
    difference = proof_of("llama", raw).of_profile("cuda-eager")
    assert difference is not None
    assert difference.startswith(kind)


def draws_of(family: str) -> Draws:
    return Draws(FamilySubject(family), schema.load(family))


@pytest.mark.parametrize("family", ["olmo3", "qwen3_next"])
def test_each_type_of_layer_occurs_twice_in_the_draws_that_are_learned_from(family: str) -> None:
    draws = draws_of(family)
    for seed in range(8):
        (draw,) = draws.alike(random.Random(seed), 1)  # noqa: S311
        types = draw.changes["layer_types"]
        assert min(map(types.count, draws.layer_types["layer_types"])) >= 2


def test_checkpointing_on_the_cpu_keeps_what_a_run_keeps(seed: str) -> None:
    """BLOOM was not recorded with the profile `cpu`, and its norms keep other dtypes on CUDA."""
    proof = proof_of("bloom", data.read_toml("operations/bloom.toml"))
    (draw,) = draws_of("bloom").alike(random.Random(seed), 1)  # noqa: S311
    for profile in ("cpu-eager", "cuda-eager"):
        assert proof.difference(draw, RunMode("checkpoint", profile, "BF16")) == ""


@pytest.mark.parametrize(
    ("family", "equal", "nullable"),
    [
        ("phi3", {"num_key_value_heads": "num_attention_heads"}, []),
        ("opt", {"word_embed_proj_dim": "hidden_size"}, []),
        ("deepseek_v2", {}, ["q_lora_rank"]),
        ("bert", {}, []),
    ],
)
def test_classes_also_run_with_sizes_that_are_equal_or_null(
    family: str, equal: dict[str, str], nullable: list[str], seed: str
) -> None:
    draws = draws_of(family)
    assert (draws.equal, draws.nullable) == (equal, nullable)
    (draw,) = draws.alike(random.Random(seed), 1)  # noqa: S311
    for name, other in equal.items():
        mode = RunMode("train", "cpu", "BF16", changes=((name, SameAs(other)),))
        assert mode.fields(draw) == {name: draw.fields[other]}
        assert draw.fields[name] != draw.fields[other]


@pytest.mark.parametrize(
    ("family", "layers"), [("llama", 3), ("falcon_h1", 3), ("qwen2", 5), ("deepseek_v3", 5)]
)
def test_three_layers_are_run_if_all_are_alike_and_else_five(family: str, layers: int) -> None:
    subject = FamilySubject(family)
    draws = Draws(subject, schema.load(family)).alike(random.Random(0), 1)  # noqa: S311
    assert [draw.changes["num_hidden_layers"] for draw in draws] == [layers]


@pytest.mark.parametrize("family", ["mamba2", "qwen3_next"])
def test_a_long_sequence_has_a_prime_number_of_chunks(family: str, seed: str) -> None:
    family_draws = draws_of(family)
    ((_, chunk),) = family_draws.chunks
    for draw in family_draws.alike(random.Random(seed), 2):  # noqa: S311
        length = draw.fields.get(chunk, chunk)
        pieces = -(-draw.run["sequence"] // length)
        assert pieces >= 11
        assert all(pieces % part for part in range(2, pieces))
        assert draw.run["short"] < length


def test_a_list_of_layers_is_drawn_and_so_are_the_others(seed: str) -> None:
    family = draws_of("bamba")
    assert family.index_lists == ["attn_layer_indices"]
    for draw in itertools.islice(family.unlike(random.Random(seed), 7), 5):  # noqa: S311
        listed = draw.changes["attn_layer_indices"]
        assert 0 < len(set(listed)) == len(listed)
        assert set(listed) <= set(range(draw.changes["num_hidden_layers"]))


@pytest.mark.parametrize(
    ("listed", "first"), [([2, 4], [0, 1, 2]), ([4, 2], [0, 1, 2]), ([0], [0]), (None, [])]
)
def test_a_first_layer_of_a_list_has_none_before_it(listed: Any, first: list[int]) -> None:
    question = parse(expression(_first_of("layers", "i")))
    layers = [i for i in range(6) if evaluate(question, {"layers": listed, "i": i})]
    assert layers == first


def test_an_edge_is_alike_only_if_every_setting_is(monkeypatch: Any) -> None:
    off, on = RunMode("train", "cpu", "BF16"), RunMode("train", "cpu", "F32")
    below, at, above = ((("sequence", size),) for size in (7, 19, 20))
    texts = {(off, below): "few", (on, below): "few", (off, at): "many", (on, at): "few"}
    texts |= {(off, above): "many", (on, above): "many"}
    counts = {setting: texts[setting, above] for setting in (off, on)}
    counts |= {setting._replace(edge=below): texts[setting, below] for setting in (off, on)}

    def found(_: Any, setting: RunMode, __: Any, *, learns: bool) -> str:
        assert not learns
        return texts[setting._replace(edge=()), setting.edge]

    monkeypatch.setattr(Drafting, "_texts_of", found)
    drafting = Drafting.__new__(Drafting)
    edges = {
        edge: drafting._alike(edge, [(), below], [off, on], counts) for edge in (below, at, above)
    }
    assert edges == {below: below, at: None, above: ()}


def test_a_text_in_loops_over_chunks_has_their_number_as_rounds(seed: str) -> None:
    """In one loop each round has it, in another all but one: with 11 pieces it occurs 21 times."""
    family = draws_of("qwen3_next")
    draws = family.alike(random.Random(seed), 3)  # noqa: S311
    pieces = -(-draws[0].run["sequence"] // 64)
    runs = []
    for draw in draws:
        size = draw.run["batch"] * draw.fields["hidden_size"]
        runs.append({"saved": [RecordedItem("model.norm", "BF16", (size,))] * (2 * pieces - 1)})
    memory = Memory(family, "Qwen3NextForCausalLM", draws, family.windows)
    reading = Reading(memory, RunMode("train", "cuda-flash", "BF16"), runs, None, learns=True)
    assert reading.found() == {
        ("saved model.norm", f"{rounds} x compute batch*hidden_size", ()): 1
        for rounds in ("ceil(sequence/64)", "ceil(sequence/64)-1")
    }


def test_a_text_that_is_also_outside_its_loop_has_no_constant_as_rounds(seed: str) -> None:
    """In F32 with a batch of 1, Mamba's states are as large as a parameter that is kept besides."""
    family = draws_of("mamba")
    draws = family.alike(random.Random(seed), 3)  # noqa: S311
    runs = []
    for draw in draws:
        item = RecordedItem("backbone.layers.0.mixer", "F32", (draw.fields["hidden_size"],))
        runs.append({"saved": [item] * (draw.run["sequence"] + 3)})
    memory = Memory(family, "MambaForCausalLM", draws, family.windows)
    reading = Reading(memory, RunMode("train", "cuda-eager", "F32"), runs, None, learns=True)
    assert reading.found() == {
        ("saved backbone.layers.{i}.mixer", "F32 hidden_size", (0,)): 2,
        ("saved backbone.layers.{i}.mixer", "sequence+1 x F32 hidden_size", (0,)): 1,
    }


def test_rounds_are_a_length_though_another_size_is_as_large_in_one_run(seed: str) -> None:
    """In a run of Jamba, a head was 22 wide, and a loop had 22 rounds of a sequence of 23."""
    family = draws_of("mamba")
    (draw, *_) = family.alike(random.Random(seed), 1)  # noqa: S311
    draw = draw._replace(run={**draw.run, "sequence": draw.fields["hidden_size"] + 1})
    rounds = draw.run["sequence"] - 1
    item = RecordedItem("backbone.layers.0.mixer", "F32", (draw.fields["state_size"],))
    memory = Memory(family, "MambaForCausalLM", [draw], family.windows)
    memory.known["saved", "backbone.layers.{i}.mixer"] = [(("name", "state_size"),)]
    setting = RunMode("train", "cuda-eager", "F32")
    reading = Reading(memory, setting, [{"saved": [item] * rounds}], None, learns=False)
    assert reading.found() == {
        ("saved backbone.layers.{i}.mixer", "sequence-1 x F32 state_size", (0,)): 1
    }


@pytest.mark.parametrize("hidden", [1, 2])
def test_other_draws_are_tried_if_numbers_hide_an_operation(
    monkeypatch: pytest.MonkeyPatch, hidden: int
) -> None:
    """Where the first draws hide it, the others need not; where both do, the first say why."""
    dices: list[Any] = []

    class Drafts:
        def __init__(self, draws: Draws, class_name: str, dice: random.Random) -> None:
            dices.append(dice)

        def texts(self) -> dict[str, Any]:
            if len(dices) <= hidden:
                raise ModelError(f"no condition was found in draws {len(dices)}")
            return {}

    monkeypatch.setattr(costing, "Drafting", Drafts)
    subject, blueprint = FamilySubject("mamba"), schema.load("mamba")
    if hidden == 2:
        with pytest.raises(ModelError, match="in draws 1"):
            costing._drafted(subject, blueprint, "MambaForCausalLM", 0)
    else:
        costing._drafted(subject, blueprint, "MambaForCausalLM", 0)
    assert len({dice.random() for dice in dices}) == len(dices) == 2


def test_a_rule_may_name_a_field_of_another_part(seed: str) -> None:
    (draw,) = draws_of("siglip").alike(random.Random(seed), 1)  # noqa: S311
    widths = {part: draw.changes[f"{part}_config.hidden_size"] for part in ("text", "vision")}
    assert draw.changes["text_config.projection_size"] == widths["vision"] != widths["text"]


@pytest.mark.parametrize("layers", [1, 5, 12])
def test_shared_layers_multiply_once_for_each_layer(layers: int) -> None:
    known = operations.load_operations("albert")
    assert known.held["num_hidden_groups"] == 1
    names = known.names({"num_hidden_layers": layers}, batch=3, sequence=5)
    widths = {"q": (4096, 4096), "k": (4096, 4096), "v": (4096, 4096), "o": (4096, 4096)}
    widths |= {"up": (4096, 16384), "down": (16384, 4096)}
    of_a_layer = sum(2 * 15 * inner * columns for inner, columns in widths.values())
    of_a_layer += 2 * 2 * 3 * 64 * 5 * 5 * (4096 // 64)
    of_the_rest = 2 * 15 * (128 * 4096 + 4096 * 128 + 128 * 30000)
    forward = costs.matmul_flops(known.bind(known.base_class, "forward", names))
    assert forward == layers * of_a_layer + of_the_rest


def bound(model: str, kind: str, **run: Any) -> list[operations.Operation]:
    found = models.find(model)
    known = operations.load_operations(found.blueprint.family)
    names = known.names({**found.given, **found.fields}, **run)
    return known.bind(known.base_class, kind, names)


def test_llama_has_the_costs_that_a_run_at_full_size_has() -> None:
    run = {"batch": 1, "sequence": 2048, "past": 4095, "dtype": "BF16", "device": "cuda"}
    llama = "meta-llama/Llama-3.1-8B"
    forward = costs.matmul_flops(bound(llama, "forward", **run))
    assert forward == 32_938_104_193_024
    assert costs.matmul_flops(bound(llama, "backward", **run)) == 2 * forward
    assert costs.matmul_flops(bound(llama, "recomputed", **run)) == 23_089_744_183_296
    saved = {
        attention: costs.saved_for_backward_bytes(
            bound(llama, "saved", **run, attention=attention), "BF16"
        )
        for attention in ("eager", "math", "flash")
    }
    assert saved == {"eager": 40_847_843_340, "math": 33_868_521_484, "flash": 14_281_122_572}
    stepped = bound(llama, "stepped", **run)
    assert costs.saved_for_backward_bytes(stepped, "BF16") == 536_870_912


def test_a_window_is_where_the_cache_stops_growing() -> None:
    run = {"batch": 1, "sequence": 8, "dtype": "BF16"}
    sizes = {
        past: costs.saved_for_backward_bytes(
            bound("mistralai/Mistral-7B-v0.1", "stepped", **run, past=past), "BF16"
        )
        for past in (4093, 4094, 4095, 4096, 9000)
    }
    grown = [after - before for before, after in itertools.pairwise(sizes.values())]
    assert grown == [32 * 2 * 8 * 128 * 2, 32 * 2 * 8 * 128 * 2, 0, 0]


def test_a_number_that_is_no_product_of_sizes_is_an_error() -> None:
    numbers = Numbers([("name", "a")], [{"a": 3}, {"a": 5}])
    assert numbers.expressed((9, 25)) == ("*", ("name", "a"), ("name", "a"))
    with pytest.raises(ModelError, match="no product of sizes gives 9 and 26"):
        numbers.expressed((9, 26))


def test_a_file_of_operations_with_a_loop_is_read() -> None:
    text = """
format = 2
family = "f"
source = "s"
kernels = "k"
class = "C"
[proof]
by = "b"
against = "a"
runs = 12
[fields]
width = 3
[held]
[forward]
"" = ["sequence x batch width 1 width"]
[backward]
[saved]
"" = ["sequence-1 x F32 batch*width if sequence > 1"]
"""
    raw = tomllib.loads(text)
    operations.check_operations(raw)
    known = operations.Operations(raw)
    names = known.names({}, batch=2, sequence=5)
    assert costs.matmul_flops(known.bind("C", "forward", names)) == 5 * 2 * 2 * 3 * 3
    assert costs.saved_for_backward_bytes(known.bind("C", "saved", names), "BF16") == 4 * 6 * 4
