"""Serving, training and plans: what must hold between their figures, whatever the model is."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

import weighbridge as wb
from weighbridge.answers.fitting import bytes_of, large_number
from weighbridge.cli import main
from weighbridge.costs.bounds import ring_bytes
from weighbridge.costs.parallel import Rank
from weighbridge.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = "meta-llama/Llama-3.1-8B"


def trained(**settings: Any) -> Any:
    return wb.train(LLAMA, **{"on": "8xH100", "batch": 64, "sequence": 4096, **settings})


def test_the_states_of_a_step_are_those_of_the_zero_paper() -> None:
    """Rajbhandari et al., 2020, figure 1: K = 12, N_d = 64; here of the parameters of Llama."""
    parameters = wb.weigh(LLAMA).parameters
    for zero, of_rank in ((0, 16), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)):
        found = trained(on="64xH100", zero=zero).ranks[0].states
        assert sum(found.values()) == pytest.approx(of_rank * parameters, rel=1e-4), zero


def test_ranks_add_up_and_the_worst_is_the_worst() -> None:
    found = trained(zero=3, tp=2)
    assert [memory.number for memory in found.ranks] == list(range(8))
    whole = wb.weigh(LLAMA).parameters
    copied = 2 * (65 * 4096)  # the norms, which both tensor-parallel ranks hold
    held = sum(memory.states["parameters"] for memory in found.ranks)
    assert held == 2 * (whole - copied // 2 + copied)
    assert found.peak_bytes == max(memory.peak.bytes for memory in found.ranks)
    assert found.fullest.peak.bytes == found.worst.peak.bytes


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"zero": 3},
        {"pp": 4, "micro_batch": 2},
        {"pp": 4, "schedule": "interleaved", "chunks": 2},
        {"tp": 4, "sequence_parallel": True},
        {"cp": 2, "checkpointing": "full"},
        {"checkpointing": "selective", "optimizer": "adamw-8bit"},
        {"precision": "autocast"},
        {"precision": "fsdp", "zero": 3},
    ],
)
def test_the_rank_that_a_search_asks_for_is_the_worst_of_all(settings: dict[str, Any]) -> None:
    found = trained(**settings)
    assert found.fullest.peak.bytes == max(memory.peak.bytes for memory in found.ranks)
    assert found.bound.seconds > 0
    assert 0 < found.model_flops_utilisation <= 1.0000001


@pytest.mark.parametrize("stages", [3, 5, 7, 16, 61])
def test_the_rank_that_a_search_asks_for_is_the_worst_of_uneven_stages(stages: int) -> None:
    model = "deepseek-ai/DeepSeek-V3"
    for settings in ({}, {"checkpointing": "full"}, {"zero": 3, "precision": "fsdp"}):
        on = f"{2 * stages}xH200"
        found = wb.train(model, on=on, batch=16, sequence=512, pp=stages, **settings)
        assert found.fullest.peak.bytes == max(memory.peak.bytes for memory in found.ranks)


def test_each_way_of_saving_saves() -> None:
    whole = trained(micro_batch=8)
    for settings in (
        {"zero": 1},
        {"zero": 3},
        {"checkpointing": "full"},
        {"tp": 2},
        {"tp": 8},
        {"optimizer": "sgd"},
        {"precision": "bf16"},
    ):
        assert trained(micro_batch=8, **settings).peak_bytes < whole.peak_bytes, settings


def test_a_pipeline_holds_more_on_its_first_stage_and_waits() -> None:
    found = trained(pp=4, micro_batch=1)
    held = [found.ranks[2 * stage].moments[0].held["activations"] for stage in range(4)]
    assert held == sorted(held, reverse=True)
    without = trained(micro_batch=1)
    assert found.bound.compute == pytest.approx(without.bound.compute * (1 + 3 / 32), rel=1e-9)


def test_what_is_proposed_fits() -> None:
    found = wb.train(LLAMA, on="8xH100", batch=64, sequence=4096)
    assert found.status == 1
    assert found.changes
    assert all(change.bytes <= found.usable_bytes for change in found.changes)
    one = wb.train(LLAMA, on="8xH100", batch=64, sequence=4096, zero=3, micro_batch=1)
    same = next(change for change in found.changes if change.options == "--micro-batch 1 --zero 3")
    assert same.bytes == one.peak_bytes


def test_hours_and_money() -> None:
    found = trained(zero=3, tokens="15T", price=2.0)
    assert found.hours == pytest.approx(15e12 / found.tokens_per_second / 3600)
    assert found.money == pytest.approx(found.hours * 8 * 2)


def test_serving_fits_up_to_its_largest_batch_and_context() -> None:
    found = wb.serve(LLAMA, on="H100", context=8192, batch=16)
    assert found.fits
    for sizes, fits in (
        ({"batch": found.largest_batch}, True),
        ({"batch": found.largest_batch + 1}, False),
        ({"context": found.largest_context, "batch": 16}, True),
        ({"context": found.largest_context + 1, "batch": 16}, False),
    ):
        assert wb.serve(LLAMA, on="H100", **{"context": 8192, **sizes}).fits == fits, sizes


def test_the_cache_of_a_card_is_what_cache_says_divided_by_heads() -> None:
    whole = wb.cache(LLAMA, context=8192, batch=16).cache_bytes
    for tp, share in ((1, 1), (4, 4), (8, 8), (16, 8)):
        found = wb.serve(LLAMA, on=f"{tp}xH100", context=8192, batch=16)
        assert found.memory.cache == whole // share
        assert found.cache_bytes == whole


def test_a_latent_is_on_every_card_and_experts_are_divided() -> None:
    model = "deepseek-ai/DeepSeek-V3"
    whole = wb.cache(model, context=4096, batch=2).cache_bytes
    found = wb.serve(model, on="16xH200", context=4096, batch=2, tp=16)
    assert found.memory.cache == found.cache_bytes == whole
    assert found.memory.weights < wb.weigh(model).bytes / 12
    assert found.weight_bytes == wb.weigh(model).bytes


def test_quantised_weights_are_those_of_quantize() -> None:
    found = wb.serve(LLAMA, on="L4", context=4096, weights="q4_k_m")
    assert found.weight_bytes == pytest.approx(wb.quantize(LLAMA, "q4_k_m").tensor_bytes, rel=1e-6)


def test_vllm_tells_its_tokens_in_whole_blocks() -> None:
    """Qwen3-14B in https://github.com/LMCache/LMCache/issues/1739: 6.51 GiB hold 42,656 tokens."""
    fields = {
        "model_type": "qwen3",
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "dtype": "bfloat16",
        "architectures": ["Qwen3ForCausalLM"],
        "max_position_embeddings": 40960,
    }
    found = wb.serve(fields, on="H100", context=4096, engine="vllm", cache_memory="6.51GiB")
    assert found.cache_tokens % 16 == 0
    assert found.cache_tokens == pytest.approx(42656, rel=0.001)


@pytest.mark.parametrize(("model", "on", "batch"), [("gpt2", "4xL4", 8), ("mixtral", "16xL4", 32)])
def test_a_plan_is_what_train_says_of_it(model: str, on: str, batch: int) -> None:
    """A search keeps what plans share; `train` computes one plan alone."""
    sizes = {"on": on, "batch": batch, "sequence": 512}
    plans = wb.plan(model, **sizes)
    assert any(tried.limit == "links" for tried in plans.tried)  # what a search keeps counts
    for tried in plans.tried[:: len(plans.tried) // 40]:
        ways, setting = tried.setting.plan, tried.setting
        found = wb.train(
            model,
            **sizes,
            micro_batch=setting.micro_batch,
            checkpointing=setting.checkpointing,
            zero=ways.zero,
            tp=ways.tensor,
            pp=ways.pipeline,
            ep=ways.expert,
            sequence_parallel=ways.sequence_parallel,
        )
        assert found.peak_bytes == tried.peak_bytes
        assert found.bound.seconds == tried.seconds
        assert found.fits == tried.fits


def test_a_plan_for_serving_is_what_serve_says_of_it() -> None:
    asked = {"on": "8xH100", "context": 8192, "batch": 64}
    plans = wb.plan("mixtral", serve=True, **asked)
    assert len(plans.fitting) + len(plans.nearest) == len(plans.tried) > 5
    for tried in plans.tried[::3]:
        ways = tried.service.plan
        found = wb.serve("mixtral", tp=ways.tensor, pp=ways.pipeline, ep=ways.expert, **asked)
        assert (found.memory.bytes, found.fits) == (tried.peak_bytes, tried.fits)
        assert found.step_bound.seconds == tried.seconds


def test_no_plan_beats_those_on_the_front() -> None:
    plans = wb.plan(LLAMA, on="8xL4", batch=64, sequence=2048)
    for tried in plans.fitting:
        assert any(
            best.seconds <= tried.seconds and best.peak_bytes <= tried.peak_bytes
            for best in plans.pareto
        )
    assert len({tried.setting for tried in plans.tried}) == len(plans.tried)
    assert {tried.setting.plan.world for tried in plans.tried} == {8}


def test_the_exit_status_says_whether_it_fits(capsys: pytest.CaptureFixture[str]) -> None:
    for words, status in (
        ("serve gpt2 --on L4 --context 64", 0),
        (f"serve {LLAMA} --on T4 --context 64", 1),
        ("train gpt2 --on L4 --batch 1 --seq 64", 0),
        (f"train {LLAMA} --on L4 --batch 1 --seq 64", 1),
        (f"plan {LLAMA} --on L4 --batch 1 --seq 64", 1),
        ("serve gpt2 --on L4 --context 1025", 2),
        ("train gpt2 --on L4 --batch 1 --seq 64 --tp 5", 2),
    ):
        assert main([*words.split(), "--json"]) == status, words
        captured = capsys.readouterr().out
        if status < 2:
            assert json.loads(captured)["fits"] == (status == 0)


def test_ring_sends_what_each_rank_lacks() -> None:
    assert ring_bytes(100, 1, reduce=True) == 0
    assert ring_bytes(100, 4, reduce=False) == 75


def test_sizes_and_numbers_as_text() -> None:
    assert bytes_of("8.11GiB", "x") == round(8.11 * 2**30)
    assert bytes_of("512", "x") == 512
    assert large_number("1.5T", "x") == 1_500_000_000_000
    for text in ("", "x", "-1GiB", "1 parsec", "1e999", "nan"):
        with pytest.raises(UsageError):
            bytes_of(text, "x")
        with pytest.raises(UsageError):
            large_number(text, "x")


def test_a_rank_is_numbered_as_megatron_does() -> None:
    found = trained(tp=2, pp=2, micro_batch=1)
    places = {memory.number: memory.rank for memory in found.ranks}
    assert places[1] == Rank(tensor=1)
    assert places[2] == Rank(copy=1)
    assert places[4] == Rank(stage=1)


def test_training_an_adapter_holds_what_lora_says_beside_the_frozen_model() -> None:
    for settings in ({"r": 16, "targets": "q,v"}, {"r": 4, "targets": "all-linear"}):
        adapter = wb.lora(LLAMA, **settings)
        text = ",".join(f"{name}={value}" for name, value in settings.items())
        states = trained(on="H100", batch=1, lora=text).ranks[0].states
        assert states["gradients"] == adapter.memory["gradient_bytes"]
        assert states["optimizer"] == adapter.memory["optimizer_bytes"]
        assert states["parameters"] == wb.weigh(LLAMA).bytes + adapter.memory["gradient_bytes"]


def test_a_frozen_model_in_four_bits_is_smaller_and_saves_as_much() -> None:
    whole, four = (trained(on="H100", batch=1, qlora=qlora, lora="r=8") for qlora in (False, True))
    assert four.peak_bytes < whole.peak_bytes
    assert four.worst.moments[0].held["activations"] == whole.worst.moments[0].held["activations"]
    assert four.model_flops == whole.model_flops < trained(on="H100", batch=1).model_flops


def test_an_adapter_of_the_head_of_a_group_saves_the_input_of_all_in_it() -> None:
    of_query, of_key, of_down = (
        trained(on="H100", batch=1, precision="fp32", lora=f"r=8,targets={name}")
        .worst.moments[0]
        .held["activations"]
        for name in ("q", "k", "down")
    )
    assert of_query == of_key
    assert of_down > of_query  # its input is as wide as the feed-forward network


@pytest.mark.parametrize(
    ("method", "reserved"),
    [("q,v", 22_292_725_760)],
)
def test_the_memory_of_peft_s_comparison(method: str, reserved: int) -> None:
    """PEFT's method comparison at 5d602fdbff: Llama-3.2-3B, batch 4, at most 768 tokens, an L40S.

    The figure is what the allocator had reserved; the longest batch had fewer tokens than 768 each.
    """
    found = wb.train(
        "meta-llama/Llama-3.2-3B",
        on="L40S",
        batch=4,
        sequence=768,
        precision="bf16",
        lora=f"r=32,targets={method}",
    )
    assert reserved < found.peak_bytes < 1.03 * reserved


def test_an_adapter_with_a_divided_model_is_refused() -> None:
    with pytest.raises(UsageError, match="whole copies"):
        trained(tp=2, lora="r=8")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_picture_has_a_bar_as_long_as_each_part_is_large(lang: str, tmp_path: Path) -> None:
    found = trained(zero=3, checkpointing="full")
    file = found.save(tmp_path / "memory.svg", lang)
    drawing = ET.parse(file).getroot()  # noqa: S314  # ours
    bars = [
        (float(rect.get("width", "0")), rect.get("fill"))
        for rect in drawing.iter("{http://www.w3.org/2000/svg}rect")
        if rect.get("height") == "24"
    ]
    sizes = []
    for moment in found.worst.moments:
        sizes += [size for size in (*moment.held.values(), found.budget.allowance) if size]
    assert len(bars) == len(sizes)
    scale = bars[0][0] / sizes[0]
    for (width, _), size in zip(bars, sizes, strict=True):
        assert width == pytest.approx(scale * size, rel=1e-4)
    assert len({colour for _, colour in bars}) == 7


def test_the_command_writes_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("serve gpt2 --on L4 --context 64", "train gpt2 --on L4 --batch 1 --seq 64"):
        file = tmp_path / "memory.svg"
        assert main([*words.split(), "-o", str(file)]) == 0
        assert capsys.readouterr().out.strip() == str(file)
        assert file.read_text(encoding="utf-8").startswith("<svg")
        file.unlink()


def rects(drawing: ET.Element, height: str) -> list[ET.Element]:
    every = drawing.iter("{http://www.w3.org/2000/svg}rect")
    return [one for one in every if one.get("height") == height]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_schedule_has_a_box_for_each_pass(lang: str) -> None:
    sizes = {"on": "8xH100", "batch": 8, "sequence": 512, "pp": 4, "tp": 2}
    found = wb.train(LLAMA, **sizes, schedule="interleaved", chunks=2)
    boxes = rects(ET.fromstring(found.svg(lang, "schedule")), "24")  # noqa: S314  # ours
    assert len(boxes) == 4 * 8 * 2 * 2  # stages, micro-batches, chunks, directions
    widths = {box.get("fill"): float(box.get("width", "0")) for box in boxes}
    forward, later, backward = (widths[colour] for colour in ("#56b4e9", "#9ad0f0", "#e69f00"))
    assert backward == pytest.approx(2 * forward, rel=1e-4) == pytest.approx(2 * later, rel=1e-4)


def test_a_roofline_has_a_point_for_each_component() -> None:
    """The points of a step are at the same heights as its FLOPs and bytes say."""
    found = wb.serve(LLAMA, on="H100", context=4096, batch=4)
    texts = found.svg("en", "roofline")
    step = wb.cost(LLAMA, batch=4, past=4095, decode=True)
    for name in ("attention", "ffn"):
        group = next(one for one in step.groups("component") if one.name == name)
        intensity = group.figures["step_matmul_flops"] / group.figures["step_moved_bytes"]
        assert f"{intensity:.1f} FLOPs per byte" in texts
    assert texts.count("limited by reading memory") == 4  # a prompt's attention, and the step
    drawn = trained(micro_batch=1).svg("zh", "roofline")
    assert drawn.count("<circle") == 2 * 3
    ET.fromstring(drawn)  # noqa: S314  # ours


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train gpt2 --on L4 --batch 1 --seq 64 --picture schedule -o x.svg", "no pipeline"),
        ("train gpt2 --on L4 --batch 1 --seq 64 --picture roofline", "needs -o"),
        ("serve gpt2 --on L4 --context 64 --picture schedule -o x.svg", "invalid choice"),
    ],
)
def test_pictures_that_are_refused(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err
    with pytest.raises(UsageError, match="no such picture"):
        wb.serve("gpt2", on="L4", context=64).svg("en", "schedule")


def test_tokens_may_share_experts_so_a_bound_reads_those_of_one() -> None:
    """All sequences of a batch may choose the same experts; a step then reads no others."""
    fields = {"on": "H200", "context": 1024}
    one, many = (wb.serve("mixtral", **fields, batch=batch).step_bound for batch in (1, 4))
    model = wb.weigh("mixtral", "MixtralForCausalLM")
    embedding = next(row.count for row in model.rows if row.role == "embedding.token")
    read = 4 * (model.active - embedding) / 4.8e12  # F32, and the bytes/s of an H200
    caches = [wb.cache("mixtral", context=1024, batch=batch).cache_bytes for batch in (1, 4)]
    assert one.memory == pytest.approx(read + caches[0] / 4.8e12)
    assert many.memory == pytest.approx(read + caches[1] / 4.8e12)


@pytest.mark.parametrize("model", ["t5-base", "openai/whisper-tiny", "facebook/bart-large"])
def test_a_model_that_encodes_and_decodes_is_served(model: str) -> None:
    served = wb.serve(model, on="H100", context=128, batch=4)
    assert served.cache_bytes == wb.cache(model, context=128, batch=4).cache_bytes
    prompt = wb.cost(model, sequence=128, target=1)
    assert 0 < sum(served.prompt_flops) < prompt.forward_matmul_flops


def test_a_step_of_a_decoder_reads_no_encoder() -> None:
    served = wb.serve("facebook/bart-large", on="H100", context=128)
    of_decoder = 12 * (6 * 1024**2 + 2 * 1024 * 4096) + 50265 * 1024  # self, cross's two, MLP; head
    assert served.step_weight_bytes / 4 == pytest.approx(of_decoder, rel=1e-3)
    assert served.read_weight_bytes > 1.5 * served.step_weight_bytes


def test_a_bound_of_a_step_expands_no_cache_of_latents() -> None:
    """An engine may multiply the query by the matrix that expands them: vLLM and SGLang do."""
    short, long = (
        wb.serve("deepseek-v3", on="8xH200", context=context, batch=32) for context in (64, 32768)
    )
    assert short.step_flops == long.step_flops
    assert long._step_flops[1] > 100 * short._step_flops[1]


@pytest.mark.parametrize(
    ("model", "weights", "cache"),
    [("gpt-oss-20b", "MXFP4", "BF16"), ("deepseek-v3", "FP8", "BF16"), (LLAMA, "BF16", "BF16")],
)
def test_the_dtypes_are_those_of_the_files(model: str, weights: str, cache: str) -> None:
    served = wb.serve(model, on="8xH200", context=1024)
    assert served.to_dict()["weights"] == weights
    assert served.service.cache == cache
    assert wb.cost(model, sequence=9).run.dtype == cache


def test_a_dtype_that_nothing_states_is_noted() -> None:
    def notes(model: object) -> list[str]:
        return [note for note in wb.serve(model, on="H100", context=64).notes if "dtype" in note]

    large = dict(wb.weigh(LLAMA).model.config)
    assert notes(LLAMA) == []
    (note,) = notes("meta-llama/Meta-Llama-3.1-8B-Instruct")
    assert note.startswith("the config states no dtype, and F32 is taken")
    assert notes(large) == notes("llama") == notes("gpt2") == []


def test_ranks_of_experts_are_copies_of_the_rest() -> None:
    served = wb.serve("mixtral-8x7b", on="8xA100-80GB", context=1024, ep=8)
    plan = served.service.plan
    assert (plan.tensor, plan.data, plan.expert) == (1, 8, 8)
    assert served.fits
