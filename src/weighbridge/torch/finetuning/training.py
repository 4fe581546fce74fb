"""The steps of a run: forward, backward, clip, AdamW; then evaluations and checkpoints."""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from weighbridge.errors import WeighbridgeError
from weighbridge.torch.finetuning.checkpoint import Checkpoint
from weighbridge.torch.finetuning.scores import scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor, nn

    from weighbridge.torch.finetuning.plan import Plan
    from weighbridge.torch.finetuning.processes import Processes
    from weighbridge.torch.finetuning.settings import Settings
    from weighbridge.torch.tokens import Text, Tokens

    Watch = Callable[[int, float, dict[str, Any] | None], None]

_EVALUATED = 64  # texts per evaluation batch
_HIGHER = {"f1": 1, "loss": -1}  # the direction of improvement


class Part(NamedTuple):
    """Tokenized texts, and the numbers of their classes."""

    texts: list[Text]
    classes: list[int]


class Stopped(KeyboardInterrupt):
    """The user stopped the run; the checkpoint of the last step has been written."""


class Training:
    """A run: the model, its state, and the methods that advance it.

    ``state`` is everything besides tensors that a step depends on. ``save`` is called with a
    `Checkpoint`; ``watch`` is called after each step, with its loss and, if there was one, the
    result of an evaluation. ``class_weights`` multiply the loss of the texts of each class.
    """

    def __init__(
        self,
        model: nn.Module,
        tokens: Tokens,
        plan: Plan,
        settings: Settings,
        processes: Processes,
        class_weights: Sequence[float] | None = None,
    ) -> None:
        self.model = model.to(processes.device)
        self.tokens, self.plan, self.settings, self.processes = tokens, plan, settings, processes
        self.class_weights: Tensor | None = None
        if class_weights:
            self.class_weights = torch.tensor(class_weights, device=processes.device)
        self.parameters = dict(model.named_parameters())
        self.optimizer = _optimizer(self.parameters, settings)
        self.state: dict[str, Any] = {
            "step": 0,
            "losses": [],
            "history": [],
            "seconds": 0.0,
            "is_over": False,
        }
        self.best: dict[str, Tensor] = {}

    # State

    def checkpoint(self) -> Checkpoint:
        """Return the current state of the run."""
        tensors = {f"model.{name}": of for name, of in self.parameters.items()}
        for name, parameter in self.parameters.items():
            moments = self.optimizer.state.get(parameter)
            if moments:
                tensors |= {
                    f"first.{name}": moments["exp_avg"],
                    f"second.{name}": moments["exp_avg_sq"],
                }
        return Checkpoint(
            self.state, tensors | {f"best.{name}": of for name, of in self.best.items()}
        )

    def resume(self, checkpoint: Checkpoint) -> None:
        """Restore the state of a checkpoint."""
        self.state = checkpoint.state
        first, second = checkpoint.part("first"), checkpoint.part("second")
        with torch.no_grad():
            for name, stored in checkpoint.part("model").items():
                self.parameters[name].copy_(stored)
        for name, parameter in self.parameters.items():
            if name in first:
                self.optimizer.state[parameter] = {
                    "step": torch.tensor(float(self.state["step"]), device=self.processes.device),
                    "exp_avg": first[name].to(parameter.device),
                    "exp_avg_sq": second[name].to(parameter.device),
                }
        self.best = checkpoint.part("best")

    @property
    def besides(self) -> list[Tensor]:
        """The tensors that exist all the time in addition to the model: moments, best weights."""
        tensors = []
        for moments in self.optimizer.state.values():
            tensors += [moments["exp_avg"], moments["exp_avg_sq"]]
        return [*tensors, *self.best.values()]

    # The steps

    def run(
        self,
        training: Part,
        held: Part,
        labels: Sequence[str],
        save: Callable[[Checkpoint], None],
        watch: Watch,
    ) -> None:
        """Run to the end of the plan, or until early stopping ends it.

        Raises:
            Stopped: the user stopped it.
            WeighbridgeError: the loss is not a number, or a checkpoint cannot be written.
        """
        began = time.perf_counter() - self.state["seconds"]
        with _listening() as wishes, torch.random.fork_rng(devices=[]):
            while self.state["step"] < self.plan.steps and not self.state["is_over"]:
                is_stopped = self.step(training, is_stopping=bool(wishes))
                step = self.state["step"]
                is_evaluated = self.plan.is_evaluated(step - 1)
                if is_evaluated:
                    self.evaluate(held, labels)
                evaluation = self.state["history"][-1] if is_evaluated else None
                watch(step, self.state["losses"][-1], evaluation)
                self.state["seconds"] = time.perf_counter() - began
                is_due = step % self.settings.checkpoint_every == 0
                if is_stopped or is_evaluated or is_due:
                    self.processes.together(lambda: save(self.checkpoint()))
                if is_stopped:
                    raise Stopped(step)

    def step(self, training: Part, *, is_stopping: bool = False) -> bool:
        """Take one step; return whether any process wants to stop after it."""
        self.model.train()
        step, own = self.state["step"], self.settings.accumulate
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * self.plan.rate(step)
        size, losses = len(self.plan.rows(step)), torch.zeros(1, device=self.processes.device)
        for piece in range(self.processes.rank * own, (self.processes.rank + 1) * own):
            rows = self.plan.piece(step, piece)
            if rows:
                torch.manual_seed(self.plan.dropout_seed(step, piece))
                loss = self._loss(training, rows) / size
                loss.backward()  # type: ignore[no-untyped-call]
                losses += loss.detach()
        stop_requests = torch.full_like(losses, float(is_stopping))
        self.processes.add([*self._gradients(), losses, stop_requests])
        if not math.isfinite(float(losses)):  # the same in all processes
            self.processes.together(self._refuse)
        clip_grad_norm_(self.parameters.values(), self.settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.state["step"] = step + 1
        self.state["losses"].append(float(losses))
        return bool(stop_requests)

    def _refuse(self) -> None:
        values = {"step": self.state["step"] + 1, "learning rate": self.settings.learning_rate}
        hint = "use a smaller --learning-rate, or --precision float32"
        raise WeighbridgeError("the loss is no longer a number", values=values, hint=hint)

    def _gradients(self) -> Iterator[Tensor]:
        """Yield the gradients; zeros if this process had no text of a short batch."""
        for parameter in self.parameters.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            yield parameter.grad

    def _loss(self, part: Part, rows: Sequence[int]) -> Tensor:
        """Return the sum of the losses of some texts."""
        truth = torch.tensor([part.classes[row] for row in rows], device=self.processes.device)
        logits = self._logits([part.texts[row] for row in rows])
        losses = functional.cross_entropy(logits, truth, reduction="none")
        if self.class_weights is not None:
            losses = losses * self.class_weights[truth]
        return losses.sum()

    def _logits(self, texts: Sequence[Text]) -> Tensor:
        device = self.processes.device
        is_mixed = self.settings.precision == "bfloat16"
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=is_mixed):
            logits: Tensor = self.model(*self.tokens.batch(texts).to(device)).logits
        return logits.float()

    # The held-out texts

    def evaluate(self, held: Part, labels: Sequence[str]) -> None:
        """Evaluate the model on the held-out texts, keep the best weights, decide on stopping."""
        history = self.state["history"]
        since = history[-1]["step"] if history else 0
        losses = self.state["losses"][since:]
        found = scores(self.logits(held), held.classes, labels)
        entry = {"step": self.state["step"], "training_loss": sum(losses) / len(losses), **found}
        history.append(entry)
        if self.settings.patience is None:
            return
        way, watched = _HIGHER[self.settings.watch], self.settings.watch
        best = max(history, key=lambda of: way * of[watched])  # the first of equals
        if best is entry:
            self.best = {name: of.detach().clone() for name, of in self.parameters.items()}
        self.state["is_over"] = len(history) - 1 - history.index(best) >= self.settings.patience

    def logits(self, part: Part) -> Tensor:
        """Return the scores of texts, (texts, classes); each process computes its share of them."""
        self.model.eval()
        order = sorted(range(len(part.texts)), key=lambda row: len(part.texts[row].ids))
        batches = [order[first : first + _EVALUATED] for first in range(0, len(order), _EVALUATED)]
        found: Tensor | None = None
        with torch.no_grad():
            for rows in batches[self.processes.rank :: self.processes.count] or [order[:1]]:
                logits = self._logits([part.texts[row] for row in rows])
                if found is None:
                    found = logits.new_zeros(len(order), logits.shape[1])
                found[rows] = logits
        assert found is not None  # noqa: S101  # there is at least one text
        if self.processes.rank >= len(batches):
            found.zero_()  # there are fewer batches than processes
        self.processes.add([found])
        return found.cpu()

    def take_best(self) -> dict[str, Any]:
        """Load the weights to keep: the best ones if early stopping is on.

        Returns:
            Their evaluation.
        """
        history: list[dict[str, Any]] = self.state["history"]
        if not self.best:
            return history[-1]
        with torch.no_grad():
            for name, of in self.best.items():
                self.parameters[name].copy_(of)
        way, watched = _HIGHER[self.settings.watch], self.settings.watch
        return max(history, key=lambda of: way * of[watched])


def balanced_weights(classes: Sequence[int], count: int) -> list[float]:
    """Return the weight of each class that gives all classes the same sum; the mean text has 1.

    This is the rule of scikit-learn's ``class_weight="balanced"``.

    Example:
        >>> balanced_weights([0, 0, 0, 1], 2)
        [0.6666666666666666, 2.0]
    """
    texts = Counter(classes)
    return [len(classes) / (count * texts[number]) for number in range(count)]


def _optimizer(parameters: dict[str, nn.Parameter], settings: Settings) -> torch.optim.AdamW:
    """Return AdamW; vectors (biases and norms) have no weight decay."""
    decaying = [parameter for parameter in parameters.values() if parameter.ndim > 1]
    others = [parameter for parameter in parameters.values() if parameter.ndim <= 1]
    groups = [
        {"params": decaying, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)


@contextlib.contextmanager
def _listening() -> Iterator[list[int]]:
    """Provide a list that records the first Ctrl-C or SIGTERM; a second one ends the process.

    The run finishes its step before it stops.
    """
    wishes: list[int] = []

    def hear(number: int, _: object) -> None:
        if wishes:
            raise KeyboardInterrupt
        wishes.append(number)

    signals = (signal.SIGINT, signal.SIGTERM)
    try:
        before = {number: signal.signal(number, hear) for number in signals}
    except ValueError:  # signals arrive only in the main thread
        before = {}
    try:
        yield wishes
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
