"""Loops that grow, against what torch saves in such a loop, and against draws with such loops."""

from __future__ import annotations

import random
from collections import Counter
from math import prod
from typing import TYPE_CHECKING, Any

import pytest
import torch

from weighbridge import data
from weighbridge.algebra.expr import evaluate
from weighbridge.blueprint import schema
from weighbridge.derive.operations.draws import CHUNK, IN_PIECES, PADDED, PIECES, Draws, RunDraw
from weighbridge.derive.operations.growing import Same, added_up
from weighbridge.derive.operations.reading import Memory, Phrase, Reading
from weighbridge.derive.operations.recording import record
from weighbridge.derive.operations.runs import RecordedByKind, RecordedItem, RunMode
from weighbridge.derive.probing.reference import FamilySubject

if TYPE_CHECKING:
    from collections.abc import Callable

CUT = 64
SOLVER = "model.layers.{i}.self_attn"


class Solver(torch.nn.Module):
    """Solves the rows of a triangular system one by one, each from those before it."""

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        rows = [given[..., 0, :]]
        for at in range(1, given.shape[-1]):
            row = given[..., at, :at].clone()
            before = torch.stack(rows, -2)[..., :at].clone()
            solved = row + (row.unsqueeze(-1) * before).sum(-2)
            rows.append(torch.cat([solved, given[..., at, at:]], -1))
        return torch.stack(rows, -2)


@pytest.mark.parametrize(("systems", "rows"), [(1, 8), (3, 8), (5, 13), (2, 64)])
def test_all_rounds_are_what_torch_saves(systems: int, rows: int) -> None:
    given = torch.randn(systems, rows, rows, device="meta", requires_grad=True)
    saved = record(Solver(), {"given": given}).saved
    tensors = [Same("", tensor.dtype, ((prod(tensor.dims),),)) for tensor in saved]
    found = list(added_up(tensors, ("value", rows), rows))
    assert [tensor.numbers for tensor in found if tensor.rounds] == [((systems,),)] * 2
    sizes = [
        prod([*tensor.numbers[0], *(evaluate(tree, {}) for tree in tensor.rounds)])
        for tensor in found
    ]
    assert sum(sizes) == sum(tensor.bytes for tensor in saved) // 4
    assert len(found) == len(saved) - 2 * (rows - 1) + 2


def family_of(seed: str) -> tuple[Draws, list[RunDraw]]:
    family = Draws(FamilySubject("kimi_linear"), schema.load("kimi_linear"))
    return family, family.alike(random.Random(seed), 3)  # noqa: S311


def found_in(
    family: Draws, draws: list[RunDraw], sizes_of: Callable[[int], list[int]]
) -> list[tuple[str, int]]:
    """Return the texts of tensors of which each has so many times the heads of a run."""
    runs: list[RecordedByKind] = []
    for draw in draws:
        once = draw.run["batch"] * draw.fields["linear_num_heads"]
        sizes = sizes_of(once)
        items = [RecordedItem("model.layers.0.self_attn", "F32", (size,)) for size in sizes]
        runs.append({"saved": items})
    memory = Memory(family, "KimiLinearForCausalLM", draws, family.windows)
    setting = RunMode("train", "cuda-flash", "BF16")
    found: Any = Reading(memory, setting, runs, None, learns=True).found()
    assert {place for place, _, _ in found} == {f"saved {SOLVER}"}
    return [(text, count) for (_, text, _), count in found.items()]


def test_a_loop_that_grows_is_one_text(seed: str) -> None:
    family, draws = family_of(seed)

    def sizes(once: int) -> list[int]:
        rounds = range(1, CUT)
        return [once * size for at in rounds for size in (at, at * at)]

    heads = "F32 batch*linear_num_heads"
    assert found_in(family, draws, sizes) == [
        (f"{heads} {CUT}*({CUT}-1)//2", 1),
        (f"{heads} {CUT}*({CUT}-1)*(2*{CUT}-1)//6", 1),
    ]


def test_a_tensor_as_large_as_that_of_a_round_stays_a_text_of_its_own(seed: str) -> None:
    family, draws = family_of(seed)

    def sizes(once: int) -> list[int]:
        return [2 * once, *(once * at for at in range(1, CUT)), once]

    found = found_in(family, draws, sizes)
    heads = "F32 batch*linear_num_heads"
    assert sorted(found) == [
        ("F32 2*batch*linear_num_heads", 1),
        (heads, 1),
        (f"{heads} {CUT}*({CUT}-1)//2", 1),
    ]


@pytest.mark.parametrize("missing", [1, 30, CUT - 1])
def test_a_loop_without_one_of_its_rounds_is_not_taken_for_a_whole_one(
    missing: int, seed: str
) -> None:
    family, draws = family_of(seed)

    def sizes(once: int) -> list[int]:
        return [once * at for at in range(1, CUT) if at != missing]

    found = found_in(family, draws, sizes)
    assert sum(count for _, count in found) == CUT - 2
    assert not any(f"({CUT}-1)//2" in text for text, _ in found)


@pytest.mark.parametrize("times", [7, 8, 9])
def test_a_text_that_occurs_often_in_no_loop_has_no_rounds(times: int, seed: str) -> None:
    """Kimi Linear keeps eight tensors of all pieces; 8 is a product of quotients of its sizes."""
    family, draws = family_of(seed)
    found = found_in(family, draws, lambda once: [once] * times)
    assert found == [("F32 batch*linear_num_heads", times)]


def test_loops_are_tried_first_where_a_text_is_repeated(seed: str) -> None:
    """Which tensor of one piece is missing then does not depend on which layer was read first."""
    family, draws = family_of(seed)
    memory = Memory(family, "KimiLinearForCausalLM", draws, family.windows)
    places = (("saved layer", "F32 pieces", ()), ("saved layer", "pieces x F32 1", ()))
    usual = Counter(dict.fromkeys(places, 1))
    assert memory.loops_first(usual) == [(places[0], 1), (places[1], 1)]
    memory.repeated[("saved", "layer"), Phrase("F32", (("name", "pieces"),))] = 8
    assert memory.loops_first(usual) == [(places[1], 1), (places[0], 1)]


def test_tensors_of_two_modules_or_dtypes_are_no_loop() -> None:
    rounds = [Same("layer", "F32", ((5 * at,),)) for at in range(1, 13)]
    whole = list(added_up(rounds, ("value", 13), 13))
    assert len(whole) == 1
    for other in (rounds[6]._replace(path="other"), rounds[6]._replace(dtype="BF16")):
        tensors = [*rounds[:6], other, *rounds[7:]]
        assert list(added_up(tensors, ("value", 13), 13)) == tensors


@pytest.mark.parametrize(("chunk", "run"), IN_PIECES.items())
def test_the_sizes_of_runs_in_pieces_are_told_apart(chunk: int, run: dict[str, int]) -> None:
    """No length is padded to, and no size is beside, a multiple of others; pieces are no factor."""
    batch = run["batch"]
    assert run["short"] < chunk
    for name in ("sequence", "past"):
        length = run[name]
        assert -(-length // chunk) == PIECES
        padded = [-(-length // multiple) * multiple for multiple in PADDED]
        assert len({length + 1, *padded}) == 1 + len(PADDED)
        for size in (*padded, length, length - 1, length + 1, PIECES + 1, chunk):
            assert size % batch > 0, (name, size)
        assert (chunk - 1) % PIECES > 0
        assert abs(batch * PIECES - chunk) > 1
    primes = [*run.values(), PIECES]
    assert len({*primes, chunk}) == len(primes) + 1
    assert not any(number % part == 0 for number in primes for part in range(2, number))


def test_every_chunk_has_sizes_of_runs() -> None:
    assert {*data.read_toml("facts/running.toml")["chunks"].values()} <= IN_PIECES.keys()


@pytest.mark.parametrize("family", ["mamba2", "kimi_linear"])
def test_a_family_that_cuts_sequences_has_these_sizes(family: str) -> None:
    draws = Draws(FamilySubject(family), schema.load(family))
    (draw,) = draws.alike(random.Random(1), 1)  # noqa: S311
    ((chunk, run),) = [(of, run) for of, run in IN_PIECES.items() if of == (draws.chunk or CHUNK)]
    assert run.items() <= draw.run.items()
    sizes = [draw.changes[name] for name in draws.blueprint.sizes & draw.changes.keys()]
    counts = {draw.changes[name] for name in draws.layer_counts}
    for prime in (*run.values(), PIECES):
        assert all(size % prime or size in counts or size == chunk for size in sizes)
