"""What `explain` writes is read by `audit`: no slips, and few numbers that are not read."""

import pytest

from weighbridge.articles import examine
from weighbridge.articles.text.lines import UNREAD
from weighbridge.articles.text.source import Source
from weighbridge.cli.program import main

MODELS = (
    "google-bert/bert-base-chinese",
    "openai-community/gpt2",
    "FacebookAI/roberta-base",
    "meta-llama/Llama-2-7b-hf",
    "mistralai/Mixtral-8x7B-v0.1",
    "google-t5/t5-small",
    "albert/albert-base-v2",
    "google/electra-base-discriminator",
    "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen2.5-7B",
    "google/gemma-2-2b",
    "google/vit-base-patch16-224",
)
FORMATS = ("text", "markdown", "html", "latex")
LEAST_READ = 0.95


@pytest.mark.sampled("src/weighbridge/articles", "src/weighbridge/answers/explain")
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("model", MODELS)
def test_an_explanation_is_read_without_slips(
    model: str, file_format: str, lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", model, "--format", file_format, "--lang", lang]) == 0
    text = capsys.readouterr().out
    article = examine(Source("-", text, "utf-8", file_format == "html"))
    assert [(slip.line, slip.stated) for slip in article.findings.slips] == []
    unread = [number for number in article.numbers if number.verdict == UNREAD]
    assert len(unread) <= (1 - LEAST_READ) * len(article.numbers), unread
