"""The rank of LoRA that an article states decides which of several ways gives its number."""

import pytest

from weighbridge.answers.audit import audit

SIZES = (
    "LLaMA-7B: hidden_size=4096, 32 layers, 32 heads, intermediate_size=11008, vocab_size=32000. "
)
PRODUCT = "32 × 2 × 8 × (4096 + 4096) = 4,194,304"


@pytest.mark.parametrize(
    "stated",
    [
        "LoRA with r=8 on q_proj and v_proj: ",
        "With LoRA of rank 8 on the queries and values, it is ",
        "LoRA $r = 8$: ",
        "LoRA 的秩为 8：",
    ],
)
def test_the_stated_rank_is_taken(stated: str) -> None:
    counts = audit(text=SIZES + stated + PRODUCT).counts
    assert counts
    ranks = {dict(step.values).get("rank") for way in counts.matches for step in way.steps}
    assert ranks == {8}


def test_another_rank_says_nothing() -> None:
    counts = audit(text=f"{SIZES}LoRA with r=3: {PRODUCT}").counts
    assert counts
    assert counts.matches == ()
