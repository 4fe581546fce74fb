"""Checkpoints compared with models: real ones, and small ones with each possible fault."""

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.answers.verify import MOST_LINES, verify
from weighbridge.blueprint.schema import load
from weighbridge.data import LANGUAGES
from weighbridge.errors import CheckpointError, ConfigError, ModelError, UsageError
from weighbridge.ledger.ledger import bind
from weighbridge.ledger.rows import Row
from weighbridge.matching.comparison import KINDS, Difference, ExpectedDtype, compare_tensors, group
from weighbridge.models.find import find
from weighbridge.readers import StoredCheckpoint
from weighbridge.render.table import width
from weighbridge.units import DTYPE_BITS

CONFIG = {
    "model_type": "bert",
    "vocab_size": 11,
    "hidden_size": 4,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 6,
    "max_position_embeddings": 5,
}
UP = "encoder.layer.1.intermediate.dense.weight"
CLASSES = load("bert").class_names


def tensors(class_name="BertModel", **fields):
    """Return the tensors that a sound checkpoint of a class stores: name to shape and dtype.

    Tied tensors are not stored.
    """
    model = find({**CONFIG, **fields})
    return {
        row.name: (row.shape, "F32")
        for row in bind(model.blueprint, class_name, model.fields).rows
        if not row.tied_to
    }


def renamed(stored, old, new):
    return {name.replace(old, new): value for name, value in stored.items()}


def write(path, stored):
    """Write a file of zeros with the reference library."""
    from numpy import zeros
    from safetensors.numpy import save_file

    types = {"F32": "float32", "F16": "float16", "F64": "float64", "I64": "int64"}
    save_file(
        {name: zeros(shape, types[dtype]) for name, (shape, dtype) in stored.items()}, str(path)
    )


def write_shards(folder, shards, weight_map=None, total_size=None):
    total, listed = 0, {}
    for shard, stored in shards.items():
        write(folder / shard, stored)
        total += sum(size_of(value) for value in stored.values())
        listed |= dict.fromkeys(stored, shard)
    index = {"metadata": {"total_size": total_size or total}, "weight_map": weight_map or listed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def size_of(value):
    shape, dtype = value
    product = DTYPE_BITS[dtype] // 8
    for size in shape:
        product *= size
    return product


@pytest.fixture
def check(tmp_path):
    """Write tensors to a file and verify it."""

    def run(stored, class_name=None, config=CONFIG, **options):
        write(tmp_path / "model.safetensors", stored)
        return verify(config, tmp_path, class_name, **options)

    return run


def kinds_and_names(verification):
    """Return the kind and the name of every difference."""
    return [(difference.kind, difference.name) for difference in verification.differences]


# Real checkpoints


def test_minilm_matches_and_has_one_buffer(minilm):
    verification = verify(str(minilm), minilm)
    assert verification.status == 0
    assert kinds_and_names(verification) == [("buffer", "embeddings.position_ids")]
    assert (verification.class_name, verification.choice.why) == ("BertModel", "named")
    report = verification.to_dict()
    assert report["parameters"] == {"expected": 22_713_216, "found": 22_713_216}
    assert report["tensors"] == {"expected": 103, "found": 103, "stored": 104}
    assert report["header_bytes"] == 11_416


def test_bert_tiny_matches_under_old_names_and_shares_its_decoder(bert_tiny):
    verification = verify(str(bert_tiny), bert_tiny)
    assert verification.status == 0
    assert {kind for kind, _ in kinds_and_names(verification)} == {"old_name"}
    assert len(verification.differences) == 2 * (
        1 + 2 * 2 + 1
    )  # weight and bias of every LayerNorm
    assert (verification.class_name, verification.choice.why) == ("BertForMaskedLM", "named")
    report = verification.to_dict()
    assert report["parameters"] == {"expected": 4_416_698, "found": 4_416_698}
    assert report["shared"] == {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }


@pytest.mark.parametrize("real", ["minilm", "bert_tiny"])
@pytest.mark.parametrize("class_name", CLASSES)
def test_every_stored_tensor_is_accounted_for_once(real, class_name, request):
    folder = request.getfixturevalue(real)
    compared = verify(str(folder), folder, class_name).comparison
    accounted = [row.name for row in (*compared.held.values(), *compared.pairs.extra)]
    assert sorted(accounted) == sorted(
        row.name for row in verify(str(folder), folder).checkpoint.rows
    )


@pytest.mark.parametrize("real", ["minilm", "bert_tiny"])
@pytest.mark.parametrize("class_name", CLASSES)
def test_the_same_is_missing_and_left_over_as_for_transformers(real, class_name, request):
    """Compare with an outside oracle: the report of transformers on loading the file."""
    import transformers

    folder = request.getfixturevalue(real)
    transformers.logging.set_verbosity_error()
    _, info = getattr(transformers, class_name).from_pretrained(folder, output_loading_info=True)
    found = verify(str(folder), folder, class_name).differences
    missing = {difference.name for difference in found if difference.kind == "missing"}
    extra = {
        difference.stored_as or difference.name
        for difference in found
        if difference.kind == "extra"
    }
    assert {difference.kind for difference in found if difference.matters} <= {"missing", "extra"}
    assert missing == {name for name in info["missing_keys"] if name not in ties_of(class_name)}
    assert len(extra) == len(info["unexpected_keys"])


def ties_of(class_name):
    """Return the tied tensors of a class.

    transformers calls one missing if the tensor that it is tied to is missing too.
    """
    model = find(CONFIG)
    return {row.name for row in bind(model.blueprint, class_name, model.fields).rows if row.tied_to}


def test_a_folder_may_be_the_model_and_the_checkpoint(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    write(tmp_path / "model.safetensors", tensors())
    assert verify(str(tmp_path), tmp_path).status == 0


# One fault at a time: the change to the tensors, and the expected kinds and names


def dropped(name):
    return lambda stored: {key: value for key, value in stored.items() if key != name}


def stored_as(name, new):
    return lambda stored: {new if key == name else key: value for key, value in stored.items()}


def put(name, value):
    return lambda stored: {**stored, name: value}


FAULTS = {
    "none": (dict, []),
    "dropped": (dropped(UP), [("missing", UP)]),
    "reshaped": (put(UP, ((6, 5), "F32")), [("shape", UP)]),
    "transposed": (put(UP, ((4, 6), "F32")), [("shape", UP)]),
    "extra": (put("adapter.weight", ((2,), "F32")), [("extra", "adapter.weight")]),
    "renamed": (
        stored_as(UP, "encoder.layer.1.up.weight"),
        [("missing", UP), ("extra", "encoder.layer.1.up.weight")],
    ),
    "no float": (put(UP, ((6, 4), "I64")), [("not_float", UP)]),
    "mixed": (put(UP, ((6, 4), "F16")), [("mixed_dtype", UP)]),
    "buffer": (
        put("embeddings.token_type_ids", ((1, 5), "I64")),
        [("buffer", "embeddings.token_type_ids")],
    ),
    "old name": (
        stored_as("embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma"),
        [("old_name", "embeddings.LayerNorm.weight")],
    ),
    "both names": (
        put("embeddings.LayerNorm.beta", ((4,), "F32")),
        [("two_names", "embeddings.LayerNorm.bias")],
    ),
    "one layer too many": (
        put("encoder.layer.3.output.dense.bias", ((4,), "F32")),
        [("extra", "encoder.layer.3.output.dense.bias")],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_and_nothing_else(fault, check):
    change, expected = FAULTS[fault]
    verification = check(change(tensors()), "BertModel")
    assert kinds_and_names(verification) == expected
    assert verification.status == any(KINDS[kind].matters for kind, _ in expected)


def test_a_difference_has_both_sides(check):
    (found,) = check(put(UP, ((6, 5), "F32"))(tensors())).to_dict()["differences"]
    assert found == {
        "kind": "shape",
        "name": UP,
        "stored_as": None,
        "role": "ffn.up",
        "expected_shape": (6, 4),
        "expected_dtype": None,
        "found_shape": (6, 5),
        "found_dtype": "F32",
        "about": (),
        "matters": True,
    }


def test_a_difference_has_the_stored_name(check):
    name, old = "embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma"
    (found,) = check(stored_as(name, old)(tensors())).differences
    assert (found.name, found.stored_as, found.about) == (
        name,
        old,
        ("LayerNorm.gamma", "LayerNorm.weight"),
    )


def test_totals_count_stored_tensors_once(check):
    stored = tensors("BertForMaskedLM")
    whole = bind(find(CONFIG).blueprint, "BertForMaskedLM", find(CONFIG).fields).parameters
    stored["cls.predictions.decoder.weight"] = ((11, 4), "F32")
    stored["bert.embeddings.position_ids"] = ((1, 5), "I64")
    assert check(stored).to_dict()["parameters"] == {"expected": whole, "found": whole}
    stored["more"] = ((7,), "F32")
    assert check(stored, "BertForMaskedLM").to_dict()["parameters"] == {
        "expected": whole,
        "found": whole + 7,
    }
    del stored["bert.embeddings.position_embeddings.weight"]
    report = check(stored, "BertForMaskedLM").to_dict()
    assert report["parameters"] == {"expected": whole, "found": whole + 7 - 5 * 4}
    assert report["tensors"] == {"expected": 58, "found": 58, "stored": 60}


# dtypes


@pytest.mark.parametrize(
    ("config", "asked", "stored", "kind", "status"),
    [
        ({}, None, "F16", None, 0),
        ({}, "float16", "F16", None, 0),
        ({}, "float16", "F32", "dtype", 1),
        ({"dtype": "float16"}, None, "F32", "stated_dtype", 0),
        ({"torch_dtype": "float16"}, None, "F32", "stated_dtype", 0),
        ({"torch_dtype": "float16"}, None, "F16", None, 0),
        ({"torch_dtype": "auto"}, None, "F16", None, 0),
        ({"dtype": "float16"}, "float32", "F32", None, 0),
        ({"dtype": "float32"}, None, "I64", "not_float", 1),
        ({}, "int64", "I64", None, 0),
    ],
)
def test_a_dtype_matters_only_if_it_is_asked_for(config, asked, stored, kind, status, check):
    verification = check(
        {name: (shape, stored) for name, (shape, _) in tensors().items()},
        config={**CONFIG, **config},
        dtype=asked,
    )
    assert {found for found, _ in kinds_and_names(verification)} == ({kind} if kind else set())
    assert len(verification.differences) == (len(tensors()) if kind else 0)
    assert verification.status == status


def test_an_unknown_dtype_is_refused(check):
    with pytest.raises(UsageError, match="no such dtype"):
        check(tensors(), dtype="float17")


# Ties

DECODER, WORDS = "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"


def test_a_shared_tensor_need_not_be_stored(check):
    verification = check(tensors("BertForMaskedLM"), "BertForMaskedLM")
    assert (verification.status, kinds_and_names(verification)) == (0, [])
    assert verification.comparison.shared == {
        DECODER: WORDS,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }


def test_a_shared_tensor_that_is_stored_is_a_note(check):
    verification = check(
        put(DECODER, ((11, 4), "F32"))(tensors("BertForMaskedLM")), "BertForMaskedLM"
    )
    assert (verification.status, kinds_and_names(verification)) == (0, [("tied_stored", DECODER)])


def test_a_shared_tensor_stands_in_for_its_target(check):
    verification = check(stored_as(WORDS, DECODER)(tensors("BertForMaskedLM")), "BertForMaskedLM")
    assert (verification.status, kinds_and_names(verification)) == (0, [("tied_alone", WORDS)])
    assert verification.differences[0].about == (DECODER,)


def test_both_missing_is_one_difference(check):
    verification = check(dropped(WORDS)(tensors("BertForMaskedLM")), "BertForMaskedLM")
    assert (verification.status, kinds_and_names(verification)) == (1, [("missing", WORDS)])
    assert DECODER not in verification.comparison.shared


def test_an_untied_decoder_must_be_stored(check):
    config = {**CONFIG, "tie_word_embeddings": False}
    verification = check(tensors("BertForMaskedLM"), "BertForMaskedLM", config)
    assert kinds_and_names(verification) == [
        ("missing", DECODER),
        ("missing", "cls.predictions.decoder.bias"),
    ]


# Prefixes and classes


def test_a_base_class_without_the_prefix_lacks_only_the_head(check):
    verification = check(tensors(), "BertForSequenceClassification")
    assert kinds_and_names(verification) == [
        ("missing", "classifier.weight"),
        ("missing", "classifier.bias"),
        ("prefix_absent", "bert."),
    ]


def test_a_task_class_compared_with_the_base_class_has_only_its_head_left_over(check):
    stored = tensors("BertForSequenceClassification")
    stored["bert.embeddings.position_ids"] = ((1, 5), "I64")
    verification = check(renamed(stored, "LayerNorm.weight", "LayerNorm.gamma"), "BertModel")
    kinds = [kind for kind, _ in kinds_and_names(verification)]
    assert kinds == ["extra", "extra", "prefix_added", *["old_name"] * 7, "buffer"]
    assert {name for kind, name in kinds_and_names(verification) if kind == "extra"} == {
        "classifier.weight",
        "classifier.bias",
    }


def test_a_prefix_on_some_names_only_is_not_looked_through(check):
    verification = check(stored_as(UP, f"bert.{UP}")(tensors()), "BertModel")
    assert kinds_and_names(verification) == [("missing", UP), ("extra", f"bert.{UP}")]


@pytest.mark.parametrize("class_name", CLASSES)
def test_the_class_that_fits_is_found(class_name, check):
    verification = check(tensors(class_name))
    assert verification.status == 0
    names = {name: set(tensors(name)) for name in CLASSES}
    assert names[verification.class_name] == names[class_name]
    assert verification.choice.why == ("base" if class_name == "BertModel" else "fits")


@pytest.mark.parametrize("class_name", CLASSES)
def test_the_class_that_the_config_names_comes_first_among_equals(class_name, check):
    verification = check(tensors(class_name), config={**CONFIG, "architectures": [class_name]})
    assert (verification.class_name, verification.choice.why) == (class_name, "named")
    assert verification.status == 0


def test_a_class_that_fits_better_than_the_named_one_is_suggested(check):
    verification = check(
        tensors(), config={**CONFIG, "architectures": ["BertForSequenceClassification"]}
    )
    assert (verification.class_name, verification.status) == ("BertForSequenceClassification", 1)
    assert kinds_and_names(verification)[:2] == [
        ("missing", "classifier.weight"),
        ("missing", "classifier.bias"),
    ]
    assert verification.to_dict()["class_failures"] == {
        "BertForSequenceClassification": 2,
        "BertModel": 0,
    }
    assert "with BertModel, there would be no difference (--class BertModel)" in flat(
        verification.text()
    )


def test_a_checkpoint_that_holds_more_than_its_named_class_is_compared_with_the_larger_class(
    check,
):
    stored = tensors("BertForPreTraining")
    verification = check(stored, config={**CONFIG, "architectures": ["BertForMaskedLM"]})
    assert (verification.class_name, verification.status) == ("BertForPreTraining", 0)
    assert "names BertForMaskedLM; compared with that class, there would be 4" in flat(
        verification.text()
    )


def test_a_buffer_of_another_shape_is_a_note(check):
    verification = check(tensors() | {"embeddings.position_ids": ((1, 7), "I64")})
    assert (verification.status, kinds_and_names(verification)) == (
        0,
        [("buffer_shape", "embeddings.position_ids")],
    )
    assert "[1, 5] expected, [1, 7] I64 found" in flat(verification.text())


def test_a_named_class_is_kept_if_no_other_fits_better(check):
    stored = {name: value for name, value in tensors().items() if not name.startswith("pooler")}
    verification = check(stored, config={**CONFIG, "architectures": ["BertForTokenClassification"]})
    assert (verification.class_name, verification.choice.why) == (
        "BertForTokenClassification",
        "named",
    )
    assert verification.choice.failures["BertModel"] == verification.comparison.failures == 2


def test_only_classes_with_tensors_of_their_own_are_candidates(check):
    failures = check(tensors() | {"classifier.bias": ((2,), "F32")}).choice.failures
    assert list(failures) == [
        "BertModel",
        *(name for name in CLASSES if "classifier.bias" in tensors(name)),
    ]
    assert list(check(dropped(UP)(tensors())).choice.failures) == ["BertModel"]
    failures = check(dropped(f"bert.{UP}")(tensors("BertForQuestionAnswering"))).choice.failures
    assert failures == {
        "BertModel": 1 + 2 + 2,
        "BertForQuestionAnswering": 1,
    }  # its head is extra, the pooler missing


def test_classes_that_fit_equally_well_are_listed(check):
    verification = check(tensors("BertForMaskedLM"))
    assert verification.class_name == "BertForMaskedLM"
    assert "BertLMHeadModel would fit equally well." in flat(verification.text())


def test_a_class_outside_every_family_is_not_named(check):
    verification = check(tensors(), config={**CONFIG, "architectures": ["BertForSinging"]})
    assert (verification.class_name, verification.choice.why) == ("BertModel", "base")
    with pytest.raises(ModelError, match="no class 'BertForSinging'"):
        check(tensors(), "BertForSinging")


# Files and indexes


def halves(stored):
    names = list(stored)
    return [
        {name: stored[name] for name in half}
        for half in (names[: len(names) // 2], names[len(names) // 2 :])
    ]


def test_shards_that_agree_with_their_index_agree(tmp_path):
    first, second = halves(tensors())
    write_shards(tmp_path, {"a.safetensors": first, "b.safetensors": second})
    verification = verify(CONFIG, tmp_path / "model.safetensors.index.json")
    assert (verification.status, kinds_and_names(verification)) == (0, [])
    assert len(verification.to_dict()["files"]) == 2


def test_a_tensor_in_two_shards_is_stored_twice(tmp_path):
    first, second = halves(tensors())
    again = {name: value for name, value in first.items() if name == "embeddings.LayerNorm.bias"}
    write_shards(
        tmp_path,
        {"a.safetensors": first, "b.safetensors": second | again},
        weight_map=dict.fromkeys(first, "a.safetensors") | dict.fromkeys(second, "b.safetensors"),
        total_size=sum(map(size_of, tensors().values())),
    )
    verification = verify(CONFIG, tmp_path)
    assert (verification.status, kinds_and_names(verification)) == (1, [("twice", *again)])
    assert verification.differences[0].about == tuple(
        str(tmp_path / name) for name in ("a.safetensors", "b.safetensors")
    )


def test_an_index_that_contradicts_its_files_is_named(tmp_path):
    first, second = halves(tensors())
    listed = dict.fromkeys(first, "a.safetensors") | dict.fromkeys(second, "b.safetensors")
    lost, moved, hidden = "pooler.dense.bias", "embeddings.LayerNorm.bias", "pooler.dense.weight"
    del second[lost], listed[hidden]
    listed[moved] = "b.safetensors"
    write_shards(
        tmp_path, {"a.safetensors": first, "b.safetensors": second}, listed, total_size=1000
    )
    verification = verify(CONFIG, tmp_path)
    assert verification.status == 1
    assert kinds_and_names(verification) == [
        ("absent", lost),
        ("misplaced", moved),
        ("unlisted", hidden),
        ("total_size", "metadata.total_size"),
    ]
    assert verification.differences[-1].about == (
        1000,
        sum(map(size_of, (first | second).values())),
    )


@pytest.mark.parametrize("off_by", [-1, 1])
def test_a_total_size_that_is_wrong_matters(off_by, tmp_path):
    total = sum(map(size_of, tensors().values())) + off_by
    write_shards(tmp_path, {"a.safetensors": tensors()}, total_size=total)
    verification = verify(CONFIG, tmp_path)
    assert (verification.status, kinds_and_names(verification)) == (
        1,
        [("total_size", "metadata.total_size")],
    )
    assert (
        f"The index states {total:,} bytes, but the files hold {total - off_by:,}"
        in verification.text()
    )


def test_an_index_may_use_other_names_too(tmp_path):
    stored = renamed(tensors("BertForMaskedLM"), "LayerNorm.bias", "LayerNorm.beta")
    first, second = halves(stored)
    write_shards(tmp_path, {"a.safetensors": first, "b.safetensors": second})
    listed = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    listed["weight_map"]["bert.encoder.layer.9.output.LayerNorm.beta"] = "a.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(listed))
    verification = verify(CONFIG, tmp_path, "BertForMaskedLM")
    assert kinds_and_names(verification)[0] == (
        "absent",
        "bert.encoder.layer.9.output.LayerNorm.beta",
    )
    assert {kind for kind, _ in kinds_and_names(verification)[1:]} == {"old_name"}


def test_a_damaged_file_is_an_error_not_a_difference(tmp_path):
    path = tmp_path / "model.safetensors"
    write(path, tensors())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="truncated"):
        verify(CONFIG, path)


def test_strict_refuses_a_config_with_unknown_fields(check):
    assert check(tensors(), config={**CONFIG, "hiden_size": 4}).status == 0
    with pytest.raises(ConfigError, match="hiden_size"):
        check(tensors(), config={**CONFIG, "hiden_size": 4}, strict=True)


def test_fields_may_be_replaced(check):
    assert check(tensors(num_hidden_layers=2), fields={"num_hidden_layers": 2}).status == 0


# Any config, any single fault


@st.composite
def mutations(draw):
    """Return a class, a config, its tensors with one fault, and the expected differences."""
    config = {
        **CONFIG,
        "vocab_size": draw(st.integers(1, 9)),
        "hidden_size": 2 * draw(st.integers(1, 4)),
        "num_hidden_layers": draw(st.integers(1, 3)),
        "intermediate_size": draw(st.integers(1, 9)),
        "tie_word_embeddings": draw(st.booleans()),
    }
    class_name = draw(st.sampled_from(CLASSES))
    stored = tensors(class_name, **config)
    name = draw(st.sampled_from([name for name in stored if name.count(".") > 1]))
    shape, _ = stored[name]
    ending = draw(st.text(string.ascii_lowercase, min_size=1, max_size=5))
    change, expected = draw(
        st.sampled_from(
            [
                (dropped(name), [("missing", name)]),
                (put(name, ((*shape, 2), "F32")), [("shape", name)]),
                (put(name, ((shape[0] + 1, *shape[1:]), "F32")), [("shape", name)]),
                (put(name, (shape, "F16")), [("mixed_dtype", name)]),
                (put(name, (shape, "I64")), [("not_float", name)]),
                (put(f"{name}.{ending}", ((1,), "F32")), [("extra", f"{name}.{ending}")]),
                (
                    stored_as(name, f"{name}_{ending}"),
                    [("missing", name), ("extra", f"{name}_{ending}")],
                ),
            ]
        )
    )
    return class_name, config, change(stored), expected


def as_found(stored):
    rows = tuple(Row(name, shape, dtype, "", (), 1, 1) for name, (shape, dtype) in stored.items())
    return StoredCheckpoint(
        "model.safetensors", "safetensors", rows, {}, ("model.safetensors",), 0, {}, {}, (), None
    )


@settings(deadline=None, max_examples=300)
@given(mutations())
def test_any_single_fault_is_reported_and_nothing_else(mutation):
    class_name, config, stored, expected = mutation
    model = find(config)
    compared = compare_tensors(bind(model.blueprint, class_name, model.fields), as_found(stored))
    assert [(difference.kind, difference.name) for difference in compared.differences] == expected
    assert bool(compared.failures) == any(KINDS[kind].matters for kind, _ in expected)


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(CLASSES), st.randoms())
def test_the_order_of_a_file_changes_nothing(class_name, random):
    stored = renamed(tensors(class_name), "LayerNorm.bias", "LayerNorm.beta")
    del stored[random.choice(list(stored))]
    names = list(stored)
    random.shuffle(names)
    model = find(CONFIG)
    ledger = bind(model.blueprint, class_name, model.fields)
    one, other = (
        compare_tensors(ledger, as_found({name: stored[name] for name in order}))
        for order in (stored, names)
    )
    assert sorted(one.differences) == sorted(other.differences)
    assert one.parameters == other.parameters


# Groups and the text


def flat(text):
    return " ".join(text.split())


def test_groups_hold_every_difference_once():
    model = find({**CONFIG, "num_hidden_layers": 20})
    ledger = bind(model.blueprint, "BertForPreTraining", model.fields)
    for dtype in (None, ExpectedDtype("F16", asked=True)):
        for kept in (1, 2, 7):
            stored = dict(list(tensors("BertForPreTraining").items())[::kept])
            differences = compare_tensors(ledger, as_found(stored), dtype).differences
            assert sorted(
                difference for line in group(differences) for difference in line.differences
            ) == sorted(differences)


def test_a_layer_that_is_missing_is_one_line(check):
    text = check(tensors(), fields={"num_hidden_layers": 9}).text()
    assert "Missing: 96 tensors\n  encoder.layer.{3-8}\n" in text
    assert "(16 tensors each)" in flat(text)
    text = check(tensors(), fields={"num_hidden_layers": 4}).text()
    assert "Missing: 16 tensors\n  encoder.layer.3\n" in text
    assert "(16 tensors)" in flat(text)


def test_shared_tensors_are_listed(check):
    text = flat(check(tensors("BertForMaskedLM")).text())
    assert f"{DECODER} is {WORDS}; cls.predictions.decoder.bias is cls.predictions.bias." in text


def test_a_tensor_that_is_missing_in_many_layers_is_one_line(check):
    stored = {
        name: value
        for name, value in tensors().items()
        if not name.endswith("intermediate.dense.weight")
    }
    assert (
        "Missing: 3 tensors\n  encoder.layer.{0-2}.intermediate.dense.weight  [6, 4]\n"
        in check(stored).text()
    )


def test_parts_of_a_module_share_a_line_with_their_roles(check):
    stored = {name: value for name, value in tensors().items() if "1.intermediate" not in name}
    assert "  encoder.layer.1  feed-forward up (weight, bias)\n" in check(stored).text()
    assert "  encoder.layer.1  前馈升维（weight、bias）\n" in check(stored).text("zh")


def test_thousands_of_differences_stay_readable(check):
    stored = tensors() | {
        f"{word}.{number}x.weight": ((1,), "F32") for word in "abcdefghij" for number in range(300)
    }
    text = check(stored, "BertModel").text()
    assert "Not part of BertModel: 3,000 tensors" in text
    assert f"… and {3000 - MOST_LINES:,} tensors more" in text
    assert len(text.splitlines()) < MOST_LINES + 20
    assert len(check(stored, "BertModel").to_dict()["differences"]) == 3000


def everything(tmp_path):
    """Write a checkpoint with as many kinds of difference as possible, and verify it."""
    stored = tensors("BertForMaskedLM") | {
        DECODER: ((11, 4), "F32"),
        "bert.embeddings.position_ids": ((1, 5), "I64"),
        "bert.embeddings.token_type_ids": ((1, 6), "I64"),
        "bert.embeddings.LayerNorm.gamma": ((4,), "F32"),
        "bert.encoder.layer.0.output.dense.bias": ((5,), "F16"),
        "bert.encoder.layer.1.output.dense.bias": ((4,), "I64"),
        "<b>&\x1b[31m": ((4,), "F32"),
    }
    stored = stored_as(
        "bert.encoder.layer.2.output.LayerNorm.bias", "bert.encoder.layer.2.output.LayerNorm.beta"
    )(stored)
    stored = stored_as("cls.predictions.bias", "cls.predictions.decoder.bias")(stored)
    del stored["bert.encoder.layer.2.output.dense.bias"]
    first, second = halves(stored)
    listed = dict.fromkeys(first, "a.safetensors") | dict.fromkeys(
        [*list(second)[1:], "lost"], "b.safetensors"
    )
    listed[list(first)[3]] = "b.safetensors"
    shards = {"a.safetensors": first, "b.safetensors": second | dict(list(first.items())[:1])}
    write_shards(tmp_path, shards, listed, 8)
    return verify(CONFIG, tmp_path, "BertForMaskedLM")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_text_fits_a_terminal_and_names_every_kind(lang, tmp_path):
    from weighbridge import data

    verification = everything(tmp_path)
    kinds = {kind for kind, _ in kinds_and_names(verification)}
    of_others = {
        "other_names",
        "transposed",
        "reshaped",
        "regrouped",
        "renamed",
        "aside",
        "quantised",
        "unknown_size",
        "wrapped",
        "changed_dtype",
    }
    assert kinds == set(KINDS) - of_others - {
        "dtype",
        "stated_dtype",
        "in_memory",
        "prefix_absent",
        "prefix_added",
    }
    text = verification.text(lang)
    written = data.read_toml(f"words/verify.{lang}.toml")["kinds"]
    assert all(
        written[kind].partition("{")[0] in text.replace("\n  ", " " * (lang == "en"))
        for kind in kinds
    )
    long = [
        line for line in text.splitlines() if width(line) > 80 and line.strip() != str(tmp_path)
    ]
    assert not long
    assert text.isprintable() or set(text) - set(filter(str.isprintable, text)) == {"\n"}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_words_name_every_kind(lang):
    from weighbridge import data

    found, english = (data.read_toml(f"words/verify.{language}.toml") for language in (lang, "en"))
    assert list(found["kinds"]) == list(KINDS)
    assert set(found["details"]) <= set(KINDS)
    assert found.keys() == english.keys()
    assert all(
        found[section].keys() == english[section].keys()
        for section in ("why", "many", "kinds", "details")
    )


def test_the_verdict_comes_first_and_the_evidence_last(minilm):
    lines = verify(str(minilm), minilm).text().splitlines()
    assert (
        "The checkpoint matches: it has every tensor of BertModel, each in its shape." in lines[:4]
    )
    assert "No values were compared" in lines[-1]


def test_two_checkpoints_are_said_to_be_read_once(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / f"{name}.safetensors", tensors())
    changes = verify(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    number = changes.before.header_bytes + changes.checkpoint.header_bytes
    said = f"Only the headers of 2 files were read ({number:,} bytes)"
    assert " ".join(changes.text().split()).count("No values were compared") == 1
    assert said in changes.text()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_checkpoint_without_tensors_is_said_to_hold_none(tmp_path, lang):
    write(tmp_path / "a.safetensors", {})
    text = verify({"model_type": "bert"}, tmp_path / "a.safetensors").text(lang)
    assert {"en": "The checkpoint holds no tensors.", "zh": "检查点中没有张量。"}[lang] in text


def test_the_report_is_json_and_html(tmp_path):
    verification = everything(tmp_path)
    report = json.loads(json.dumps(verification.to_dict()))
    assert sum(report["counts"].values()) == len(report["differences"])
    assert report["status"] == verification.status == 1
    assert "<b>&" not in verification._repr_html_()
    assert repr(verification) == verification.text()


def test_an_unknown_language_is_refused(check):
    with pytest.raises(UsageError, match="no such language"):
        check(tensors()).text("fr")


def test_a_difference_is_plain_data():
    assert Difference("missing", UP)._asdict()["about"] == ()
