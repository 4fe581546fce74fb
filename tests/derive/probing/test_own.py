"""Blueprints of a user's own torch modules, compared with the modules on unseen configs.

The tests build the modules themselves, from configs made as users make them, without derivation's
code.
"""

from __future__ import annotations

import contextlib
import io
import random
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from own_models import encoder, factories, frozen, gpt, kinds, llama, moe, plain, vision
from torch import nn

import weighbridge
from weighbridge.derive.derivation import Derived, derive
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.own_configs import Objects, form_of
from weighbridge.derive.probing.symbolic import lift, tree_of
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

torch.set_num_threads(1)

Changes = dict[str, Any]


class Own(NamedTuple):
    """A module: how to derive it, how to build it by hand, and random values for its fields."""

    module: str
    config: str | None
    build: Callable[[Changes], nn.Module]
    draw: Callable[[random.Random], Changes]
    fields: Changes = {}  # noqa: RUF012


def some(dice: random.Random, **choices: list[Any]) -> Changes:
    """Return some of these fields, each with one of its choices."""
    return {name: dice.choice(values) for name, values in choices.items() if dice.random() < 0.6}


def of_attributes(changes: Changes) -> moe.MoEConfig:
    config = moe.MoEConfig()
    for name, value in changes.items():
        setattr(config, name, value)
    return config


def of_gpt(dice: random.Random) -> Changes:
    heads = dice.choice([2, 3, 6, 12])
    changes = {
        "n_head": heads,
        "n_embd": heads * dice.choice([4, 7, 10]),
        "n_kv_head": dice.choice([kv for kv in range(1, heads + 1) if heads % kv == 0]),
    }
    more = some(
        dice,
        vocab_size=[7, 1000],
        block_size=[3],
        n_layer=[1, 2, 7],
        hidden_dim=[5, 11],
        multiple_of=[3, 64],
        bias=[True],
        tie=[False],
    )
    return {**some(dice, **{name: [value] for name, value in changes.items()}), **more} | (
        {name: changes[name] for name in ("n_head", "n_embd", "n_kv_head")}
        if dice.random() < 0.7
        else {}
    )


def nested(changes: Changes, inside: str) -> Changes:
    """Return changes as in a config file, with those of one sub-config as an object."""
    own = {
        name.removeprefix(f"{inside}."): value
        for name, value in changes.items()
        if name.startswith(f"{inside}.")
    }
    rest = {name: value for name, value in changes.items() if not name.startswith(f"{inside}.")}
    return {**rest, **({inside: own} if own else {})}


def of_vision(changes: Changes) -> nn.Module:
    return vision.Vision(vision.VisionConfig(**nested(changes, "patch")))


def of_encoder(changes: Changes) -> nn.Module:
    given = nested(changes, "ffn")
    return encoder.Encoder(
        {**encoder.CONFIG, **given, "ffn": {**encoder.CONFIG["ffn"], **given.get("ffn", {})}}
    )


def of_sparse(changes: Changes) -> frozen.SparseConfig:
    given = nested({"vocab_size": 40, **changes}, "experts")
    return frozen.SparseConfig(
        **{**given, "experts": frozen.Experts(**{"hidden": 24, **given.get("experts", {})})}
    )


def named(changes: Changes) -> Changes:
    """Return arguments with tuples for lists, and the members of the enumeration."""
    arguments = {
        name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()
    }
    if "norm" in arguments:
        arguments["norm"] = factories.Norm[arguments["norm"]]
    return arguments


def stack(changes: Changes) -> nn.Module:
    given = nested({"block.width": 16, **changes}, "block")
    block = factories.Block(**named(given.pop("block")))
    return factories.Stack(block, **given, norm_class=nn.BatchNorm1d)


OWN = {
    "dataclass": Own(
        "own_models.gpt:GPT",
        "own_models.gpt:GPTConfig",
        lambda changes: gpt.GPT(gpt.GPTConfig(**changes)),
        of_gpt,
    ),
    "plain class": Own(
        "own_models.moe:MoE",
        "own_models.moe:MoEConfig",
        lambda changes: moe.MoE(of_attributes(changes)),
        lambda dice: some(
            dice,
            vocab=[3],
            dim=[8, 20],
            n_layers=[1, 5, 9],
            heads=[1, 2],
            ffn=[7],
            first_dense=[0, 3, 8],
            moe_every=[1, 3, 4],
            experts=[1, 2, 5],
            expert_ffn=[9],
            shared_experts=[0, 2],
            qk_norm=[True],
        ),
    ),
    "pydantic": Own(
        "own_models.vision:Vision",
        "own_models.vision:VisionConfig",
        of_vision,
        lambda dice: some(
            dice,
            image=[64, 16],
            width=[8, 52],
            depth=[1, 6],
            heads=[1, 2],
            ratio=[2.0, 2.75, 3.3],
            registers=[1, 5],
            drop_path=[0.0],
            **{"patch.size": [4, 16], "patch.channels": [1], "patch.norm": [True]},
        ),
    ),
    "dict": Own(
        "own_models.encoder:Encoder",
        "own_models.encoder:CONFIG",
        of_encoder,
        lambda dice: some(
            dice,
            vocab_size=[9],
            emb_dim=[5, 33],
            n_layers=[1, 8],
            qkv_bias=[True],
            **{"ffn.hidden": [3, 90], "ffn.gated": [True], "ffn.act": ["relu"]},
        ),
    ),
    "frozen dataclass": Own(
        "own_models.frozen:Sparse",
        "own_models.frozen:SparseConfig",
        lambda changes: frozen.Sparse(of_sparse(changes)),
        lambda dice: some(
            dice,
            vocab_size=[5],
            width=[3, 30],
            layers=[1, 2, 6],
            **{
                "experts.number": [1, 7],
                "experts.hidden": [2],
                "experts.every": [[0], [2, 3], [0, 1, 5]],
            },
        ),
        {"vocab_size": 40},
    ),
    "arguments": Own(
        "own_models.plain:TorchEncoder",
        None,
        lambda changes: plain.TorchEncoder(**{"n_tokens": 70, **changes}),
        lambda dice: some(
            dice, n_tokens=[9], d_model=[8, 48], n_head=[1, 2], i=[1, 5], ff=[3], norm_first=[True]
        ),
        {"n_tokens": 70},
    ),
    "kept otherwise": Own(
        "own_models.plain:Kept",
        "own_models.plain:Sizes",
        lambda changes: plain.Kept(plain.Sizes(**changes)),
        lambda dice: some(dice, d=[3, 40], layers=[1, 7, 10], vocab=[1, 64, 65], pad_to=[1, 3, 64]),
    ),
    "truth by identity": Own(
        "own_models.plain:Exact",
        None,
        lambda changes: plain.Exact(**changes),
        lambda dice: some(dice, width=[1, 9], wide=[False]),
    ),
    "null for a number": Own(
        "own_models.llama:Transformer",
        "own_models.llama:ModelArgs",
        lambda changes: llama.Transformer(llama.ModelArgs(**changes)),
        lambda dice: some(
            dice,
            dim=[16, 72],
            n_layers=[1, 4],
            n_heads=[2, 8],
            n_kv_heads=[1, 2],
            vocab_size=[9],
            multiple_of=[1, 32],
            ffn_dim_multiplier=[1.3, 0.5, 2],
        ),
    ),
    "factory that passes keywords on": Own(
        "own_models.factories:small_tower",
        None,
        lambda changes: factories.small_tower(**named(changes)),
        lambda dice: some(
            dice,
            width=[8, 20],
            pool=["mean"],
            classes=[1, 7],
            hidden=[5, 24],
            heads=[1, 2],
            head_size=[8, 16, 3],
            norm=["RMS", "NONE"],
        ),
    ),
    "base class that gets keywords": Own(
        "own_models.factories:WideTower",
        None,
        lambda changes: factories.WideTower(**named({"depths": [2, 1], **changes})),
        lambda dice: some(
            dice, depths=[[1, 1], [3, 1], [1, 2, 1]], heads=[1, 3], head_size=[32, 5], hidden=[4]
        ),
        {"depths": [2, 1]},
    ),
    "a module as argument": Own(
        "own_models.factories:Stack",
        None,
        stack,
        lambda dice: some(
            dice,
            number=[1, 5],
            **{"block.width": [8, 24], "block.heads": [1, 3], "block.norm": ["RMS", "NONE"]},
        ),
        {
            "block": "own_models.factories:Block",
            "block.width": 16,
            "norm_class": "torch.nn:BatchNorm1d",
        },
    ),
    "tensors that move": Own(
        "own_models.factories:Rotated",
        None,
        lambda changes: factories.Rotated(**changes),
        lambda dice: some(dice, width=[1, 30], features=[2, 9]),
    ),
    "named tuple, types by name": Own(
        "own_models.plain:Picky",
        "own_models.plain:Shape",
        lambda changes: plain.Picky(plain.Shape(**changes)),
        lambda dice: some(dice, width=[1, 5, 99], bias=[False]),
    ),
}


@cache
def derived(kind: str) -> Derived:
    own = OWN[kind]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        found = derive(OwnSubject(own.module, own.config, own.fields))
    assert output.getvalue() == "", "what the code prints is not the answer"
    return found


def held(module: nn.Module) -> Iterator[tuple[str, tuple[int, ...], str | None]]:
    """Yield the name and shape of every parameter, with the first name if it is tied."""
    first: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        known = first.setdefault(id(parameter), name)
        yield name, tuple(parameter.shape), None if known == name else known


@pytest.mark.sampled(
    "src/weighbridge/derive", "src/weighbridge/blueprint", "src/weighbridge/algebra"
)
@pytest.mark.parametrize("kind", OWN)
def test_a_module_s_blueprint_predicts_what_it_builds_on_unseen_configs(
    kind: str, tmp_path: Path
) -> None:
    own, found = OWN[kind], derived(kind)
    assert (found.exact, found.holes) == (True, [])
    path = tmp_path / "own.toml"
    path.write_text(found.text, encoding="utf-8")
    dice, seen = random.Random(kind), 0  # noqa: S311
    for changes in [{}, *[own.draw(dice) for _ in range(24)]]:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                built = own.build(changes)
        except (AssertionError, ValueError):
            with pytest.raises(WeighbridgeError):
                weighbridge.weigh(path, fields=changes)
            continue
        seen += 1
        weighing = weighbridge.weigh(path, fields=changes)
        assert [(row.name, row.shape, row.tied_to) for row in weighing.rows] == list(held(built))
        assert weighing.parameters == sum(parameter.numel() for parameter in built.parameters())
    assert seen >= 12


def test_a_blueprint_is_written_in_the_module_s_own_names() -> None:
    text = derived("dataclass").text
    assert '"transformer.h.{i}.attn.kv.weight" = "2*n_kv_head*(n_embd//n_head) n_embd"' in text
    assert '"lm_head.weight" = "transformer.wte.weight if tie"' in text
    assert 'n_kv_head = "n_head"' in text, "when left out, it follows from another field"
    assert (
        '"layers.{i}.mlp.experts" = "i >= first_dense and i % moe_every == 0"'
        in derived("plain class").text
    )
    assert (
        '"patch.weight" = "width patch.channels patch.size patch.size"' in derived("pydantic").text
    )
    assert '"embed.weight" = "(vocab+pad_to-1)//pad_to*pad_to d"' in derived("kept otherwise").text


def test_a_field_is_not_mistaken_for_an_index() -> None:
    assert 'j = "i"' in derived("arguments").text, "i is a field there, so it cannot be an index"


def test_deriving_again_gives_the_same_text() -> None:
    derived.cache_clear()
    first = derived("plain class").text
    derived.cache_clear()
    assert derived("plain class").text == first


def test_the_user_s_code_is_left_unchanged() -> None:
    derived("plain class")
    assert "range" not in vars(moe)
    assert "int" not in vars(gpt)


def test_a_class_around_the_base_is_derived_with_it(tmp_path: Path) -> None:
    subject = OwnSubject(
        "own_models.frozen:Sparse", "own_models.frozen:SparseConfig", {"vocab_size": 40}
    )
    found = derive(subject, classes=["SparseClassifier"])
    assert found.exact, found.holes
    path = tmp_path / "sparse.toml"
    path.write_text(found.text, encoding="utf-8")
    assert '[classes.SparseClassifier]\nprefix = "body"' in found.text
    built = frozen.SparseClassifier(of_sparse({"width": 10, "classes": 7}))
    weighing = weighbridge.weigh(path, "SparseClassifier", fields={"width": 10, "classes": 7})
    assert [(row.name, row.shape, row.tied_to) for row in weighing.rows] == list(held(built))


def test_without_a_given_config_the_annotation_names_it() -> None:
    subject = OwnSubject("own_models.moe:MoE")
    assert subject.config_name == "MoEConfig"
    assert subject.source == "own_models.moe:MoE, own_models.moe:MoEConfig"
    assert subject.fields(subject.config({"dim": 8}))["dim"] == 8


@pytest.mark.parametrize(
    ("module", "family"),
    [("a:MyGPTModel", "my_gpt_model"), ("a.b:MoE", "moe"), ("a:ViT", "vit"), ("a:GPT2", "gpt2")],
)
def test_a_family_is_named_after_its_class(module: str, family: str) -> None:
    from weighbridge.derive.running.address import family_of

    assert family_of(module) == family


# Configs


def test_an_object_gives_the_defaults_except_computed_values() -> None:
    form = form_of(gpt.GPTConfig(n_embd=60, n_head=5), lambda _: False)
    assert form is not None
    assert form.stated["n_embd"] == 60
    assert form.stated["n_kv_head"] is None, "it was computed"
    assert form.make({"n_head": 3}).n_kv_head == 3


def test_values_that_a_config_computes_remember_their_sources() -> None:
    form = Objects(plain.Sizes)
    traced = form.make(
        {name: lift(value, ("name", name)) for name, value in {"d": 16, "layers": 4}.items()}
    )
    config = form.make({})
    remembering = form.remember(config, traced, dict(form.fields(config, {})))
    assert tree_of(remembering.wide) == ("*", ("value", 4), ("name", "d"))
    assert tree_of(remembering.depth) == ("name", "layers"), "private, and read through a property"
    assert tree_of(remembering.kinds) == ("name", "kinds")
    assert remembering.wide == 64


def test_a_config_inside_a_config_has_the_defaults_given_there() -> None:
    form = Objects(frozen.SparseConfig)
    assert form.stated["experts.hidden"] == 24
    assert list(form.required()) == ["vocab_size"]
    made = form.make({"vocab_size": 1, "experts.number": 9, "experts.every": [0]})
    assert made.experts == frozen.Experts(number=9, hidden=24, every=(0,))


def test_a_dict_is_not_changed_by_building_configs_from_it() -> None:
    subject = OwnSubject("own_models.encoder:Encoder", "own_models.encoder:CONFIG")
    subject.config({"ffn.hidden": 3}).config["ffn"]["act"] = "other"
    assert encoder.CONFIG["ffn"] == {"hidden": 48, "gated": False, "act": "gelu"}


# Values of other kinds than derivation draws

OTHER_KINDS = {
    "Indexed": [{"extra": {"size": 100}}, {"extra": {"size": 8}, "width": 16}],
    "Listed": [{"sizes": [5, 6]}, {"sizes": [5]}],
    "Asking": [{"extra": {"size": 100}}, {"extra": [1, 2]}, {"extra": 5}],
    "Trying": [{"extra": {"size": 100}}, {"extra": 5}],
    "Gathering": [{"options": {"size": 100}}, {"options": 5}],
    "Open": [{"options": {"out": 3}}, {"options.out": 3}],
}


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_a_value_of_another_kind_is_counted_right_or_refused(name: str, tmp_path: Path) -> None:
    found = derive(OwnSubject(f"own_models.kinds:{name}"))
    assert found.exact, found.holes
    path = tmp_path / "own.toml"
    path.write_text(found.text, encoding="utf-8")
    assert weighbridge.weigh(path, fields={"width": 5}).parameters == 30
    for values in OTHER_KINDS[name]:
        given = {"options": {"out": 3}} if "options.out" in values else values
        built = getattr(kinds, name)(**given)
        try:
            total = weighbridge.weigh(path, fields=values).parameters
        except WeighbridgeError as error:
            refusal = str(error)
            assert "--via transformers" not in refusal, "it is no model of transformers"
            continue
        assert total == sum(parameter.numel() for parameter in built.parameters()), values


def test_the_refusal_of_another_kind_says_what_was_tried(tmp_path: Path) -> None:
    path = tmp_path / "asking.toml"
    path.write_text(derive(OwnSubject("own_models.kinds:Asking")).text, encoding="utf-8")
    with pytest.raises(WeighbridgeError) as caught:
        weighbridge.weigh(path, fields={"extra": {"size": 100}})
    assert str(caught.value) == (
        f"{path}: extra was not tried with an object when asking was derived "
        "(extra = an object of 1). Build the module and count it with weighbridge.weigh(module)."
    )
    assert "tried" not in weighbridge.weigh("bert").model.blueprint._raw, "for strangers' code only"


# What cannot be derived

REFUSED = {
    "no address": (
        ("own_models.gpt", None),
        "own_models.gpt: is not the address of a class. Write own_models.gpt:Class",
    ),
    "a path": (("own_models/gpt.py:GPT", None), "Write own_models.gpt:GPT, as in a Python import"),
    "no module": (("own_modles.gpt:GPT", None), "there is no module own_modles"),
    "no such module in it": (("own_models.gtp:GPT", None), "there is no module own_models.gtp"),
    "no such class": (
        ("own_models.gpt:Blok", None),
        "own_models.gpt has no attribute Blok. Did you mean Block?",
    ),
    "a factory of something else": (
        ("own_models.factories:no_tower", None),
        "own_models.factories:no_tower: does not return a torch.nn.Module (found = 'list')",
    ),
    "a module is missing": (
        ("own_models.factories:Stack", None),
        "Give a module by its address, --set block=package.module:Class",
    ),
    "no torch module": (("own_models.gpt:GPTConfig", None), "is not a torch.nn.Module class"),
    "no config": (
        ("own_models.strange:NeedsMore", "own_models.strange:NUMBER"),
        "is not a config (found = 3)",
    ),
    "a module as config": (("own_models.gpt:GPT", "own_models.moe:MoE"), "is not a config"),
    "more than a config": (
        ("own_models.strange:NeedsMore", "own_models.strange:CONFIG"),
        "NeedsMore needs index besides config",
    ),
    "no default": (
        ("own_models.plain:TorchEncoder", None),
        "TorchEncoder has no default for n_tokens. Give --set",
    ),
    "no default in a config": (
        ("own_models.frozen:Sparse", "own_models.frozen:SparseConfig"),
        "SparseConfig has no default for vocab_size. Give --set vocab_size=….",
    ),
    "no such field": (
        ("own_models.gpt:GPT", "own_models.gpt:GPTConfig", {"n_hed": 3}),
        "GPTConfig has no field n_hed. Did you mean n_head?",
    ),
    "a config that raises": (
        ("own_models.gpt:GPT", "own_models.gpt:GPTConfig", {"n_head": 7}),
        "own_models.gpt:GPT: building it raised AssertionError (gpt.py:",
    ),
    "a constructor that raises": (
        ("own_models.strange:Raises", None),
        (
            "building it raised RuntimeError: "
            "no GPU for width 8 \N{REPLACEMENT CHARACTER}[31m (strange.py:"
        ),
    ),
    "a constructor that exits": (
        ("own_models.strange:Exits", None),
        "raised RuntimeError: it exited Python: no licence",
    ),
    "nothing in it": (("own_models.strange:Empty", None), "holds no parameters"),
    "no name of a family": (
        ("own_models.gpt:GPT", None, {}, "My GPT"),
        "is not a valid family name",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_derived_is_refused_in_one_sentence(case: str) -> None:
    arguments, message = REFUSED[case]
    with pytest.raises(WeighbridgeError) as caught:
        OwnSubject(*arguments)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import nothing_of_that_name",
            "raised ModuleNotFoundError: No module named 'nothing_of_that_name'",
        ),
        ("1 / 0", "importing broken raised ZeroDivisionError: division by zero (broken.py:1)"),
        ("class", "importing broken raised SyntaxError: invalid syntax"),
        ("raise SystemExit(4)", "importing broken raised SystemExit: 4"),
    ],
)
def test_a_failed_import_is_reported_with_its_own_message(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    with pytest.raises(WeighbridgeError, match="broken") as caught:
        OwnSubject("broken:Model")
    assert message in str(caught.value)
