"""The costs of running a model: FLOPs, bytes saved for backward, and peak memory."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from weighbridge.blueprint.operations import Operation
from weighbridge.costs import costs
from weighbridge.costs.costs import Measurement, Quantity
from weighbridge.ledger.rows import Row

ONCE = ((),)
LARGEST_OUTPUT_BYTES = 4 * 1 * 3 * 4  # of PRODUCTS, in F32
PRODUCTS = [Operation("a", (1, 3, 2, 4), "", ONCE), Operation("b", (1, 2, 9, 5), "", ONCE)]


def row(name: str, elements: int, *, tied_to: str | None = None) -> Row:
    parameters = 0 if tied_to else elements
    return Row(name, (elements,), "F32", "role", ("n",), elements, parameters, tied_to)


def saved(path: str, elements: int, places: tuple[tuple[int, ...], ...] = ONCE) -> Operation:
    return Operation(path, (elements,), "compute", places)


def held(rows: list[Row], tensors: list[Operation]) -> int:
    """Return the peak memory of training without the weights and the outputs of products."""
    peak = costs.peak_bytes(rows, tensors, [], "F32", training=True)
    return peak - costs.weight_bytes(rows)


def test_a_product_is_two_flops_for_each_of_its_terms_in_each_place() -> None:
    assert costs.matmul_flops(PRODUCTS) == 2 * 24 + 2 * 90
    assert costs.matmul_flops([Operation("l.{i}", (2, 3, 4, 5), "", ((0,), (1,), (2,)))]) == 720


def test_weights_are_counted_once() -> None:
    assert costs.weight_bytes([row("a.weight", 10), row("b.weight", 10, tied_to="a.weight")]) == 40


def test_what_is_saved_follows_the_dtype_of_the_model_or_has_its_own() -> None:
    tensors = [saved("a", 100), Operation("b", (1,), "I64", ONCE)]
    assert costs.saved_for_backward_bytes(tensors, "BF16") == 208
    assert costs.saved_for_backward_bytes(tensors, "F32") == 408
    assert costs.saved_for_backward_bytes([saved("l.{i}", 3, ((0,), (1,)))], "F32") == 24


def test_without_training_all_that_is_saved_is_held_and_twice_the_largest_output() -> None:
    rows, tensors = [row("a.weight", 10)], [saved("a", 100)]
    peak = costs.peak_bytes(rows, tensors, PRODUCTS, "F32", training=False)
    assert peak == 40 + 400 + 2 * LARGEST_OUTPUT_BYTES
    assert costs.peak_bytes(rows, tensors, [], "F32", training=False) == 440


def test_training_holds_the_same_outputs() -> None:
    rows, tensors = [row("a.weight", 10)], [saved("a", 100)]
    with_outputs = costs.peak_bytes(rows, tensors, PRODUCTS, "F32", training=True)
    assert with_outputs == 40 + (400 + 40) + 2 * LARGEST_OUTPUT_BYTES


def test_gradients_come_where_nothing_is_saved() -> None:
    """The backward pass leaves a gradient for each parameter, even in modules that save nothing."""
    assert held([row("a.weight", 10), row("b.weight", 5)], []) == 60
    assert costs.peak_bytes([row("a.weight", 10)], [], [], "F32", training=False) == 40


def test_a_tied_weight_and_a_buffer_have_no_gradient_of_their_own() -> None:
    buffer = row("a.ids", 7)._replace(parameters=0)
    rows = [row("a.weight", 10), row("b.weight", 10, tied_to="a.weight"), buffer]
    assert held(rows, []) == 40


def test_a_tied_weight_gets_two_gradients_and_their_sum() -> None:
    """The head's gradient is there from the start; at the words, a second one and the sum."""
    rows = [
        row("words.weight", 100),
        row("l.weight", 7),
        row("head.weight", 100, tied_to="words.weight"),
    ]
    tensors = [saved("words", 2), saved("l", 5), saved("head", 3)]
    assert held(rows, tensors) == 4 * (100 + 7 + 2 + 200)
    # In the middle the head's gradient is held beside what is saved.
    assert held(rows, [saved("words", 2), saved("l", 500), saved("head", 3)]) == 4 * (502 + 100 + 7)


def test_what_is_saved_goes_while_gradients_come() -> None:
    rows = [row("a.weight", 10), row("b.weight", 20)]
    # At b everything is still saved, and its gradient is allocated.
    assert held(rows, [saved("a", 1), saved("b", 100)]) == 4 * (1 + 100 + 20)
    # At a the tensors saved by b are freed, and both gradients exist.
    assert held(rows, [saved("a", 100), saved("b", 1)]) == 4 * (100 + 20 + 10)
    # At the end nothing is saved, and all gradients exist.
    assert held([*rows, row("c.weight", 500)], [saved("a", 1), saved("b", 1)]) == 4 * 530


def test_layers_go_backward_from_the_last_one() -> None:
    places = ((0,), (1,))
    rows = [row("l.0.x.weight", 1), row("l.1.x.weight", 100)]
    tensors = [saved("l.{i}.x", 10, places), saved("l.{i}.y", 3, places)]
    # Layer 1 comes first: its gradient exists while x of both layers and y of layer 0 are saved.
    assert held(rows, tensors) == 4 * (10 + 3 + 10 + 100)


def test_layers_stand_between_what_has_no_index() -> None:
    rows = [row("first.weight", 1), row("l.0.weight", 2), row("last.weight", 1000)]
    tensors = [saved("first", 5), saved("l.{i}", 5, ((0,),)), saved("last", 5)]
    assert held(rows, tensors) == 4 * (15 + 1000)
    assert held(rows, [tensors[2], *tensors[:2]]) == 4 * (5 + 1003)


sizes = st.integers(1, 50)


@given(st.lists(sizes, max_size=5), st.lists(sizes, max_size=5))
def test_the_peak_of_training_is_between_its_parts_and_their_sum(
    parameters: list[int], tensors: list[int]
) -> None:
    rows = [row(f"{number}.weight", elements) for number, elements in enumerate(parameters)]
    kept = [saved(str(number), elements) for number, elements in enumerate(tensors)]
    most = held(rows, kept)
    assert max(4 * sum(parameters), 4 * sum(tensors)) <= most
    assert most <= 4 * (sum(parameters) + sum(tensors))


@given(st.lists(st.tuples(sizes, sizes, sizes, sizes), min_size=1))
def test_flops_add_up(shapes: list[tuple[int, int, int, int]]) -> None:
    products = [Operation("p", shape, "", ONCE) for shape in shapes]
    assert costs.matmul_flops(products) == 2 * sum(map(prod, shapes))


def test_a_ratio_is_what_was_measured_in_parts_of_what_was_predicted() -> None:
    assert Quantity("parameters", 2, 4).ratio == 2
    for predicted, measured in ((None, 4), (2, None), (0, 4)):
        assert Quantity("parameters", predicted, measured).ratio is None


def test_a_count_that_is_off_is_named_and_an_estimate_is_not() -> None:
    quantities = (
        Quantity("parameters", 2, 3),
        Quantity("weight_bytes", 2, 2),
        Quantity("saved", None, 2),
        Quantity("seconds", 2, 3),
    )
    exact = ("parameters", "weight_bytes", "saved")
    assert Measurement("m", "f", "C", {}, quantities, exact, ()).differing == ["parameters"]
