"""The worth of fields: sums against `weigh`, and values against weighing every mixed config."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.answers.weigh import weigh
from weighbridge.errors import WeighbridgeError
from weighbridge.ledger.field_shares import Ends, FieldShares

if TYPE_CHECKING:
    from weighbridge.ledger.ledger import Ledger

SIZES: dict[str, tuple[Any, ...]] = {
    "hidden_size": (512, 768, 1024, 1536, 2048),
    "d_model": (256, 512, 1024),
    "n_embd": (512, 768, 1024),
    "vocab_size": (8000, 32000, 50257),
    "num_hidden_layers": (4, 6, 12, 23, 24, 40),
    "num_layers": (3, 6, 12),
    "num_decoder_layers": (2, 6),
    "n_layer": (6, 12, 24),
    "encoder_layers": (2, 4, 6),
    "decoder_layers": (2, 4, 6),
    "intermediate_size": (1024, 3072, 5632),
    "d_ff": (1024, 2048),
    "num_attention_heads": (4, 8, 16),
    "n_head": (4, 8, 16),
    "num_heads": (4, 8),
    "num_key_value_heads": (1, 2, 4),
    "head_dim": (64, 128),
    "d_kv": (32, 64),
    "num_experts": (4, 8, 16),
    "num_local_experts": (4, 8),
    "n_routed_experts": (8, 32),
    "moe_intermediate_size": (256, 768),
    "first_k_dense_replace": (0, 1, 3, 50),
    "q_lora_rank": (None, 256, 1536),
    "kv_lora_rank": (128, 512),
    "n_shared_experts": (1, 2),
    "attn_layer_period": (4, 8),
    "expert_layer_period": (1, 2),
    "full_attention_interval": (2, 4),
    "decoder_sparse_step": (1, 2),
    "mlp_only_layers": ([], [0, 1], [3]),
    "tie_word_embeddings": (False, True),
    "attention_bias": (False, True),
    "mlp_bias": (False, True),
    "image_size": (192, 224),
    "patch_size": (16, 32),
    "type_vocab_size": (1, 2),
    "max_position_embeddings": (512, 1024),
    "num_labels": (2, 14),
    "is_decoder": (False, True),
    "add_cross_attention": (False, True),
}
CLASSES = {
    "bert": "BertForSequenceClassification",
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "jamba": "JambaForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "gpt2": "GPT2LMHeadModel",
    "gemma3_text": "Gemma3ForCausalLM",
    "vit": "ViTModel",
}
PAIRS_OF_A_FAMILY = 20
MOST_TRIED = 400


def drawn_ledgers(family: str, number: int) -> list[Ledger]:
    """Return ledgers of configs that `weigh` accepts, with a few fields drawn in each."""
    rng = random.Random(family)  # noqa: S311
    known = sorted(weigh(family).model.blueprint.fields & SIZES.keys())
    found: list[Ledger] = []
    for _ in range(MOST_TRIED):
        names = rng.sample(known, rng.randint(1, min(len(known), 9)))
        fields = {name: rng.choice(SIZES[name]) for name in names}
        try:
            found.append(weigh(family, CLASSES[family], fields=fields).ledger)
        except WeighbridgeError:
            continue
        if len(found) == number:
            return found
    raise AssertionError(f"{family}: too few configs are allowed")


def counted(ledger: Ledger) -> dict[str, int]:
    return {group.name: group.parameters for group in ledger.by("component") if group.parameters}


def shares_of(before: Ledger, after: Ledger) -> FieldShares:
    return FieldShares(Ends(before.blueprint, before.class_name, before.fields, after.fields))


def check_sums(before: Ledger, after: Ledger) -> FieldShares:
    """Check the shares of two ledgers: exact and in integers, over fields and over components."""
    shares = shares_of(before, after)
    assert {name: n for name, n in shares.before.items() if n} == counted(before)
    assert {name: n for name, n in shares.after.items() if n} == counted(after)
    difference = after.parameters - before.parameters
    assert sum(share.value for share in shares.by_player.values()) == difference
    assert sum(shares.rounded_by_player.values()) == difference
    assert sum(shares.alone.values()) == difference
    by_component, exact = Counter[str](), dict.fromkeys(shares.after, Fraction(0))
    for (component, player), share in shares.cells.items():
        exact[component] += share.value
        by_component[component] += shares.rounded_cells[component, player]
        assert abs(share.value - shares.rounded_cells[component, player]) < 1
    for component in shares.after:
        step = counted(after).get(component, 0) - counted(before).get(component, 0)
        assert exact[component] == by_component[component] == step
    return shares


@pytest.mark.parametrize("family", CLASSES)
def test_shares_add_up_over_fields_and_components(family: str) -> None:
    ledgers = drawn_ledgers(family, 2 * PAIRS_OF_A_FAMILY)
    for before, after in zip(ledgers[::2], ledgers[1::2], strict=True):
        check_sums(before, after)


def test_flags_nulls_and_lists_are_among_the_drawn_fields() -> None:
    kinds = set()
    for family in ("bert", "deepseek_v3", "qwen3_moe", "qwen3_next"):
        ledgers = drawn_ledgers(family, 2 * PAIRS_OF_A_FAMILY)
        for before, after in zip(ledgers[::2], ledgers[1::2], strict=True):
            for player in shares_of(before, after).by_player:
                kinds |= {type(before.fields[name]) for name in player}
    assert {int, bool, type(None), tuple} <= kinds


@pytest.mark.parametrize("seed", range(6))
def test_a_value_is_the_average_of_weighings_in_all_orders(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    names = rng.sample(["hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size"], 3)
    names += rng.sample(["num_key_value_heads", "attention_bias", "tie_word_embeddings"], 1)
    before = {"head_dim": 64, **{name: SIZES[name][0] for name in names}}
    after = {"head_dim": 64, **{name: SIZES[name][-1] for name in names}}

    def parameters(changed: tuple[str, ...]) -> int:
        mixed = {**before, **{name: after[name] for name in changed}}
        return weigh("llama", "LlamaForCausalLM", fields=mixed).parameters

    ends = [weigh("llama", "LlamaForCausalLM", fields=fields).ledger for fields in (before, after)]
    shares = shares_of(*ends).by_player
    orders = list(permutations(names))
    for name in names:
        added = 0
        for order in orders:
            place = order.index(name)
            added += parameters(order[: place + 1]) - parameters(order[:place])
        share = shares.get((name,))
        assert (share.value if share else 0) == Fraction(added, len(orders))
        assert (share.alone if share else 0) == parameters((name,)) - parameters(())


def test_a_size_that_the_other_config_forbids_is_no_hindrance() -> None:
    small, large = weigh("bert-base-uncased").ledger, weigh("bert-large-uncased").ledger
    shares = check_sums(small, large)  # 12 heads do not divide 1,024
    assert shares.without_effect == ["num_attention_heads"]


def test_a_list_that_is_too_short_changes_with_the_layers() -> None:
    kinds = ["sliding_attention", "full_attention"]
    given = [
        {"num_hidden_layers": layers, "layer_types": list(kinds) * (layers // 2)}
        for layers in (4, 12)
    ]
    given[1]["layer_types"] = [*kinds[:1] * 11, *kinds[1:]]
    ledgers = [weigh("lfm2", fields=_as_lfm2(fields)).ledger for fields in given]
    shares = check_sums(*ledgers)
    assert ("num_hidden_layers", "layer_types") in [
        tuple(sorted(player, reverse=True)) for player in shares.by_player
    ]


def test_a_size_that_is_null_changes_with_the_flag_that_needs_it() -> None:
    experts = {"enable_moe_block": True, "num_experts": 8, "moe_intermediate_size": 64}
    experts |= {"top_k_experts": 2}
    before, after = weigh("gemma4_text").ledger, weigh("gemma4_text", fields=experts).ledger
    assert before.fields["num_experts"] is None
    shares = check_sums(before, after)
    assert any({"enable_moe_block", "num_experts"} <= {*player} for player in shares.by_player)


def _as_lfm2(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields with the types of layers that lfm2 has."""
    types = ["conv" if kind == "sliding_attention" else kind for kind in fields["layer_types"]]
    return {**fields, "layer_types": types}


def test_numbers_are_compared_as_they_are_resolved() -> None:
    small = weigh("meta-llama/Llama-3.1-8B").ledger
    large = weigh("meta-llama/Llama-3.1-70B").ledger
    assert small.fields["head_dim"] == large.fields["head_dim"]
    shares = check_sums(small, large)
    assert shares.rounded_by_player == {
        ("num_hidden_layers",): 24_092_672_000,
        ("hidden_size",): 19_975_835_648,
        ("intermediate_size",): 15_502_147_584,
        ("num_attention_heads",): 2_952_790_016,
    }
    assert shares.alone[None] == 37_312_921_600
