"""Checkpoints loaded into our BERT: real ones, in every format.

Every tensor is accounted for, or the refusal is clear.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import berts
import pytest
import torch
import wheels
from checkpoints import as_tensorflow
from hostile import saved_as, tf
from safetensors.torch import load_file, save_file
from transformers import BertForMaskedLM, BertModel

from weighbridge.errors import (
    CheckpointError,
    ConfigError,
    ModelError,
    UsageError,
    WeighbridgeError,
)
from weighbridge.torch.loading import load_checkpoint
from weighbridge.torch.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS = [
    ("The capital of France is [MASK].", None),
    ("It is a very long sentence indeed, with many words, and 😀.", "A second one."),
    ("我爱自然语言处理", None),
]


def same(folder: Path, loaded: Any, reference: Any) -> None:
    """Compare a loaded model with transformers' on texts of different lengths."""
    batch = loaded.tokens.batch(loaded.tokens.read_all(TEXTS))
    real = batch.attention_mask.bool()
    with torch.no_grad():
        ours, theirs = loaded.model(*batch), reference(**batch._asdict())
    found = getattr(ours, "last_hidden_state", None) if hasattr(ours, "rows") else ours.logits
    torch.testing.assert_close(found[real], theirs[0][real], atol=1e-5, rtol=1e-5)
    if hasattr(ours, "rows"):
        torch.testing.assert_close(ours.pooler_output, theirs.pooler_output, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("wheel", "kind"), [(wheels.MINILM, BertModel), (wheels.BERT_TINY, BertForMaskedLM)]
)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_real_checkpoints_give_what_transformers_gives(
    wheel: wheels.Wheel, kind: Any, attention: str
) -> None:
    folder = wheels.model(wheel)
    reference = kind.from_pretrained(folder, attn_implementation=attention).eval()
    for pack in (True, False):
        loaded = load_checkpoint(folder, attention=attention, pack=pack)
        assert loaded.class_name == kind.__name__
        assert loaded.notes == ()
        same(folder, loaded, reference)


def test_a_pytorch_file_and_old_names_load(tmp_path: Path) -> None:
    reference = berts.write(tmp_path, "BertForSequenceClassification")
    state = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in state.items()
    }
    assert old.keys() != state.keys()
    torch.save(
        {**old, "bert.embeddings.position_ids": torch.arange(16)[None]},
        tmp_path / "pytorch_model.bin",
    )
    loaded = load_checkpoint(tmp_path)
    for name, tensor in reference.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], tensor), name


def test_googles_tensorflow_checkpoint_loads(tmp_path: Path) -> None:
    """The files, names and transposed matrices of Google's releases.

    The files are `bert_config.json` and `bert_model.ckpt`.
    """
    reference = berts.write(tmp_path, "BertForPreTraining")
    (tmp_path / "model.safetensors").unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").unlink()
    known = ("hidden_act", "initializer_range", "type_vocab_size", *berts.SIZES)
    (tmp_path / "bert_config.json").write_text(json.dumps({name: config[name] for name in known}))
    ties = (
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
    )  # under the other names only
    data, pairs = b"", []
    for name, tensor in reference.state_dict().items():
        if name not in ties:
            spelled, shape = as_tensorflow(name, tuple(tensor.shape))
            numbers = (
                (tensor if shape == tensor.shape and "kernel" not in spelled else tensor.T)
                .contiguous()
                .numpy()
                .tobytes()
            )
            pairs.append(
                (spelled.encode(), saved_as(shape=shape, offset=len(data), size=len(numbers)))
            )
            data += numbers
    step = (b"global_step", saved_as(kind=9, shape=(), offset=len(data), size=8))
    (tmp_path / "bert_model.ckpt.index").write_bytes(tf(*sorted([*pairs, step])))
    (tmp_path / "bert_model.ckpt.data-00000-of-00001").write_bytes(data + bytes(8))
    for path in (tmp_path, tmp_path / "bert_model.ckpt"):
        loaded = load_checkpoint(path, "BertForPreTraining")
        for name, tensor in reference.state_dict().items():
            assert torch.equal(loaded.model.state_dict()[name], tensor), name


def test_shards_load(tmp_path: Path) -> None:
    reference = berts.write(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    reference.save_pretrained(tmp_path, max_shard_size="8KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    loaded = load_checkpoint(tmp_path)
    for name, tensor in reference.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], tensor), name


@pytest.mark.parametrize("wrapper", ["state_dict", "model", "module"])
def test_what_a_trainer_wrapped_loads(tmp_path: Path, wrapper: str) -> None:
    reference = berts.write(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    state = {0: {"exp_avg": torch.zeros(3)}}
    saved = {wrapper: reference.state_dict(), "epoch": 3, "optimizer": {"state": state}}
    torch.save(saved, tmp_path / "pytorch_model.bin")
    loaded = load_checkpoint(tmp_path)
    for name, tensor in reference.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], tensor), name


def test_half_precision_is_run_in_single(tmp_path: Path) -> None:
    reference = berts.write(tmp_path)
    save_file(
        {name: of.half() for name, of in reference.state_dict().items()},
        tmp_path / "model.safetensors",
    )
    loaded = load_checkpoint(tmp_path)
    weight = loaded.model.pooler.dense.weight
    assert weight.dtype == torch.float32
    assert torch.equal(weight, reference.pooler.dense.weight.half().float())


def test_a_new_head_starts_at_random_and_the_old_one_is_left_out() -> None:
    folder = wheels.model(wheels.BERT_TINY)
    loaded = load_checkpoint(
        folder, "BertForSequenceClassification", labels=("bad", "good", "so so")
    )
    assert loaded.labels == ("bad", "good", "so so")
    assert loaded.model.classifier.weight.shape == (3, 128)
    left_out, started = loaded.notes
    assert left_out.startswith(
        "parts of the checkpoint that BertForSequenceClassification does not use: cls.predictions"
    )
    assert (
        started
        == "parts that the checkpoint lacks, initialized at random: bert.pooler.dense, classifier"
    )
    again = load_checkpoint(
        folder, "BertForSequenceClassification", labels=("bad", "good", "so so")
    )
    assert torch.equal(loaded.model.classifier.weight, again.model.classifier.weight)


def restored(folder: Path, **tensors: torch.Tensor | None) -> None:
    """Rewrite a checkpoint with other tensors; None drops one. In names, __ stands for a dot."""
    state = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        state.pop(name.replace("__", "."), None)
        if tensor is not None:
            state[name.replace("__", ".")] = tensor
    save_file(state, folder / "model.safetensors")


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def words(folder: Path, *more: str, without: str = "") -> None:
    berts.write_vocabulary(folder, [word for word in (*berts.WORDS, *more) if word != without])


DISTILBERT = {"model_type": "distilbert", "dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 32}
BROKEN: dict[str, tuple[Callable[[Path], object], type[WeighbridgeError], str]] = {
    "a missing tensor": (
        lambda folder: restored(folder, pooler__dense__weight=None),
        CheckpointError,
        "1 tensor(s) differ, and the first is missing (tensor = 'pooler.dense.weight'",
    ),
    "another shape": (
        lambda folder: restored(folder, pooler__dense__weight=torch.zeros(24, 23)),
        CheckpointError,
        "the first has another shape (tensor = 'pooler.dense.weight', expected = '24×24'",
    ),
    "an unknown tensor": (
        lambda folder: restored(folder, adapter__weight=torch.zeros(3)),
        CheckpointError,
        "the first is unknown (tensor = 'adapter.weight'",
    ),
    "another family": (
        lambda folder: berts.change(folder, **DISTILBERT),
        ModelError,
        "only BERT models can be run (model_type = 'distilbert')",
    ),
    "an activation that is none": (
        lambda folder: berts.change(folder, hidden_act="gelo"),
        ConfigError,
        "hidden_act must be one of gelu",
    ),
    "a dropout that is none": (
        lambda folder: berts.change(folder, hidden_dropout_prob="much"),
        ConfigError,
        "hidden_dropout_prob must be from 0 to less than 1 (hidden_dropout_prob = 'much')",
    ),
    "relative positions": (
        lambda folder: berts.change(folder, position_embedding_type="relative_key"),
        ConfigError,
        "only absolute position embeddings are supported",
    ),
    "a vocabulary that does not fit": (
        lambda folder: words(folder, "another"),
        CheckpointError,
        "the vocabulary does not fit the model (vocab_size = 36",
    ),
    "a vocabulary without [PAD]": (
        lambda folder: words(folder, without="[PAD]"),
        CheckpointError,
        "the vocabulary has no [PAD]",
    ),
    "a vocabulary without [SEP]": (
        lambda folder: words(folder, without="[SEP]"),
        CheckpointError,
        "the tokenizer cannot be read (reason = 'sep_token not found in the vocabulary')",
    ),
    "a word twice": (
        lambda folder: words(folder, "cat"),
        CheckpointError,
        "vocab.txt lists cat twice",
    ),
    "no vocabulary": (
        lambda folder: (folder / "vocab.txt").unlink(),
        CheckpointError,
        "there is no tokenizer. Put tokenizer.json or vocab.txt next to",
    ),
    "a broken tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text("{"),
        CheckpointError,
        "the tokenizer cannot be read",
    ),
    "a file cut off": (
        lambda folder: cut_off(folder / "model.safetensors"),
        CheckpointError,
        "model.safetensors",
    ),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        CheckpointError,
        "the folder contains no checkpoint",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_does_not_fit_is_refused(tmp_path: Path, what: str) -> None:
    change, kind, says = BROKEN[what]
    berts.write(tmp_path)
    change(tmp_path)
    with pytest.raises(kind) as caught:
        load_checkpoint(tmp_path)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_class_that_the_checkpoint_is_not_is_refused(tmp_path: Path) -> None:
    berts.write(tmp_path)
    with pytest.raises(ModelError, match="bert has no class 'BertForPoetry'"):
        load_checkpoint(tmp_path, "BertForPoetry")
    with pytest.raises(CheckpointError, match="does not fit BertForMaskedLM"):
        load_checkpoint(tmp_path, "BertForMaskedLM")


def test_a_missing_or_remote_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no such checkpoint"):
        load_checkpoint(tmp_path / "none")
    with pytest.raises(UsageError, match="a model can only be run from local files"):
        load_checkpoint("https://example.org/model.safetensors")


def test_a_file_of_weights_is_read_with_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = berts.write(tmp_path)
    shutil.copy(tmp_path / "model.safetensors", tmp_path / "other.safetensors")
    monkeypatch.chdir(tmp_path)
    loaded = load_checkpoint("other.safetensors")
    assert torch.equal(loaded.model.pooler.dense.weight, reference.pooler.dense.weight)


def test_texts_become_tokens_as_transformers_makes_them(tmp_path: Path) -> None:
    from transformers import BertTokenizerFast

    berts.write(tmp_path, max_position_embeddings=12)
    tokens = Tokens(str(tmp_path), len(berts.WORDS), 12)
    theirs = BertTokenizerFast(str(tmp_path / "vocab.txt"))
    pairs = [
        ("The cat sats on the mat.", None),
        ("我爱自然语言处理。", "好"),
        ("a " * 40, None),
        ("a b c 😀", "It raining!"),
    ]
    for text, second in pairs:
        ours = tokens.read(text, second)
        expected = theirs(text, second, truncation=True, max_length=12)
        assert list(ours.ids) == expected["input_ids"]
        assert list(ours.segments) == expected["token_type_ids"]
    cut = tokens.read("a " * 40)
    assert (len(cut.ids), cut.left_out) == (12, 30)
    assert cut.notes == ["the text is longer than the 12 positions; tokens cut off: 30"]
    assert tokens.read("a b 😀").notes == [
        "tokens that are not in the vocabulary and become [UNK]: 1"
    ]
    for wrong in ("", " \n", "\ud800"):
        with pytest.raises(UsageError):
            tokens.read(wrong)


def test_settings_of_a_vocabulary_hold(tmp_path: Path) -> None:
    berts.write_vocabulary(tmp_path, [*berts.WORDS, "Cat"])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    assert Tokens(str(tmp_path), 99, 16).read("Cat cat").tokens == ("[CLS]", "Cat", "cat", "[SEP]")


def test_an_unknown_attention_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no such attention \(attention = 'spda'\)\. Use sdpa or eager\."
    ):
        load_checkpoint(tmp_path, attention="spda")
