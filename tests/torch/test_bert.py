"""Our BERT compared with transformers': the same outputs, gradients and blueprint."""

from __future__ import annotations

import random
import tomllib
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig as ReferenceConfig
from transformers.activations import ACT2FN
from transformers.models.bert import modeling_bert as reference

from weighbridge.blueprint.schema import load as load_blueprint
from weighbridge.derive.derivation import derive
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.torch.bert import ACTIVATIONS, CLASSES, IGNORED, BertConfig, lay_out

SAME = 1e-5
CONFIGS = 10
DECODERS = ("BertLMHeadModel",)
REGRESSING = (
    "BertForSequenceClassification",
)  # it may have one label; a choice from one option teaches nothing


def sizes(seed: int, class_name: str) -> dict[str, Any]:
    """Return a config drawn at random: the fields that transformers and ours both have."""
    draw = random.Random(f"{class_name} {seed}")  # noqa: S311  # no secret
    heads = draw.randint(2, 4)
    fields = {
        "vocab_size": draw.randint(20, 80),
        "hidden_size": heads * draw.randint(4, 9),
        "num_attention_heads": heads,
        "num_hidden_layers": draw.randint(1, 3),
        "intermediate_size": draw.randint(5, 50),
        "max_position_embeddings": draw.randint(12, 30),
        "type_vocab_size": draw.randint(2, 4),
        "hidden_act": draw.choice(["gelu", "relu", "gelu_new", "silu"]),
        "layer_norm_eps": draw.choice([1e-12, 1e-5]),
        "pad_token_id": draw.choice([0, 3]),
        "tie_word_embeddings": draw.random() < 0.7,
        "num_labels": 2
        if class_name == "BertForQuestionAnswering"
        else draw.randint(class_name not in REGRESSING, 4) + 1,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    if class_name in DECODERS:
        fields |= {"is_decoder": True, "add_cross_attention": draw.random() < 0.5}
    return fields


def both(
    class_name: str, fields: dict[str, Any], attention: str, *, pack: bool = True
) -> tuple[Any, Any]:
    """Return transformers' model and ours, with the same random weights, without dropout."""
    config = ReferenceConfig(**fields)
    config._attn_implementation = attention
    theirs = getattr(reference, class_name)(config).train()
    for (
        name,
        parameter,
    ) in theirs.named_parameters():  # large enough that each step changes what comes out
        torch.nn.init.normal_(parameter, mean=float(name.endswith("LayerNorm.weight")), std=0.3)
    ours = CLASSES[class_name](BertConfig(**fields, attention=attention, pack=pack)).train()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def inputs(class_name: str, fields: dict[str, Any]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return a batch with padding, segments, positions and labels, and its mask."""
    choices = (3,) if class_name == "BertForMultipleChoice" else ()
    shape, length, labels = (4, *choices, 9), 9, fields["num_labels"]
    lengths = torch.randint(2, length + 1, shape[:-1])
    real = torch.arange(length) < lengths[..., None]
    words = torch.where(real, torch.randint(0, fields["vocab_size"], shape), IGNORED)
    given = {
        "input_ids": torch.randint(4, fields["vocab_size"], shape),
        "attention_mask": real.long(),
        "token_type_ids": torch.randint(0, fields["type_vocab_size"], shape),
        "position_ids": torch.randint(0, fields["max_position_embeddings"], shape),
    }
    given |= {
        "BertModel": {},
        "BertForPreTraining": {"labels": words, "next_sentence_label": torch.randint(0, 2, (4,))},
        "BertForMaskedLM": {"labels": words},
        "BertLMHeadModel": {"labels": words},
        "BertForNextSentencePrediction": {"labels": torch.randint(0, 2, (4,))},
        "BertForSequenceClassification": {
            "labels": torch.rand(4) if labels == 1 else torch.randint(0, labels, (4,))
        },
        "BertForMultipleChoice": {"labels": torch.randint(0, 3, (4,))},
        "BertForTokenClassification": {
            "labels": torch.where(real, torch.randint(0, labels, shape), IGNORED)
        },
        "BertForQuestionAnswering": {
            "start_positions": torch.randint(0, 12, (4,)),  # some of them beyond the text
            "end_positions": torch.randint(0, 9, (4,)),
        },
    }[class_name]
    if fields.get("add_cross_attention"):
        given["encoder_hidden_states"] = torch.randn(4, 5, fields["hidden_size"])
        given["encoder_attention_mask"] = (
            torch.arange(5) < torch.tensor([[5], [3], [1], [4]])
        ).long()
    return given, real


def loss(output: Any, real: torch.Tensor) -> torch.Tensor:
    found = getattr(output, "loss", None)
    if found is not None:
        return found
    return output.last_hidden_state[real].pow(2).mean() + output.pooler_output.pow(2).mean()


def hold_outputs(theirs: Any, ours: Any, real: torch.Tensor) -> None:
    held = 0
    for name in theirs:
        expected, found = theirs[name], getattr(ours, name, None)
        if not isinstance(expected, torch.Tensor):
            continue
        if expected.shape[: real.dim()] == real.shape:
            expected, found = expected[real], found[real]
        torch.testing.assert_close(found, expected, atol=SAME, rtol=0)
        held += 1
    assert held >= 1


@pytest.mark.parametrize("seed", range(CONFIGS))
@pytest.mark.parametrize("class_name", CLASSES)
def test_outputs_gradients_and_a_step_are_those_of_transformers(class_name: str, seed: int) -> None:
    torch.manual_seed(seed)
    fields = sizes(seed, class_name)
    theirs, ours = both(class_name, fields, ("sdpa", "eager")[seed % 2], pack=seed % 3 > 0)
    given, real = inputs(class_name, fields)
    for model in (theirs, ours):
        model.eval()
    with torch.no_grad():
        hold_outputs(theirs(**given), ours(**given), real)
    losses = []
    for model in (theirs, ours):
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses.append(loss(model(**given), real))
        losses[-1].backward()
        optimizer.step()
        losses.append(loss(model(**given), real))
    torch.testing.assert_close(losses[2:], losses[:2], atol=SAME, rtol=0)
    assert any(
        parameter.grad is not None and parameter.grad.any() for parameter in ours.parameters()
    )
    expected = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        if expected[name] is None or parameter.grad is None:  # a part that the loss does not reach
            assert all(
                grad is None or not grad.any() for grad in (expected[name], parameter.grad)
            ), name
        else:
            torch.testing.assert_close(parameter.grad, expected[name], atol=SAME, rtol=0)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("class_name", CLASSES)
def test_unpacked_the_numbers_of_padding_are_those_of_transformers_too(
    class_name: str, attention: str
) -> None:
    torch.manual_seed(5)
    fields = sizes(5, class_name)
    theirs, ours = both(class_name, fields, attention, pack=False)
    given, real = inputs(class_name, fields)
    hold_outputs(theirs(**given), ours(**given), torch.ones_like(real))


def test_padding_on_the_left_is_not_packed_and_is_the_same() -> None:
    torch.manual_seed(0)
    fields = sizes(0, "BertModel")
    theirs, ours = both("BertModel", fields, "sdpa")
    mask = (torch.arange(9) >= torch.tensor([[0], [4], [2]])).long()
    ids = torch.randint(4, fields["vocab_size"], (3, 9))
    assert lay_out(ids, mask, causal=False, pack=True).kept is None
    hold_outputs(theirs(ids, attention_mask=mask), ours(ids, mask), mask.bool())


def test_a_hole_in_the_middle_is_packed_and_is_the_same() -> None:
    torch.manual_seed(0)
    fields = sizes(1, "BertModel")
    theirs, ours = both("BertModel", fields, "sdpa")
    mask = torch.tensor([[1, 0, 1, 1, 1, 0, 1], [1, 1, 1, 1, 0, 0, 0]])
    ids = torch.randint(4, fields["vocab_size"], (2, 7))
    assert lay_out(ids, mask, causal=False, pack=True).groups == [(1, 4), (1, 5)]
    hold_outputs(theirs(ids, attention_mask=mask), ours(ids, mask), mask.bool())


def test_packing_computes_no_padding() -> None:
    mask = (torch.arange(9) < torch.tensor([[9], [2], [4], [2]])).long()
    layout = lay_out(torch.zeros(4, 9, dtype=torch.long), mask, causal=False, pack=True)
    assert layout.groups == [(2, 2), (1, 4), (1, 9)]
    batch = torch.arange(36).view(4, 9)
    rows = layout.pick(batch)
    assert rows.shape == (17,)
    assert torch.equal(layout.batch(rows), batch * mask)
    assert torch.equal(layout.firsts(rows), batch[:, 0])


def test_two_problems_of_a_classifier_are_those_of_transformers() -> None:
    torch.manual_seed(0)
    for labels in (torch.rand(4, 3).round(), torch.randint(0, 3, (4,))):
        theirs, ours = both(
            "BertForSequenceClassification", {**sizes(2, "BertModel"), "num_labels": 3}, "sdpa"
        )
        ids = torch.randint(4, 20, (4, 9))
        torch.testing.assert_close(
            ours(ids, labels=labels).loss, theirs(ids, labels=labels).loss, atol=SAME, rtol=0
        )


LEFT = [[1] * 9, [0] * 4 + [1] * 5, [0, 0] + [1] * 7]
HOLES = [[1, 0, 1, 1, 1, 0, 1, 1, 1], [1] * 5 + [0] * 4, [1] * 9]


def gradients(model: Any, given: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, Any]]:
    model.zero_grad()
    loss = model(**given).loss
    loss.backward()
    return loss, {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("mask", [LEFT, HOLES], ids=["left", "holes"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(
    "class_name", ["BertLMHeadModel", "BertForMaskedLM", "BertForTokenClassification"]
)
def test_labels_of_masked_tokens_count_as_in_transformers(
    class_name: str, attention: str, mask: list[list[int]]
) -> None:
    """Also where a token of a decoder may attend to nothing at all."""
    torch.manual_seed(0)
    fields = {**sizes(1, class_name), "add_cross_attention": False}
    theirs, ours = both(class_name, fields, attention)
    below = fields["num_labels" if class_name.endswith("Classification") else "vocab_size"]
    given = {
        "input_ids": torch.randint(4, fields["vocab_size"], (3, 9)),
        "attention_mask": torch.tensor(mask),
        "labels": torch.randint(0, below, (3, 9)),
    }
    expected, found = gradients(theirs, given), gradients(ours, given)
    torch.testing.assert_close(found[0], expected[0], atol=SAME, rtol=0)
    for name, gradient in found[1].items():
        torch.testing.assert_close(gradient, expected[1][name], atol=SAME, rtol=0)


@pytest.mark.parametrize("class_name", ["BertLMHeadModel", "BertForMaskedLM"])
def test_a_loss_in_bfloat16_has_the_dtype_of_transformers(class_name: str) -> None:
    torch.manual_seed(0)
    fields = {**sizes(0, class_name), "add_cross_attention": False}
    ids = torch.randint(4, fields["vocab_size"], (3, 9))
    theirs, ours = (
        model.to(torch.bfloat16)(ids, labels=ids).loss for model in both(class_name, fields, "sdpa")
    )
    assert ours.dtype == theirs.dtype
    torch.testing.assert_close(ours, theirs, atol=0.05, rtol=0)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_that_of_transformers(name: str) -> None:
    given = torch.linspace(-8, 8, 1001)
    torch.testing.assert_close(ACTIVATIONS[name](given), ACT2FN[name](given), atol=SAME, rtol=0)


def test_an_unknown_attention_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be sdpa or eager \(attention = 'spda'\)"):
        CLASSES["BertModel"](BertConfig(**sizes(0, "BertModel"), attention="spda"))


def labelled(fields: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return a batch of 4 times 10 tokens, of which 6 have a label."""
    ids = torch.randint(4, fields["vocab_size"], (4, 10))
    labels = torch.full_like(ids, IGNORED)
    labels[:3, 2:4] = ids[:3, 2:4]
    return {"input_ids": ids, "labels": labels}


@pytest.mark.parametrize("class_name", ["BertForMaskedLM", "BertForPreTraining"])
def test_a_loss_scores_only_tokens_with_a_label(class_name: str) -> None:
    torch.manual_seed(0)
    fields = sizes(0, class_name)
    theirs, ours = both(class_name, fields, "eager")
    given = labelled(fields)
    if class_name == "BertForPreTraining":
        given["next_sentence_label"] = torch.tensor([0, 1, 1, 0])
    flops = {}
    for name, tensors in (("loss", given), ("logits", {"input_ids": given["input_ids"]})):
        with FlopCounterMode(display=False) as counter:
            ours(**tensors)
        flops[name] = counter.get_total_flops()
    hidden, words = fields["hidden_size"], fields["vocab_size"]
    assert flops["logits"] - flops["loss"] == 2 * (40 - 6) * hidden * (hidden + words)
    output = ours(**given)
    expected = theirs(**given)
    torch.testing.assert_close(output.loss, expected.loss, atol=SAME, rtol=0)
    scores = expected[1]  # after the loss
    logits = getattr(output, "logits", None)
    if class_name == "BertForPreTraining":
        logits = output.prediction_logits
    torch.testing.assert_close(logits, scores, atol=SAME, rtol=0)


def test_late_logits_are_those_of_the_forward_pass_or_refused() -> None:
    torch.manual_seed(0)
    fields = sizes(0, "BertForMaskedLM")
    theirs, ours = both("BertForMaskedLM", fields, "sdpa")
    given = labelled(fields)
    with torch.inference_mode():
        evaluated = ours(**given)
    assert not evaluated.logits.requires_grad
    output = ours(**given)
    output.loss.backward()
    torch.testing.assert_close(output.logits, theirs(**given).logits, atol=SAME, rtol=0)
    late = ours(**given)
    torch.optim.SGD(ours.parameters(), lr=0.1).step()
    with pytest.raises(RuntimeError, match="the weights changed since the forward pass"):
        _ = late.logits


@pytest.mark.parametrize("class_name", CLASSES)
def test_each_class_compiles_to_one_graph(class_name: str) -> None:
    torch.manual_seed(0)
    fields = {**sizes(0, class_name), "add_cross_attention": False}
    model = CLASSES[class_name](BertConfig(**fields)).eval()
    given, real = inputs(class_name, fields)
    expected = model(**given)
    torch._dynamo.reset()
    found = torch.compile(model, backend="eager", fullgraph=True)(**given)
    if class_name != "BertModel":
        torch.testing.assert_close(found.loss, expected.loss, atol=SAME, rtol=0)
    for name in ("logits", "last_hidden_state"):
        if hasattr(expected, name) and getattr(expected, name).shape[:2] == real.shape:
            values = getattr(found, name)[real], getattr(expected, name)[real]
            torch.testing.assert_close(*values, atol=SAME, rtol=0)


def test_a_tied_head_keeps_the_padding_vector_zero() -> None:
    model = CLASSES["BertForMaskedLM"](BertConfig(**sizes(0, "BertModel") | {"pad_token_id": 3}))
    words = model.bert.embeddings.word_embeddings.weight
    assert not words[3].any()
    assert words[4].any()


def test_an_untrained_model_begins_where_transformers_does() -> None:
    """Each matrix has the same spread; biases and the padding vector are zero."""
    torch.manual_seed(0)
    config = {
        **sizes(0, "BertModel"),
        "hidden_size": 64,
        "num_attention_heads": 4,
        "vocab_size": 500,
        "num_labels": 3,
    }
    theirs = reference.BertForSequenceClassification(ReferenceConfig(**config))
    ours = CLASSES["BertForSequenceClassification"](BertConfig(**config))
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        assert parameter.std().item() == pytest.approx(
            expected[name].std().item(), rel=0.5, abs=1e-9
        ), name
    assert not ours.bert.embeddings.word_embeddings.weight[config["pad_token_id"]].any()


def test_the_blueprint_of_ours_is_that_of_transformers_tensor_by_tensor() -> None:
    """Our code is derived like any module, and gives the same file as transformers' code."""
    subject = OwnSubject("weighbridge.torch.bert:BertModel", family="bert")
    classes = [name for name in CLASSES if name != "BertModel"]
    ours = tomllib.loads(derive(subject, classes=classes).text)
    theirs = load_blueprint("bert")._raw
    for section in ("tensors", "when", "buffers", "modules", "repeat"):
        assert ours[section] == theirs[section], section
    assert list(ours["tensors"]) == list(theirs["tensors"]), "another order"
    of_stranger = ["problem_type == null"]  # no text was tried, so none is covered
    assert ours["require"] == [*theirs["require"], *of_stranger]
    assert ours["classes"].keys() == theirs["classes"].keys() == set(classes)
    for name in classes:
        assert ours["classes"][name] == theirs["classes"][name], name
        assert list(ours["classes"][name]["tensors"]) == list(theirs["classes"][name]["tensors"]), (
            name
        )
