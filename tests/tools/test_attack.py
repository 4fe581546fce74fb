"""The adversary: it finds a planted fault, and none in a right blueprint."""

import ast
import json
import random
import subprocess
import sys
from pathlib import Path

import attack
import pytest
from attacking import forms, mutations, report, shrinking, sources, starts, trees, verdicts
from attacking.costs import CostScale
from attacking.turns import CHANGED, LABELS, TIES, Case, Turn, played
from attacking.verdicts import EXACT, REFUSED, WRONG, Scale, Verdict

from weighbridge.blueprint.operations import Operations
from weighbridge.data import read_text
from weighbridge.errors import ConfigError

ROOT = Path(__file__).parents[2]
RIGHT = '"classifier.weight" = "num_labels hidden_size"'
PLANTED = '"classifier.weight" = "min(num_labels, 5) hidden_size"'


@pytest.fixture
def faulty(tmp_path):
    """Return a folder with a blueprint of bert that is wrong beyond five labels."""
    text = read_text("blueprints/bert.toml")
    assert RIGHT in text
    (tmp_path / "bert.toml").write_text(text.replace(RIGHT, PLANTED), encoding="utf-8")
    return tmp_path


def cases_of(family, folder=None, turns=1, seed="0"):
    scale = Scale(folder)
    return [case for number in range(turns) for case in played(Turn(family, number), seed, scale)]


# Whole turns


def test_a_planted_fault_is_found_and_shrunk(faulty):
    findings = [case.finding for case in cases_of("bert", faulty) if case.finding]
    assert findings
    for finding in findings:
        text = finding.partition("<<< '")[2].partition("'")[0]
        assert json.loads(text) == {"model_type": "bert", "num_labels": 8}
        assert " → " in finding


def test_a_right_blueprint_gives_no_finding():
    cases = cases_of("bert")
    outcomes = [verdict.outcome for case in cases for verdict in case.verdicts]
    assert EXACT in outcomes
    assert WRONG not in outcomes
    assert {case.kind for case in cases} == {CHANGED, TIES, LABELS}


def test_a_turn_is_the_same_for_a_seed_and_another_for_another():
    first, again = cases_of("vit", seed="3"), cases_of("vit", seed="3")
    assert first == again
    assert first != cases_of("vit", seed="4")


def test_a_family_without_a_default_config_is_listed(monkeypatch):
    monkeypatch.setattr(starts, "default_config", lambda name: {"model_type": name, "n_layer": "x"})
    (case,) = cases_of("gpt2")
    tally = report.Tally(set())
    tally.add(case)
    assert tally.total_configs == 0
    assert tally.unattacked["gpt2"].startswith("no default config is built: ")


@pytest.mark.slow
def test_the_command_prints_what_is_wrong_and_fails(faulty, tmp_path):
    results = tmp_path / "results.json"
    options = ["--configs", "9", "--blueprints", str(faulty), "--json", str(results)]
    command = [sys.executable, str(ROOT / "tools" / "attack.py"), "bert", *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    assert "weighbridge weigh - --class Bert" in run.stdout
    assert f"| {report.MOST_USED} |" in run.stdout
    found = json.loads(results.read_text(encoding="utf-8"))
    assert sum(group["configs"] for group in found["groups"].values()) == 9
    assert found["findings"]


def test_the_adversary_imports_nothing_of_derivation():
    files = [*(ROOT / "tools" / "attacking").glob("*.py"), ROOT / "tools" / "attack.py"]
    assert len(files) > 5
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = [alias.name for alias in node.names]
                modules = [getattr(node, "module", None) or "", *names]
                assert not [name for name in modules if "derive" in name], file


# Which families, and how often


def test_the_most_used_families_come_first_and_twice_a_round():
    schedule = attack.scheduled(["a", "b", "c", "d"], ["a", "b"], "0")
    turns = [next(schedule) for _ in range(12)]
    assert turns[:2] == [Turn("a", 0), Turn("b", 0)]
    assert {turn.family for turn in turns[2:4]} == {"c", "d"}
    assert turns[4:8] == [Turn("a", 1), Turn("b", 1), Turn("a", 2), Turn("b", 2)]


def test_all_families_are_attacked_and_the_best_known_count_as_most_used():
    families = starts.families()
    assert len(families) > 500
    assert {"bert", "llama", "qwen3", "t5", "vit"} < set(families[: starts.MOST_USED])


# Verdicts


def test_a_refusal_and_a_traceback_are_told_apart():
    class Refusing(Scale):
        def weigh(self, config, class_name):
            raise self.error

    scale = Refusing()
    scale.error = ConfigError("has 12 heads", where="the config")
    refused = verdicts.verdict({"model_type": "bert"}, "BertModel", scale)
    assert (refused.outcome, refused.reason) == (REFUSED, "has N heads")
    scale.error = KeyError("heads")
    assert verdicts.verdict({"model_type": "bert"}, "BertModel", scale).outcome == WRONG


def test_equal_totals_of_other_shapes_are_wrong(faulty):
    text = (faulty / "bert.toml").read_text(encoding="utf-8")
    turned = text.replace('"min(num_labels, 5) hidden_size"', '"hidden_size num_labels"')
    (faulty / "bert.toml").write_text(turned, encoding="utf-8")
    config, name = {"model_type": "bert"}, "BertForSequenceClassification"
    verdict = verdicts.verdict(config, name, Scale(faulty))
    assert verdict.outcome == WRONG
    assert verdict.reference == verdict.ours


# What the code compares


def test_the_code_says_which_values_matter(tmp_path):
    (tmp_path / "configuration_x.py").write_text(
        'class XConfig:\n    mode: Literal["slow", "fast"] = "slow"\n    size: int | None = None\n'
        '    def __post_init__(self, **kwargs):\n        self.w = kwargs.pop("width", 8)\n',
        encoding="utf-8",
    )
    (tmp_path / "modeling_x.py").write_text(
        'HEADS = {"flat": 1, "deep": 2}\nkind = config.layer_types[0]\n'
        'if kind == "conv" or "c2p" in config.pos_att_type:\n    pass\n'
        "if config.num_labels < 10 and not config.legacy:\n    head = HEADS[config.head]\n"
        'shared = getattr(config, "share_key", False)\n',
        encoding="utf-8",
    )
    facts = sources.facts_of([tmp_path])
    assert facts.texts["mode"] == ["fast", "slow"]
    assert facts.texts["layer_types"] == ["conv"]
    assert facts.texts["pos_att_type"] == ["c2p"]
    assert facts.texts["head"] == ["deep", "flat"]
    assert facts.numbers["num_labels"] == [10]
    assert "legacy" in facts.tested
    assert facts.types["size"] == "int | None"
    assert facts.unlisted == {"width": 8, "share_key": False}


# Mutations and forms


@pytest.mark.parametrize("mutation", sorted(set(mutations.MUTATIONS), key=lambda one: one.__name__))
def test_each_mutation_changes_a_config_of_some_family(mutation):
    for name in ("llava", "swinv2", "gemma3_text", "deberta-v2", "t5"):
        family = starts.family(name, ("SomeClass",))
        for seed in range(20):
            draft = mutations.drafted(family, random.Random(seed))  # noqa: S311
            before = trees.copied(draft.config)
            mutation(draft)
            if draft.config != before:
                return
    pytest.fail("it changed nothing")


def test_ties_are_combined_at_all_levels():
    family = starts.family("llava", ("LlavaModel",))
    combinations = set()
    for seed in range(60):
        config, _ = mutations.tied(family, random.Random(seed))  # noqa: S311
        inner = config.get("text_config", {})
        combinations.add((config.get("tie_word_embeddings"), inner.get("tie_word_embeddings")))
    assert {(False, True), (None, True), (True, False)} <= combinations


def test_old_names_are_those_that_transformers_reads():
    config = {"model_type": "gpt2", "n_embd": 48, "n_layer": 2, "dtype": "float32"}
    renamed = forms.old_names(config, random.Random(1))  # noqa: S311
    assert renamed["torch_dtype"] == "float32"
    assert "hidden_size" in renamed or "num_hidden_layers" in renamed
    scale = Scale()
    assert verdicts.verdict(renamed, "GPT2Model", scale) == verdicts.verdict(
        config, "GPT2Model", scale
    )


# Shrinking and reporting


def test_what_is_wrong_shrinks_to_the_fields_that_matter():
    config = {
        "model_type": "x",
        **{f"f{n}": n for n in range(30)},
        "text_config": {"model_type": "y", "size": 700, "other": 1},
    }

    def is_wrong(config):
        return config.get("f7") == 7 and config.get("text_config", {}).get("size", 0) > 3

    smallest = shrinking.shrunk(config, is_wrong)
    assert smallest == {"model_type": "x", "f7": 7, "text_config": {"size": 4}}
    assert Scale().command(smallest, "X").startswith("weighbridge weigh - --class X <<< '{")


def test_names_of_labels_shrink_to_their_number():
    names = {str(n): f"LABEL_{n}" for n in range(11)}

    def is_wrong(config):
        return max(config.get("num_labels", 0), len(config.get("id2label", ()))) > 10

    assert shrinking.shrunk({"model_type": "x", "id2label": names}, is_wrong) == {
        "model_type": "x",
        "num_labels": 11,
    }


def test_the_table_counts_each_class_in_the_row_of_its_group():
    tally = report.Tally({"bert"})
    exact, refused = Verdict("A", EXACT, 1, 1), Verdict("B", REFUSED, 1, reason="no")
    tally.add(Case("bert", CHANGED, ["flag"], {}, [exact, refused]))
    tally.add(Case("xlm", CHANGED, [], {}, [Verdict("C", WRONG, 1, 2)], "weigh …"))
    tally.add(Case("bert", TIES, ["tie"], {}, [exact]))
    rows = tally.table().splitlines()
    assert rows[2].startswith(f"| {report.MOST_USED} | 1 | 1 | 1 | 50.0% | 0 |")
    assert rows[3].startswith(f"| {report.OTHERS} | 1 | 0 | 0 | 0.0% | 1 |")
    assert rows[4].startswith("| tie combinations | 1 | 1 |")
    assert tally.reasons() == "    1  bert: no"
    assert tally.to_dict()["findings"] == ["weigh …"]


# What runs cost


SMALL = {
    "falcon": {
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "vocab_size": 50,
        "new_decoder_architecture": True,
        "num_kv_heads": 2,
    },
    "gpt_bigcode": {
        "n_layer": 2,
        "n_embd": 16,
        "n_head": 2,
        "vocab_size": 50,
        "multi_query": False,
    },
    "gpt2": {"n_layer": 2, "n_embd": 16, "n_head": 2, "vocab_size": 50},
    "mixtral": {
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "intermediate_size": 16,
        "vocab_size": 50,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_local_experts": 3,
    },
    "t5": {"num_layers": 2, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_heads": 2, "vocab_size": 50},
    "vit": {"num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 24},
}


@pytest.mark.parametrize("family", SMALL)
def test_costs_are_what_torch_counts(family):
    scale = CostScale()
    (class_name,) = scale.classes(family)
    verdict = scale.judged({"model_type": family, **SMALL[family]}, class_name)
    assert verdict.outcome == EXACT, verdict


def test_a_value_that_no_recording_had_is_refused_and_would_be_wrong(monkeypatch):
    scale, config = CostScale(), {"model_type": "gpt2", **SMALL["gpt2"]}
    other = {**config, "activation_function": "relu"}
    refused = scale.judged(other, "GPT2LMHeadModel")
    assert refused.outcome == REFUSED
    assert "activation_function" in refused.reason
    monkeypatch.setattr(Operations, "unheld", lambda *_: {})
    wrong = scale.judged(other, "GPT2LMHeadModel")
    assert wrong.outcome == WRONG
    assert wrong.reason.startswith("saved_bytes of RunSizes(batch=1")
    assert scale.command(other, "GPT2LMHeadModel").startswith("weighbridge cost - --class GPT2")
