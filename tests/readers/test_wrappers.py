"""What trainers write around a model and beside it: wrappers in names, dicts, optimizers, files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from transformers import BertConfig, BertForSequenceClassification, BertModel

import weighbridge as wb
from weighbridge.cli import main
from weighbridge.errors import CheckpointError
from weighbridge.readers import read
from weighbridge.readers.wrappers import contents_of, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    State = dict[str, torch.Tensor]

CONFIG = {
    "model_type": "bert",
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 10,
}
SIZES = {name: size for name, size in CONFIG.items() if name != "model_type"}
MODEL = BertModel(BertConfig(**SIZES))
PARAMETERS = sum(parameter.numel() for parameter in MODEL.parameters())


def trained(model: torch.nn.Module) -> dict[str, Any]:
    """Return the state of an optimizer after a step: about twice the model's parameters."""
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return optimizer.state_dict()


OPTIMIZER = trained(MODEL)


def in_layers(state: State, wrapper: str) -> State:
    """Return a state dict with a wrapper around the model and around each layer."""
    return {
        f"{wrapper}." + name.replace(".attention.", f".{wrapper}.attention."): tensor
        for name, tensor in state.items()
    }


def prefixed(state: State, prefix: str) -> State:
    return {prefix + name: tensor for name, tensor in state.items()}


def nested(state: State) -> dict[str, Any]:
    """Return a state dict as Megatron nests it: a dict for each module."""
    tree: dict[str, Any] = {}
    for name, tensor in state.items():
        *modules, last = name.split(".")
        inner = tree
        for module in modules:
            inner = inner.setdefault(module, {})
        inner[last] = tensor
    return tree


# Each entry: what is saved, and the wrappers that it has.
STATE: State = MODEL.state_dict()
CASES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "torch.compile": (lambda: torch.compile(MODEL, backend="eager").state_dict(), ("_orig_mod",)),
    "a compiled layer": (
        lambda: {
            name.replace("layer.0.", "layer.0._orig_mod."): tensor for name, tensor in STATE.items()
        },
        ("_orig_mod",),
    ),
    "DataParallel": (lambda: torch.nn.DataParallel(MODEL).state_dict(), ("module",)),
    "a compiled DataParallel": (
        lambda: torch.compile(torch.nn.DataParallel(MODEL), backend="eager").state_dict(),
        ("_orig_mod", "module"),
    ),
    "FSDP": (lambda: in_layers(STATE, "_fsdp_wrapped_module"), ("_fsdp_wrapped_module",)),
    "checkpointed layers": (
        lambda: in_layers(STATE, "_checkpoint_wrapped_module"),
        ("_checkpoint_wrapped_module",),
    ),
    "a model and its optimizer": (
        lambda: {"model": STATE, "optimizer": OPTIMIZER, "epoch": 3, "step": torch.tensor(7)},
        ("model",),
    ),
    "an optimizer under another key": (
        lambda: {"model_state_dict": STATE, "adam": OPTIMIZER, "scaler": {"s": torch.ones(1)}},
        ("model_state_dict",),
    ),
    "an averaged copy": (
        lambda: {"state_dict": prefixed(STATE, "module."), "state_dict_ema": STATE},
        ("state_dict", "module"),
    ),
    "only an averaged copy": (lambda: {"params_ema": STATE}, ("params_ema",)),
    "Lightning": (
        lambda: {
            "epoch": 1,
            "state_dict": prefixed(STATE, "model."),
            "optimizer_states": [OPTIMIZER],
            "lr_schedulers": [{"base": torch.ones(2)}],
            "callbacks": {"EMA": {"weights": STATE}},
        },
        ("state_dict",),
    ),
    "DeepSpeed": (
        lambda: {
            "module": STATE,
            "optimizer": None,
            "param_shapes": [{name: tensor.shape for name, tensor in STATE.items()}],
            "ds_config": {"zero_optimization": {"stage": 1}},
        },
        ("module",),
    ),
    "Megatron": (
        lambda: {"model": nested(STATE), "optimizer": {"optimizer": OPTIMIZER}, "iteration": 5},
        ("model",),
    ),
    "an app": (lambda: {"app": {"model": STATE, "optim": OPTIMIZER}}, ("app", "model")),
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps({**CONFIG, "architectures": ["BertModel"]}))
    return path


@pytest.mark.parametrize("case", CASES)
def test_a_wrapped_model_is_counted_verified_and_guessed_as_itself(
    tmp_path: Path, config: Path, case: str
) -> None:
    saved, wrappers = CASES[case]
    path = tmp_path / "saved.pt"
    torch.save(saved(), path)
    found = wb.inspect(path)
    assert found.parameters == PARAMETERS
    assert found.checkpoint.wrappers == wrappers
    assert wrappers[-1] in found.text()
    assert found.bytes == sum(row.bytes for row in read(path).rows), "the state is in the bytes"
    verified = wb.verify(config, path)
    assert (verified.status, verified.comparison.parameters) == (0, PARAMETERS)
    assert "wrapped" in {difference.kind for difference in verified.differences}
    guessed = wb.guess(path)
    assert guessed.best is not None
    assert (guessed.status, guessed.best.class_name) == (0, "BertModel")
    assert guessed.best.sure["hidden_size"] == 8


def test_wrapped_names_in_safetensors_are_the_same(tmp_path: Path, config: Path) -> None:
    for prefix in ("module.", "_orig_mod.", "state_dict.", "module._orig_mod."):
        path = tmp_path / "wrapped.safetensors"
        save_file({prefix + name: tensor.clone() for name, tensor in STATE.items()}, path)
        assert wb.verify(config, path).status == 0, prefix
        assert wb.guess(path).status == 0, prefix
        assert prefix.rstrip(".").split(".") == sorted(wb.inspect(path).checkpoint.wrappers)[::-1]


def test_two_checkpoints_are_compared_without_their_wrappers(tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "plain.pt")
    torch.save(
        {"model": prefixed(STATE, "module."), "optimizer": OPTIMIZER}, tmp_path / "wrapped.pt"
    )
    for before, after in (("plain", "wrapped"), ("wrapped", "plain")):
        assert wb.verify(tmp_path / f"{before}.pt", tmp_path / f"{after}.pt").status == 0


def test_a_missing_tensor_in_wrappers_is_still_missing(tmp_path: Path, config: Path) -> None:
    state = {name: tensor for name, tensor in STATE.items() if name != "pooler.dense.bias"}
    torch.save({"state_dict": prefixed(state, "net.")}, tmp_path / "a.ckpt")
    verified = wb.verify(config, tmp_path / "a.ckpt")
    matter = [difference for difference in verified.differences if difference.matters]
    assert [(each.kind, each.name) for each in matter] == [("missing", "pooler.dense.bias")]


def test_a_head_in_a_lightning_module_is_found(tmp_path: Path) -> None:
    model = BertForSequenceClassification(BertConfig(**SIZES))
    torch.save({"state_dict": prefixed(model.state_dict(), "model.")}, tmp_path / "a.ckpt")
    guessed = wb.guess(tmp_path / "a.ckpt")
    assert (guessed.status, guessed.best and guessed.best.class_name) == (
        0,
        "BertForSequenceClassification",
    )
    fields = tmp_path / "config.json"
    fields.write_text(json.dumps({**CONFIG, "architectures": ["BertForSequenceClassification"]}))
    assert wb.verify(fields, tmp_path / "a.ckpt").status == 0


# What is not a wrapper


def test_a_module_of_the_model_is_not_a_wrapper(tmp_path: Path) -> None:
    state = {"module.up": torch.zeros(2), "head": torch.zeros(3), "optimizer.state.exp_avg": STATE}
    torch.save({**state, "optimizer.state.exp_avg": torch.zeros(5)}, tmp_path / "a.pt")
    found = wb.inspect(tmp_path / "a.pt")
    assert (found.parameters, found.checkpoint.wrappers) == (10, ())


def test_two_models_in_one_dict_are_both_counted(tmp_path: Path) -> None:
    torch.save({"generator": STATE, "discriminator": STATE, "epoch": 1}, tmp_path / "a.pt")
    copies = {name: tensor.clone() for name, tensor in STATE.items()}
    torch.save({"model": STATE, "net": copies, "optimizer": OPTIMIZER}, tmp_path / "b.pt")
    assert wb.inspect(tmp_path / "a.pt").total.tensors == 2 * len(STATE)
    found = wb.inspect(tmp_path / "b.pt")
    assert (found.parameters, found.checkpoint.wrappers) == (2 * PARAMETERS, ())


def test_what_lies_beside_the_model_under_an_unknown_key_is_counted(tmp_path: Path) -> None:
    torch.save({"model": STATE, "head": {"weight": torch.zeros(7)}}, tmp_path / "a.pt")
    assert wb.inspect(tmp_path / "a.pt").parameters == PARAMETERS + 7


def test_names_that_would_be_equal_keep_their_wrappers() -> None:
    assert unwrapped(["_orig_mod.a", "a"]) == ({}, ())
    assert unwrapped(["_orig_mod"]) == ({}, ())


def test_a_tensor_that_an_optimizer_shares_is_the_models(tmp_path: Path) -> None:
    shared = torch.zeros(4)
    state = {"optimizer": {"fp32": [shared]}, "model": {"up": shared, "down": shared}}
    torch.save(state, tmp_path / "a.pt")
    found = wb.inspect(tmp_path / "a.pt")
    assert found.parameters == 4
    assert found.by("tensor")["model.up"].parameters == 4


@pytest.mark.parametrize("kind", ["SGD", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam"])
def test_the_state_of_each_optimizer_alone_has_no_parameters(tmp_path: Path, kind: str) -> None:
    options = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
    module = torch.nn.Linear(3, 2)
    optimizer = getattr(torch.optim, kind)(module.parameters(), **options)
    module(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    torch.save(optimizer.state_dict(), tmp_path / "a.pt")
    found = wb.inspect(tmp_path / "a.pt")
    assert (found.parameters, set(found.by("role"))) == (0, {"training.optimizer"})


def test_keys_are_followed_only_so_far() -> None:
    path = ("model",) * 9 + ("weight",)
    assert contents_of({"a": path}).within == "model." * 4


# Folders of trainers


def test_files_beside_a_model_are_not_part_of_it(tmp_path: Path, config: Path) -> None:
    torch.save(STATE, tmp_path / "pytorch_model.bin")
    torch.save(OPTIMIZER, tmp_path / "optimizer.pt")
    torch.save({"_step_count": 1}, tmp_path / "scheduler.pt")
    torch.save({"cpu": torch.zeros(9)}, tmp_path / "rng_state.pth")
    (tmp_path / "training_args.bin").write_bytes(b"not read")
    assert wb.inspect(tmp_path).parameters == PARAMETERS
    assert wb.verify(config, tmp_path).status == 0
    (tmp_path / "pytorch_model.bin").unlink()
    (tmp_path / "training_args.bin").unlink()
    assert wb.inspect(tmp_path / "optimizer.pt").parameters == 0


def test_the_folder_of_deepspeed_is_its_model_states(tmp_path: Path, config: Path) -> None:
    torch.save({"module": STATE, "ds_version": "0.17"}, tmp_path / "mp_rank_00_model_states.pt")
    for rank in range(2):
        state = {"fp32_flat_groups": [torch.zeros(99)], "base_optimizer_state": OPTIMIZER}
        path = tmp_path / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": state}, path)
        assert wb.inspect(path).parameters == 0
    assert wb.inspect(tmp_path).parameters == PARAMETERS
    assert wb.verify(config, tmp_path).status == 0


def test_the_empty_tensors_of_zero_3_are_said_to_be_empty(tmp_path: Path) -> None:
    empty = {name: torch.zeros(0) for name in STATE}
    torch.save({"module": empty}, tmp_path / "zero_pp_rank_0_mp_rank_00_model_states.pt")
    found = wb.inspect(tmp_path)
    assert found.parameters == 0
    assert f"{len(STATE)} of {len(STATE)} tensors are empty" in found.text()
    torch.save({"module": STATE}, tmp_path / "zero_pp_rank_0_mp_rank_00_model_states.pt")
    assert "are empty" not in wb.inspect(tmp_path).text()


# torch.distributed.checkpoint


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "saved"
    state = {"model": STATE, "optim": OPTIMIZER, "epoch": 3, "note": "text"}
    with pytest.warns(UserWarning, match="single process"):
        dcp.save(state, checkpoint_id=folder, no_dist=True)
    return folder


def test_a_distributed_checkpoint_is_read_from_its_metadata(saved: Path, config: Path) -> None:
    reference = dcp.FileSystemReader(saved).read_metadata().state_dict_metadata
    tensors = {
        name: (tuple(entry.size), str(entry.properties.dtype))
        for name, entry in reference.items()
        if isinstance(entry, dcp.metadata.TensorStorageMetadata)
    }
    found = read(saved)
    named = {"F32": "torch.float32", "I64": "torch.int64"}
    assert {row.name: (row.shape, named[row.dtype]) for row in found.rows} == tensors
    assert found.format == "torch.distributed"
    assert wb.inspect(saved).parameters == PARAMETERS
    assert (wb.verify(config, saved).status, wb.guess(saved).status) == (0, 0)
    os.remove(saved / "__0_0.distcp")
    assert read(saved).rows == found.rows


def test_a_data_file_stands_for_its_folder(saved: Path) -> None:
    assert read(saved / "__0_0.distcp").rows == read(saved).rows
    os.remove(saved / ".metadata")
    with pytest.raises(CheckpointError, match=r"missing: "):
        read(saved / "__0_0.distcp")


def test_a_state_dict_without_a_key_is_read_too(tmp_path: Path, config: Path) -> None:
    with pytest.warns(UserWarning, match="single process"):
        dcp.save(STATE, checkpoint_id=tmp_path / "flat", no_dist=True)
    assert wb.inspect(tmp_path / "flat").parameters == PARAMETERS
    assert wb.verify(config, tmp_path / "flat").status == 0


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_report_names_the_wrappers_and_the_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lang: str
) -> None:
    torch.save({"model": STATE, "optimizer": OPTIMIZER}, tmp_path / "a.pt")
    assert main(["inspect", str(tmp_path / "a.pt"), "--lang", lang, "--by", "tensor"]) == 0
    text = capsys.readouterr().out
    assert {"en": "wrappers of trainers: model", "zh": "略去训练框架加上的外层：model"}[
        lang
    ] in text
    assert {"en": "optimizer state", "zh": "优化器状态"}[lang] in text.replace("\n  ", " ")
    main(["inspect", str(tmp_path / "a.pt"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["parameters"], found["wrappers"]) == (PARAMETERS, ["model"])
    assert found["components"]["training"]["parameters"] == 0
