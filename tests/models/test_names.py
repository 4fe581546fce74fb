"""Names with another spelling in the catalogue: the intended model, and similar names."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.errors import ModelError, UnknownNameError
from weighbridge.models import catalogue
from weighbridge.models.find import find
from weighbridge.models.names import Matches, normal_form, search

MODELS = (
    "google-bert/bert-base-uncased",
    "google-bert/bert-base-cased",
    "google-bert/bert-base-chinese",
    "dslim/bert-base-NER",
    "openai-community/gpt2",
    "openai-community/gpt2-medium",
    "meta-llama/Llama-2-7b-hf",
    "meta-llama/Llama-2-7b-chat-hf",
    "meta-llama/Meta-Llama-3-8B",
    "meta-llama/Meta-Llama-3-8B-Instruct",
    "meta-llama/Meta-Llama-3-70B-Instruct",
    "meta-llama/Meta-Llama-3-70B",
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Meta-Llama-3.1-8B",
    "mistralai/Mistral-7B-v0.1",
    "mistralai/Mistral-7B-v0.3",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "mistralai/Mixtral-8x7B-v0.1",
    "mistralai/Mixtral-8x22B-v0.1",
    "Qwen/Qwen2-7B",
    "Qwen/Qwen2-1.5B-Instruct",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-7B",
    "Qwen/Qwen2.5-72B",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3-Base",
    "deepseek-ai/DeepSeek-V3.1",
    "moonshotai/Kimi-K2.6",
    "moonshotai/Kimi-K2-Instruct",
    "google/gemma-3-4b-it",
    "google/gemma-3-27b-it",
    "google/t5-v1_1-base",
    "Kwai-Kolors/Kolors#text_encoder",
    "CIDAS/clipseg-rd64",
    "openai/clip-vit-base-patch16",
    "openai/clip-vit-base-patch32",
)
SPELLINGS = {model.lower(): model for model in MODELS}
SPELLINGS |= {model.rpartition("/")[2].lower(): model for model in MODELS}


def searched(name: str) -> Matches:
    return search(name, SPELLINGS, lambda _: {})


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Llama-3-70B", "meta-llama/Meta-Llama-3-70B"),
        ("LLAMA3 8b", "meta-llama/Meta-Llama-3-8B"),
        ("meta-llama/Llama-3-8B", "meta-llama/Meta-Llama-3-8B"),
        ("meta llama 3 8b instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("llama 3.1 8b", "meta-llama/Llama-3.1-8B"),
        ("llama-2-7b", "meta-llama/Llama-2-7b-hf"),
        ("llama2_7b_chat", "meta-llama/Llama-2-7b-chat-hf"),
        ("qwen2.5 7b", "Qwen/Qwen2.5-7B"),
        ("deepseek v3", "deepseek-ai/DeepSeek-V3"),
        ("DeepSeekV3", "deepseek-ai/DeepSeek-V3"),
        ("bert base chinese", "google-bert/bert-base-chinese"),
        ("gpt 2", "openai-community/gpt2"),
        ("mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1"),
        ("kimi k2", "moonshotai/Kimi-K2-Instruct"),
        ("t5 v1.1 base", "google/t5-v1_1-base"),
        ("bert base ch", "google-bert/bert-base-chinese"),
    ],
)
def test_a_name_in_other_words_means_its_model(typed: str, meant: str) -> None:
    matches = searched(typed)
    assert matches.is_meant
    assert matches.models[0] == meant


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        (
            "mistral 7b",
            (
                "mistralai/Mistral-7B-v0.1 mistralai/Mistral-7B-v0.3 "
                "mistralai/Mistral-7B-Instruct-v0.3"
            ),
        ),
        ("gemma 3", "google/gemma-3-4b-it google/gemma-3-27b-it"),
        (
            "qwen 2",
            (
                "Qwen/Qwen2-7B Qwen/Qwen2.5-7B Qwen/Qwen2.5-72B Qwen/Qwen2-1.5B-Instruct "
                "Qwen/Qwen2.5-7B-Instruct"
            ),
        ),
        (
            "bert base",
            (
                "google-bert/bert-base-uncased google-bert/bert-base-cased "
                "google-bert/bert-base-chinese dslim/bert-base-NER"
            ),
        ),
        ("Kolors", "Kwai-Kolors/Kolors#text_encoder"),
        (
            "clip",
            "openai/clip-vit-base-patch16 openai/clip-vit-base-patch32 CIDAS/clipseg-rd64",
        ),
        ("kimi", "moonshotai/Kimi-K2.6 moonshotai/Kimi-K2-Instruct"),
    ],
)
def test_a_name_of_several_models_names_them_the_most_plausible_first(
    typed: str, near: str
) -> None:
    assert searched(typed) == Matches(tuple(near.split()), begins=True)


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("llama 70b", "meta-llama/Meta-Llama-3-70B"),
        ("someone/gpt2", "openai-community/gpt2"),
        ("chinese bert", "google-bert/bert-base-chinese"),
        ("deepsek-v3", "deepseek-ai/DeepSeek-V3"),
        ("llama-4-8b", "meta-llama/Meta-Llama-3-8B"),
    ],
)
def test_an_unknown_name_is_answered_with_similar_names(typed: str, near: str) -> None:
    matches = searched(typed)
    assert not matches.is_meant
    assert not matches.begins
    assert near in matches.models


def meant_among(typed: str, *models: str) -> str | None:
    """Return the model that a name means where these are all that the catalogue has."""
    spellings = {model.lower(): model for model in models}
    spellings |= {model.rpartition("/")[2].lower(): model for model in models}
    matches = search(typed, spellings, lambda _: {})
    assert matches.begins
    return matches.models[0] if matches.is_meant else None


@pytest.mark.parametrize(
    ("typed", "model"),
    [
        ("bge small en", "BAAI/bge-small-en-v1.5"),
        ("gpt-oss-20", "openai/gpt-oss-20b"),
        ("gemma-3-27", "google/gemma-3-27b-it"),
        ("qwen3 4b", "Qwen/Qwen3-4B-Thinking-2507"),
        ("tinyllama 1.1b", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"),
        ("openai/whisper large v3 t", "openai/whisper-large-v3-turbo"),
        ("bert-base-ch", "google-bert/bert-base-chinese"),
    ],
)
def test_a_beginning_is_completed_by_what_makes_no_other_model(typed: str, model: str) -> None:
    assert meant_among(typed, model) == model


@pytest.mark.parametrize(
    ("typed", "model"),
    [
        ("whisper large v3", "openai/whisper-large-v3-turbo"),
        ("openai/whisper-large-v3", "openai/whisper-large-v3-turbo"),
        ("deepseek v2", "deepseek-ai/DeepSeek-V2-Lite"),
        ("jina embeddings", "jinaai/jina-embeddings-v3-hf"),
        ("falcon mamba", "tiiuae/falcon-mamba-7b"),
        ("siglip so400m", "google/siglip-so400m-patch14-384"),
        ("granite 3", "ibm-granite/granite-3.1-2b-base"),
    ],
)
def test_a_beginning_is_not_completed_to_another_model(typed: str, model: str) -> None:
    assert meant_among(typed, model) is None


def test_a_word_of_its_own_is_not_the_beginning_of_another_word() -> None:
    assert meant_among("tiny cl", "org/tiny-clipseg", "openai/clip-vit") == "org/tiny-clipseg"
    assert meant_among("tiny clip", "org/tiny-clipseg", "openai/clip-vit") is None


def test_a_number_is_compared_whole() -> None:
    assert searched("qwen2.5-7").models[0] == "Qwen/Qwen2.5-7B"
    assert "Qwen/Qwen2.5-72B" not in searched("qwen2.5-7").models
    assert normal_form("Qwen-2.5") != normal_form("Qwen-25")


def test_a_name_of_two_models_with_different_totals_means_neither() -> None:
    entries = {model: {"parameters": len(model)} for model in MODELS}
    matches = search("llama 3.1 8b", SPELLINGS, entries.__getitem__)
    assert matches == Matches(
        ("meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B"), begins=True, is_exact=True
    )


@pytest.mark.parametrize("name", ["", " ", "-", "/", "#", "colourless green ideas", "词"])
def test_an_unfamiliar_name_means_nothing(name: str) -> None:
    assert searched(name) == Matches(())


@given(st.text("abZ12 -_./", max_size=20), st.text("-_. ", min_size=1, max_size=2))
def test_case_and_separators_do_not_matter(name: str, separator: str) -> None:
    respelled = re.sub(r"[-_. ]+", lambda _: separator, name).swapcase()
    assert normal_form(respelled) == normal_form(name)


@given(st.text(max_size=40))
def test_any_name_is_searched(name: str) -> None:
    assert searched(name).is_meant <= bool(searched(name).models)


def test_any_spelling_of_a_released_model_finds_it() -> None:
    assert find("BERT base_chinese").where == "google-bert/bert-base-chinese"
    assert find("google-bert/BERT base chinese").where == "google-bert/bert-base-chinese"
    assert find("Chinese.BERT wwm").where == "hfl/chinese-bert-wwm"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Llama-3-70B", "meta-llama/Meta-Llama-3-70B"),
        ("LLAMA3 8b", "meta-llama/Meta-Llama-3-8B"),
        ("qwen2.5 7b", "Qwen/Qwen2.5-7B"),
        ("deepseek v3", "deepseek-ai/DeepSeek-V3"),
        ("gpt 2", "openai-community/gpt2"),
        ("mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1"),
    ],
)
def test_the_models_that_people_ask_for_are_found(typed: str, meant: str) -> None:
    assert find(typed).where == meant


def test_a_family_keeps_its_name() -> None:
    assert find("bert").origin == "defaults"


def test_a_family_in_other_words_is_suggested() -> None:
    with pytest.raises(ModelError, match=r"Did you mean data2vec-text"):
        find("Data2Vec text")


@pytest.mark.parametrize("typed", ["gpt neox", "GPT-NeoX"])
def test_a_family_in_other_words_is_suggested_before_longer_names(typed: str) -> None:
    with pytest.raises(ModelError, match=r"Did you mean gpt_neox, "):
        find(typed)


def test_an_unknown_name_is_answered_with_the_three_ways() -> None:
    with pytest.raises(UnknownNameError) as caught:
        find("someone/some-model")
    message = str(caught.value)
    assert message.startswith("'someone/some-model': no model, family or file has this name. ")
    for way in ("hf://someone/some-model", "weighbridge[remote]", "a config.json", "--set"):
        assert way in message, way


def test_a_longer_name_is_suggested_and_not_answered_with() -> None:
    with pytest.raises(UnknownNameError, match="no model, family or file") as caught:
        find("codebert")
    assert "Did you mean microsoft/codebert-base?" in str(caught.value)


def test_several_names_are_shown_with_the_number_of_further_ones() -> None:
    with pytest.raises(UnknownNameError, match="several models fit this name") as caught:
        find("google/bert uncased")
    assert "Did you mean google/bert_uncased_L-" in str(caught.value)
    assert " more?" in str(caught.value)


def test_a_name_as_the_catalogue_spells_it_is_found_without_a_search() -> None:
    script = (
        "import sys\n"
        "from weighbridge.models.find import find\n"
        "find('bert-base-chinese')\n"
        "print('weighbridge.models.names' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "False"
    assert catalogue.look_up("bert-base-chinese")[0] == "google-bert/bert-base-chinese"
