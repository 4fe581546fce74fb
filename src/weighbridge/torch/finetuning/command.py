"""The work of `weighbridge finetune`: read, split, predict, train, measure, write."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import safetensors
import sklearn
import tokenizers
import torch

from weighbridge import __version__
from weighbridge.answers.finetune import Finetuned, evaluated, forecast
from weighbridge.answers.model_card import model_card
from weighbridge.errors import UsageError, WeighbridgeError, shorten
from weighbridge.torch.finetuning import checkpoint as checkpoints
from weighbridge.torch.finetuning import progress
from weighbridge.torch.finetuning.plan import Plan, plan_of
from weighbridge.torch.finetuning.prediction import Prediction, measure_piece, predict
from weighbridge.torch.finetuning.processes import Processes
from weighbridge.torch.finetuning.settings import CLASS_WEIGHTS, Settings, check_settings
from weighbridge.torch.finetuning.texts import (
    Choices,
    Example,
    Split,
    read_examples,
    split_examples,
)
from weighbridge.torch.finetuning.training import Part, Stopped, Training, balanced_weights
from weighbridge.torch.loading import load_checkpoint
from weighbridge.torch.tokens import FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from weighbridge.torch.finetuning.training import Watch
    from weighbridge.torch.loading import Loaded

CLASS = "BertForSequenceClassification"


class Prepared(NamedTuple):
    """Everything that is known before the first step."""

    settings: Settings
    parts: Split
    loaded: Loaded
    training: Part
    held_out: Part
    plan: Plan
    fingerprint: dict[str, Any]
    notes: tuple[str, ...]


def finetune(settings: Settings, say: Callable[[str], None], lang: str = "en") -> Finetuned | None:
    """Train a classifier as the settings say, or resume its training, and return the result.

    Of several processes, only the first one reports progress and returns a result.

    Raises:
        WeighbridgeError: the run cannot start or finish; the latest checkpoint is intact.
        KeyboardInterrupt: the user stopped it; the latest checkpoint is from the last step.
    """
    processes = Processes(settings.device)
    try:
        prepared = processes.together(lambda: _prepare(settings, processes))
        report = say if processes.is_first else _silent
        done, begun = processes.broadcast(processes.together(lambda: _opened(prepared, processes)))
        for note in prepared.notes:
            report(f"note: {note}")
        if done:
            report(f"{settings.out}: this run is finished; this is its result")
            return Finetuned(done) if processes.is_first else None
        return _train(prepared, processes, report, lang, begun=begun)
    finally:
        processes.close()


def _silent(_: str) -> None:
    """Report nothing."""


# Preparation


def _prepare(settings: Settings, processes: Processes) -> Prepared:
    """Read all inputs, and check that the run is possible."""
    check_settings(settings, processes.count)
    settings = replace(settings, precision=_precision(settings.precision, processes.device))
    choices = Choices(**{name: getattr(settings, name) for name in Choices._fields})
    data = read_examples(settings.data, choices)
    test = None
    if settings.test:
        test = read_examples(settings.test, choices)
    parts = split_examples(data, test, settings.held_out, settings.seed)
    loaded = load_checkpoint(settings.start, CLASS, labels=parts.labels, seed=settings.seed)
    training = _part(parts.training, parts.labels, loaded, settings)
    held_out = _part(parts.held_out, parts.labels, loaded, settings)
    plan = plan_of(settings, len(training.texts), processes.count)
    fingerprint = _fingerprint(
        settings, plan, parts.labels, loaded, (training, held_out), processes
    )
    notes = (
        *parts.notes,
        *_unequal_notes(training.classes, parts.labels, settings),
        *loaded.notes,
        *_cut_notes((training, held_out), settings.max_length),
    )
    return Prepared(settings, parts, loaded, training, held_out, plan, fingerprint, notes)


def _opened(prepared: Prepared, processes: Processes) -> tuple[dict[str, Any] | None, bool]:
    """Prepare the folder, in the first process, and return what it has of this run."""
    if not processes.is_first:
        return None, False
    out, overwrite = Path(prepared.settings.out), prepared.settings.overwrite
    return checkpoints.open_folder(out, prepared.fingerprint, overwrite=overwrite)


def _precision(named: str, device: torch.device) -> str:
    if named != "auto":
        return named
    return "bfloat16" if device.type == "cuda" else "float32"


def _part(
    examples: Sequence[Example], labels: Sequence[str], loaded: Loaded, settings: Settings
) -> Part:
    numbers = {label: number for number, label in enumerate(labels)}
    texts = loaded.tokens.read_all(
        [(of.text, None) for of in examples], longest=settings.max_length
    )
    return Part(texts, [numbers[of.label] for of in examples])


def _cut_notes(parts: Sequence[Part], longest: int) -> list[str]:
    """Return a note on the number of texts that are cut off, if any."""
    count = sum(len(part.texts) for part in parts)
    cut = 0
    for part in parts:
        cut += sum(text.left_out > 0 for text in part.texts)
    if not cut:
        return []
    return [f"{cut:,} of {count:,} texts are longer than {longest} tokens and are cut off"]


_UNEQUAL = 3  # times as many texts as the smallest class: F1 and accuracy begin to differ


def _unequal_notes(
    classes: Sequence[int], labels: Sequence[str], settings: Settings
) -> Iterator[str]:
    """Yield a note if some class has far fewer training texts than another, and equal weight."""
    (most, texts), *_, (least, fewest) = Counter(classes).most_common()
    if settings.class_weights == CLASS_WEIGHTS[0] and texts >= _UNEQUAL * fewest:
        names = shorten(labels[most]), shorten(labels[least])
        yield (
            f"the classes are unequal: {texts:,} training texts of {names[0]}, {fewest:,} of "
            f"{names[1]}; --class-weights balanced counts every class alike"
        )


# The settings that decide the weights: two runs that agree in them give the same weights.
_DECIDING = (
    "epochs",
    "steps",
    "batch",
    "learning_rate",
    "warmup",
    "weight_decay",
    "clip",
    "max_length",
    "patience",
    "watch",
    "class_weights",
    "seed",
    "precision",
)


def _fingerprint(
    settings: Settings,
    plan: Plan,
    labels: Sequence[str],
    loaded: Loaded,
    parts: Sequence[Part],
    processes: Processes,
) -> dict[str, Any]:
    """Return everything that decides the weights of a run."""
    weights, data = hashlib.sha256(), hashlib.sha256()
    for name, tensor in loaded.model.state_dict().items():
        weights.update(name.encode() + tensor.numpy().tobytes())
    for part in parts:
        data.update(json.dumps([[text.ids for text in part.texts], part.classes]).encode())
    return {
        **{name: getattr(settings, name) for name in _DECIDING},
        "pieces": plan.pieces,
        "labels": list(labels),
        "checkpoint": weights.hexdigest(),
        "data": data.hexdigest(),
        "device": processes.device.type,
        "versions": {
            "weighbridge": __version__,
            **{
                of.__name__: str(of.__version__) for of in (torch, safetensors, tokenizers, sklearn)
            },
        },
    }


# The run


def _train(
    prepared: Prepared,
    processes: Processes,
    report: Callable[[str], None],
    lang: str,
    *,
    begun: bool,
) -> Finetuned | None:
    loaded, plan, out = prepared.loaded, prepared.plan, Path(prepared.settings.out)
    lengths = [len(text.ids) for text in prepared.training.texts]
    predicted, heaviest, notes = predict(
        loaded.of,
        CLASS,
        lengths,
        plan,
        keeps_best=prepared.settings.patience is not None,
        is_mixed=prepared.settings.precision != "float32",
    )
    for note in notes:
        report(f"note: {note}")
    report(forecast(predicted._asdict(), _run_of(prepared, processes), lang))
    weights = _class_weights(prepared)
    training = Training(loaded.model, loaded.tokens, plan, prepared.settings, processes, weights)
    if begun:
        processes.together(lambda: _resume(training, out, report))

    def save(checkpoint: checkpoints.Checkpoint) -> None:
        if processes.is_first:
            own = {"threads": torch.get_num_threads(), "fingerprint": prepared.fingerprint}
            state = {**checkpoint.state, **own}
            checkpoints.write_checkpoint(out, checkpoint._replace(state=state))

    is_cuda = processes.device.type == "cuda"
    if is_cuda:
        torch.cuda.reset_peak_memory_stats(processes.device)
    watching = _watching(plan.steps, training.state["step"], processes, report, lang)
    with _ending_well(prepared, processes), watching as watch:
        training.run(prepared.training, prepared.held_out, prepared.parts.labels, save, watch)
    if not processes.is_first:
        return None
    kept = training.take_best()
    peak_bytes = torch.cuda.max_memory_allocated(processes.device) if is_cuda else None
    measured = measure_piece(training.model, heaviest, training.besides, peak_bytes)
    result = _result(prepared, processes, (predicted, measured), training, kept)
    return _write(prepared, training, result, lang)


def _resume(training: Training, out: Path, report: Callable[[str], None]) -> None:
    """Resume from the checkpoint."""
    checkpoint = checkpoints.read_checkpoint(out)
    if checkpoint is None:
        hint = "use an --out folder that all processes share"
        raise UsageError(
            "not every process can read the checkpoint", where=os.fspath(out), hint=hint
        )
    training.resume(checkpoint)
    report(f"{out}: resuming after step {training.state['step']:,} of {training.plan.steps:,}")
    threads, now = training.state["threads"], torch.get_num_threads()
    if threads != now:
        report(
            f"note: started with {threads} threads and resumed with {now}: "
            "the last bits of the weights may differ"
        )


@contextmanager
def _ending_well(prepared: Prepared, processes: Processes) -> Iterator[None]:
    """Explain how to resume if the steps end early."""
    try:
        yield
    except Stopped as stopped:
        if not processes.is_first:
            raise SystemExit(130) from None
        progress = f"stopped after step {stopped.args[0]:,} of {prepared.plan.steps:,}"
        where = f"{prepared.settings.out}: {progress}"
        raise KeyboardInterrupt(f"{where}; the same command resumes there") from None
    except RuntimeError as error:
        if "out of memory" not in str(error) and "allocate memory" not in str(error):
            raise
        values = {"batch": prepared.plan.batch, "pieces": prepared.plan.pieces}
        hint = "use a smaller --batch, or a larger --accumulate"
        raise WeighbridgeError(
            "there is not enough memory for a step", values=values, hint=hint
        ) from None


def _class_weights(prepared: Prepared) -> list[float] | None:
    if prepared.settings.class_weights == CLASS_WEIGHTS[0]:
        return None
    return balanced_weights(prepared.training.classes, len(prepared.parts.labels))


def _watching(
    steps: int, done: int, processes: Processes, report: Callable[[str], None], lang: str
) -> AbstractContextManager[Watch]:
    """Return what shows the progress: on a terminal, elsewhere, or nowhere."""
    if not processes.is_first:
        return progress.silent()
    evaluation = partial(_report_evaluation, report, steps, lang)
    if sys.stderr is not None and sys.stderr.isatty():
        return progress.as_bar(steps, done, evaluation)
    return progress.in_lines(steps, done, evaluation, report)


def _report_evaluation(
    report: Callable[[str], None], steps: int, lang: str, step: int, found: dict[str, Any]
) -> None:
    report(evaluated(step, steps, found, lang))


def _run_of(prepared: Prepared, processes: Processes) -> dict[str, Any]:
    """Return the description of a run."""
    plan = prepared.plan
    return {
        "start": prepared.settings.start,
        "out": prepared.settings.out,
        "training_texts": len(prepared.training.texts),
        "held_out_texts": len(prepared.held_out.texts),
        "labels": list(prepared.parts.labels),
        "steps": plan.steps,
        "steps_of_epoch": plan.steps_of_epoch,
        "batch": plan.batch,
        "pieces": plan.pieces,
        "processes": processes.count,
        "threads": torch.get_num_threads(),
        "device": processes.device.type,
        "precision": prepared.settings.precision,
        "is_held_out_from": prepared.settings.test or "",
    }


# Results


def _result(
    prepared: Prepared,
    processes: Processes,
    weighed: tuple[Prediction, dict[str, Any]],
    training: Training,
    kept: dict[str, Any],
) -> dict[str, Any]:
    """Return the complete result of a run, ready for JSON."""
    state = training.state
    return {
        "run": _run_of(prepared, processes),
        "data": prepared.parts.sources,
        "split": _split_of(prepared),
        "settings": {name: getattr(prepared.settings, name) for name in _DECIDING},
        "predicted": weighed[0]._asdict(),
        "measured": {**weighed[1], "seconds": state["seconds"], "steps": state["step"]},
        "scores": {name: of for name, of in kept.items() if name not in ("step", "training_loss")},
        "kept_step": kept["step"],
        "is_chosen": prepared.settings.patience is not None,
        "history": state["history"],
        "losses": state["losses"],
        "notes": list(prepared.notes),
        "fingerprint": prepared.fingerprint,
    }


def _split_of(prepared: Prepared) -> dict[str, Any]:
    """Return the number of training and held-out texts of each class, and the weights of these."""
    labels, parts = prepared.parts.labels, (prepared.training, prepared.held_out)
    counts = [Counter(part.classes) for part in parts]
    weights = _class_weights(prepared) or [1.0] * len(labels)
    return {
        "share": None if prepared.settings.test else prepared.settings.held_out,
        "training": {label: counts[0][number] for number, label in enumerate(labels)},
        "held_out": {label: counts[1][number] for number, label in enumerate(labels)},
        "class_weights": dict(zip(labels, weights, strict=True)),
    }


def _write(prepared: Prepared, training: Training, result: dict[str, Any], lang: str) -> Finetuned:
    """Write a folder that loads like any checkpoint; the file that marks it finished comes last."""
    out, source = Path(prepared.settings.out), Path(prepared.loaded.where)
    checkpoints.write_tensors(out / checkpoints.WEIGHTS, training.parameters, format="pt")
    checkpoints.write_json(out / "config.json", _config_of(prepared))
    for name in FILES:
        if (source / name).exists():
            checkpoints.write_file(out / name, partial(shutil.copyfile, source / name))
    checkpoints.write_text(out / checkpoints.CARD, model_card(result, lang))
    checkpoints.write_json(out / checkpoints.RESULT, result)
    (out / checkpoints.FILE).unlink(missing_ok=True)
    return Finetuned(result)


def _config_of(prepared: Prepared) -> dict[str, Any]:
    """Return the checkpoint's config with the trained class and its labels."""
    config, labels = prepared.loaded.of.config, prepared.parts.labels
    left_out = ("_name_or_path", "num_labels", "torch_dtype")
    return {
        **{name: value for name, value in config.items() if name not in left_out},
        "architectures": [CLASS],
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
        "problem_type": "single_label_classification",
        "dtype": "float32",
    }
