"""The order of the steps in a model's layers, found by running it on the meta device.

Every module with tensors of its own is a landmark: its output is known by its role. What happens
between landmarks is followed through all operations; only additions are told apart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import transformers
from torch.overrides import TorchFunctionMode

from weighbridge.blueprint.schema import load

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDITIONS = {"add", "add_", "__add__", "__iadd__", "__radd__"}
INSIDE = {
    "attention": ("attention.query", "attention.qkv", "attention.q_down", "attention.kv_down"),
    "cross_attention": ("cross_attention.query",),
    "ffn": ("ffn.up", "ffn.gate", "ffn.gate_up", "router", "expert.gate_up"),
}
"""The roles that read what goes into a block."""
RESULTS = {
    "attention": ("attention.output",),
    "cross_attention": ("cross_attention.output",),
    "ffn": ("ffn.down", "expert.gate_up", "expert.down"),
}


class Step(NamedTuple):
    """What made a tensor: an operation, and the role and path of a landmark."""

    operation: str
    inputs: list[int]
    role: str = ""
    path: str = ""

    @property
    def is_addition(self) -> bool:
        return not self.role and self.operation in ADDITIONS and len(self.inputs) > 1

    @property
    def is_norm(self) -> bool:
        return self.role.endswith("norm") and self.role.count("_norm") == 0


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield every tensor of nested values."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


class Recorder(TorchFunctionMode):
    """Records what made each tensor; it keeps them all, so that an id stays one tensor's."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[int, Step] = {}
        self.kept: list[torch.Tensor] = []

    def __torch_function__(
        self, function: Any, types: Any, given: Any = (), named: Any = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        if name in ("item", "__bool__", "__int__", "__index__") and given[0].is_meta:
            return name == "__bool__" or 1  # masks are full here
        result = function(*given, **(named or {}))
        inputs = list(tensors_in([given, named or {}]))
        for tensor in tensors_in(result):
            is_new = not any(tensor is given_tensor for given_tensor in inputs)
            if is_new and name not in ("__get__", "__set__"):
                self.note(tensor, Step(name, self.ids(inputs)))
        return result

    def note(self, tensor: torch.Tensor, step: Step) -> None:
        self.kept.append(tensor)
        self.steps[id(tensor)] = step

    def ids(self, inputs: list[torch.Tensor]) -> list[int]:
        self.kept += inputs
        return list(map(id, inputs))


class Run:
    """One run of a family's base class: its landmarks by path, with their inputs and outputs."""

    def __init__(self, family: str, **fields: Any) -> None:
        blueprint = load(family)
        config = transformers.AutoConfig.for_model(family, **fields)
        config._attn_implementation = "eager"
        config._experts_implementation = "batched_mm"
        with torch.device("meta"):
            model = getattr(transformers, blueprint.base_class)(config).eval()
        self.roles = {
            template.name: template.role for template in blueprint.templates(blueprint.base_class)
        }
        self.recorder = Recorder()
        self.read: dict[str, int] = {}
        self.made: dict[str, int] = {}
        self.landmarks = {
            path: self.role_of(path, module) for path, module in model.named_modules() if path
        }
        for path, module in model.named_modules():
            if self.landmarks.get(path):
                module.register_forward_hook(self._hook(path), with_kwargs=True)
        with torch.device("meta"), torch.no_grad(), self.recorder:
            ids = torch.zeros(1, 6, dtype=torch.long)
            if hasattr(config, "patch_size"):
                model(torch.zeros(1, config.num_channels, config.image_size, config.image_size))
            elif config.is_encoder_decoder:
                model(input_ids=ids, decoder_input_ids=ids, use_cache=False)
            else:
                model(input_ids=ids)
        self.readers: dict[int, list[int]] = {}
        for tensor, step in self.recorder.steps.items():
            for given in step.inputs:
                self.readers.setdefault(given, []).append(tensor)

    def role_of(self, path: str, module: torch.nn.Module) -> str:
        """Return the role of a module's own tensors; of experts, the role of the first."""
        for name, _ in module.named_parameters(recurse=False):
            for template, role in self.roles.items():
                if re.fullmatch(
                    re.sub(r"\\\{\w+\\\}", r"\\d+", re.escape(template)), f"{path}.{name}"
                ):
                    return role
        return ""

    def _hook(self, path: str) -> Any:
        def hook(_: Any, given: Any, named: Any, result: Any) -> None:
            inputs = self.recorder.ids(list(tensors_in([given, named])))
            made = next(tensors_in(result))
            step = Step("module", inputs, self.landmarks[path], path)
            if inputs:
                self.recorder.note(made, step)
                self.read.setdefault(path, inputs[0])
                self.made.setdefault(path, id(made))

        return hook

    def origin(self, tensor: int) -> int:
        """Return the landmark, the addition or the beginning that a tensor comes from."""
        while tensor in self.recorder.steps:
            step = self.recorder.steps[tensor]
            known = [given for given in step.inputs if given in self.recorder.steps]
            if step.role or step.is_addition or len(known) != 1:
                return tensor
            tensor = known[0]
        return tensor

    def next_steps(self, tensor: int) -> list[int]:
        """Return the landmarks and additions that read a tensor, directly or not."""
        following: list[int] = []
        open_tensors = list(self.readers.get(tensor, ()))
        while open_tensors:
            reader = open_tensors.pop()
            step = self.recorder.steps[reader]
            if step.role or step.is_addition:
                following.append(reader)
            else:
                open_tensors += self.readers.get(reader, ())
        return list(dict.fromkeys(following))

    def order(self, prefix: str, layer: int) -> str:
        """Return the order of steps in a layer: ``"norm attention add, norm ffn add"``."""
        inside = f"{prefix}{layer}."
        here = {
            role: path
            for path, role in self.landmarks.items()
            if path.startswith(inside) and path in self.read
        }
        blocks = []
        for block, roles in INSIDE.items():
            readers = [here[role] for role in roles if role in here]
            results = [here[role] for role in RESULTS[block] if role in here]
            if readers and results:
                blocks.append(" ".join(self.block(block, readers[0], results[0])))
        return ", ".join(blocks)

    def block(self, block: str, reader: str, result: str) -> list[str]:
        """Return the steps of one block, from what it reads to the end of its addition."""
        steps, start = [block], self.origin(self.read[reader])
        before = self.recorder.steps.get(start)
        stream = start
        if before is not None and before.is_norm:
            stream = self.origin(before.inputs[0])
        tensor, is_added = self.made[result], False
        while following := self.next_steps(tensor):
            tensor = following[0]
            step = self.recorder.steps[tensor]
            if step.is_norm and len(following) == 1 and step.role != "norm.final":
                steps.append("norm")
            elif step.is_addition and not is_added:
                origins = {self.origin(given) for given in step.inputs}
                if stream in origins and stream != start:
                    steps.insert(0, "norm")
                if origins & {stream, start}:
                    steps.append("add")
                    is_added = True
            else:
                break
        return steps

    def input_order(self, prefix: str) -> str:
        """Return what makes up the input of the first layer: ``"token + position | norm"``.

        It is right for tables that are modules of their own.
        """
        roles = {self.landmarks[path]: path for path in self.read if path.startswith(f"{prefix}0.")}
        first = next(roles[role] for role in INSIDE["attention"] if role in roles)
        tensor, steps = self.origin(self.read[first]), []
        while self.recorder.steps[tensor].is_norm or "projection" in self.role_at(tensor):
            role = self.role_at(tensor)
            if role.startswith("embedding."):
                steps.insert(0, role.removeprefix("embedding."))
            tensor = self.origin(self.recorder.steps[tensor].inputs[0])
        tables = sorted(self.summands(tensor), key=_TABLES.index)
        return f"{' + '.join(tables)} | {' '.join(steps)}".strip()

    def role_at(self, tensor: int) -> str:
        return self.recorder.steps[tensor].role

    def summands(self, tensor: int) -> list[str]:
        tensor = self.origin(tensor)
        step = self.recorder.steps[tensor]
        if not step.is_addition:
            return [step.role.removeprefix("embedding.")]
        return [table for given in step.inputs for table in self.summands(given)]


_TABLES = ("token", "position", "segment")
