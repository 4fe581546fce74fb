"""Recognises what trainers put around a model's tensors and beside them.

A wrapper adds pieces to the names of tensors (``_orig_mod.``), or a dict around them
(``{"model": …, "optimizer": …}``). `facts/wrappers.toml` lists the pieces and the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    Path = tuple[str, ...]

_DEEPEST = 4  # dicts around a state dict


class Contents(NamedTuple):
    """What the dicts around a state dict show.

    ``within`` is the path of the state dict, with a dot after each key, or empty. ``roles`` has a
    role for each tensor that is not of the model: ``training.optimizer``, ``training.average`` for
    copies of the weights, or ``training.state``.
    """

    within: str
    roles: dict[str, str]


class Unwrapped(NamedTuple):
    """The names of a model's tensors without its wrappers, by their stored names.

    Names without a wrapper are left out. ``wrappers`` are the pieces that were taken off.
    """

    names: dict[str, str]
    wrappers: tuple[str, ...]


def contents_of(paths: Mapping[str, Path]) -> Contents:
    """Separate the model's tensors from those of the training, by the keys that lead to each.

    A dict that is flat has no keys but the names of tensors, so nothing is taken for a wrapper.

    Example:
        >>> paths = [("model", "up.weight"), ("optimizer", "state", "0", "exp_avg"), ("epoch",)]
        >>> contents_of({".".join(path): path for path in paths})
        Contents(within='model.', roles={'optimizer.state.0.exp_avg': 'training.optimizer',
        'epoch': 'training.state'})
    """
    nested = [name for name, path in paths.items() if len(path) > 1]
    roles = {name: "training.optimizer" for name in nested if _is_of_optimizer(paths[name])}
    within: Path = ()
    while nested and len(within) < _DEEPEST:
        key = _key_of_model(_keys_inside(paths, within, roles))
        roles |= _of_training(paths, within, key)
        if key is None:
            break
        within = (*within, key)
    return Contents("".join(f"{key}." for key in within), roles)


def _keys_inside(paths: Mapping[str, Path], within: Path, roles: Mapping[str, str]) -> set[str]:
    """Return the keys of the dicts in a dict, except those that hold the state of an optimizer."""
    depth = len(within)
    return {
        path[depth]
        for name, path in paths.items()
        if len(path) > depth + 1 and path[:depth] == within and name not in roles
    }


def _of_training(paths: Mapping[str, Path], within: Path, key: str | None) -> dict[str, str]:
    """Return the tensors of the training in a dict, each with its role.

    Tensors that lie directly in the dict, and copies of the weights, are only recognised beside a
    model, which is under the ``key``.
    """
    depth, roles = len(within), _roles_of_keys()
    found: dict[str, str] = {}
    for name, path in paths.items():
        if len(path) <= depth or path[:depth] != within or path[depth] == key:
            continue
        role = roles.get(path[depth])
        is_clear = key is not None or (len(path) > depth + 1 and role != "training.average")
        if role and is_clear:
            found[name] = role
    return found


def _key_of_model(keys: Collection[str]) -> str | None:
    """Return the key of the state dict: the only one that is known, or that of the only copy."""
    known = data.read_toml("facts/wrappers.toml")["keys"]
    for kind in ("model", "average"):
        fitting = [key for key in keys if key in known[kind]]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            return None
    return None


def _roles_of_keys() -> dict[str, str]:
    keys: dict[str, list[str]] = data.read_toml("facts/wrappers.toml")["keys"]
    roles = {}
    for kind, of_kind in keys.items():
        if kind != "model":
            roles.update(dict.fromkeys(of_kind, f"training.{kind}"))
    return roles


def _is_of_optimizer(path: Path) -> bool:
    """Return whether a tensor is an optimizer's: ``("state", "0", "exp_avg")``, wherever it is."""
    if len(path) < 3 or "state" not in path[:-2]:
        return False
    return path[-1] in data.read_toml("facts/wrappers.toml")["optimizers"]["entries"]


def role_of_variable(name: str) -> str:
    """Return the role of a variable of TensorFlow that is of the training; else an empty text.

    Example:
        >>> role_of_variable("bert/pooler/dense/kernel/adam_m"), role_of_variable("bert/pooler/w")
        ('training.optimizer', '')
    """
    known = data.read_toml("facts/wrappers.toml")["variables"]
    if name.endswith(tuple(known["endings"])) or known["slots"] in name:
        return "training.optimizer"
    if name in known["state"]:
        return "training.state"
    return ""


def unwrapped(names: Iterable[str], within: str = "") -> Unwrapped:
    """Return the names of a model's tensors without the wrappers of trainers.

    ``within`` is the path of the state dict in the dicts around it; names outside are left alone.

    Example:
        >>> unwrapped(["module._orig_mod.up.weight", "module._orig_mod.up.bias"]).names
        {'module._orig_mod.up.weight': 'up.weight', 'module._orig_mod.up.bias': 'up.bias'}
        >>> unwrapped(["module.up.weight", "down.weight"])
        Unwrapped(names={}, wrappers=())
    """
    known = data.read_toml("facts/wrappers.toml")
    of_model = [name for name in names if name.startswith(within)]
    if not within and not _may_be_wrapped(of_model, known):
        return Unwrapped({}, ())
    wrappers = dict.fromkeys(within.split(".")[:-1])
    bare: dict[str, str] = {}
    for name in of_model:
        pieces = name[len(within) :].split(".")
        kept = [piece for piece in pieces if piece not in known["pieces"]]
        if len(kept) < len(pieces):
            wrappers.update(dict.fromkeys(sorted({*pieces} & known["pieces"].keys())))
        bare[name] = ".".join(kept)
    while around := _around_all(bare.values(), known["around"]):
        wrappers[around] = None
        bare = {name: inner.removeprefix(f"{around}.") for name, inner in bare.items()}
    if len(set(bare.values())) < len(bare) or "" in bare.values():
        return Unwrapped({}, ())
    return Unwrapped(bare, tuple(wrappers))


def _may_be_wrapped(names: Collection[str], known: Mapping[str, Any]) -> bool:
    if _around_all(names, known["around"]):
        return True
    text = ".".join(names)
    return any(piece in text for piece in known["pieces"])


def _around_all(names: Collection[str], around: Iterable[str]) -> str:
    """Return the piece with which all names begin, if it is a wrapper; else an empty text."""
    for piece in around:
        if names and all(name.startswith(f"{piece}.") for name in names):
            return piece
    return ""


def named_wrappers(wrappers: Iterable[str]) -> list[str]:
    """Return wrappers as a text names them, with what writes them.

    Example:
        >>> named_wrappers(["model", "_orig_mod"])
        ['model', '_orig_mod (torch.compile)']
    """
    known = data.read_toml("facts/wrappers.toml")
    writers = {**known["around"], **known["pieces"]}
    texts = []
    for wrapper in wrappers:
        writer = writers.get(wrapper)
        texts.append(f"{wrapper} ({writer})" if writer else wrapper)
    return texts
