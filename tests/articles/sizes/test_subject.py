"""`articles.sizes.subject`: the model that an article is about."""

import pytest

from weighbridge.answers.explain import explain
from weighbridge.articles.sizes.model_names import model_names_in
from weighbridge.articles.sizes.sizes import stated_sizes
from weighbridge.articles.sizes.subject import GUESSED, NAMED, ArticleModel, article_subject
from weighbridge.articles.text.lines import ArticleLine
from weighbridge.data import LANGUAGES
from weighbridge.models.find import find
from weighbridge.render.markdown import as_markdown


def subject(text: str) -> ArticleModel | None:
    lines = text.split("\n")
    return article_subject(
        stated_sizes([ArticleLine(number, line) for number, line in enumerate(lines, start=1)])
    )


RELEASES = {
    "计算Bert参数量\n\nBERT Base 配置": "google-bert/bert-base-uncased",
    "BERT\nthe large model has 24 layers and hidden size 1024": "google-bert/bert-large-uncased",
    "BERTLARGE has 340M parameters": "google-bert/bert-large-uncased",
    "BERT 参数\n词表大小21128": "google-bert/bert-base-chinese",
    "BERT\nBertModel.from_pretrained('bert-base-chinese')": "google-bert/bert-base-chinese",
    "BERT-base cased, vocabulary size 28996": "google-bert/bert-base-cased",
    "BERT mini": "google/bert_uncased_L-4_H-256_A-4",
    "BERT\nlayers: 2, hidden size: 128, heads: 2": "google/bert_uncased_L-2_H-128_A-2",
    "GPT-2 small 的参数量": "openai-community/gpt2",
    "Counting the parameters of GPT-2": "openai-community/gpt2",
    "GPT2 (124M)": "openai-community/gpt2",
    "GPT-2\nn_layer = 48, n_embd = 1600, n_head = 25": "openai-community/gpt2-xl",
    "gpt2-medium": "openai-community/gpt2-medium",
    "Llama 2 7B": "meta-llama/Llama-2-7b-hf",
    "Llama-2-7B 参数量推导": "meta-llama/Llama-2-7b-hf",
    "LLaMA-7B": "huggyllama/llama-7b",
    "LLaMA 有 32 层": "huggyllama/llama-7b",
    "Llama 3 8B": "meta-llama/Meta-Llama-3-8B",
    "LLaMA2模型\n隐藏维度 4096": "meta-llama/Llama-2-7b-hf",
    "T5-base": "google-t5/t5-base",
    "The T5 model\nd_model=512, d_ff=2048, 6 layers and 8 heads": "google-t5/t5-small",
    "Flan-T5-large": "google/flan-t5-large",
    "Mixtral 8x7B": "mistralai/Mixtral-8x7B-v0.1",
    "Mistral 7B": "mistralai/Mistral-7B-v0.1",
    "RoBERTa-large": "FacebookAI/roberta-large",
    "RoBERTa 与 BERT 的区别\nRoBERTa 更大，RoBERTa 词表50265": "FacebookAI/roberta-base",
    "XLM-RoBERTa-base": "FacebookAI/xlm-roberta-base",
    "ALBERT 如何减少参数": "albert/albert-base-v2",
    "ALBERT xxlarge": "albert/albert-xxlarge-v2",
    "DistilBERT": "distilbert/distilbert-base-uncased",
    "ELECTRA-small": "google/electra-small-discriminator",
    "DeBERTa-v3-base": "microsoft/deberta-v3-base",
    "ViT-B/16": "google/vit-base-patch16-224",
    "ViT-L/16 has 24 layers": "google/vit-large-patch16-224",
    "DeepSeek-V3 (671B)": "deepseek-ai/DeepSeek-V3",
    "DeepSeek V2 Lite": "deepseek-ai/DeepSeek-V2-Lite",
    "Qwen2.5-7B": "Qwen/Qwen2.5-7B",
    "Qwen2.5\nhidden size 3584, 28 层": "Qwen/Qwen2.5-7B",
    "Qwen3-8B": "Qwen/Qwen3-8B",
    "Gemma 2 9B": "google/gemma-2-9b",
    "OPT-125M": "facebook/opt-125m",
    "BLOOM-560m": "bigscience/bloom-560m",
    "Falcon-7B": "tiiuae/falcon-7b",
    "BART-large": "facebook/bart-large",
    "XLNet": "xlnet/xlnet-base-cased",
    "GPT-NeoX-20B": "EleutherAI/gpt-neox-20b",
    "Pythia-70m": "EleutherAI/pythia-70m",
    "hfl/chinese-roberta-wwm-ext": "hfl/chinese-roberta-wwm-ext",
}


@pytest.mark.parametrize("text", RELEASES)
def test_the_release_is_found(text: str) -> None:
    model = subject(text)
    assert model
    assert (model.release, model.how) == (RELEASES[text], NAMED)


UNKNOWN = [
    "GPT-3 has 175B parameters",
    "GPT-4 与 GPT-4o",
    "ChatGLM-6B",
    "Qwen-7B",  # its code is not in transformers, and Qwen1.5 is another model
    "Swin-T",
    "Qwen2.5 系列",  # seven sizes, and none is stated
    "The Transformer\nd_model = 512, N = 6, h = 8",
    "Attention is all you need",
    "12 层，隐藏维度 768",
    "a clip of a led light, git commit, we opt for a sam bit",
    "the falcon and the camel bloom",
    "a large model with a base of users",
    "总参数约110M",
    "词表大小30522，隐藏维度768，12 层，12 个头，最大长度512",  # of BERT, ERNIE and others
    "",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_model_is_not_guessed(text: str) -> None:
    assert subject(text) is None


def test_stated_sizes_win_over_those_of_the_release() -> None:
    model = subject("BERT-base\n词表大小 50000，最大长度 1024")
    assert model
    assert model.release == "google-bert/bert-base-uncased"
    fields = model.model.fields
    assert (fields["vocab_size"], fields["max_position_embeddings"]) == (50000, 1024)
    assert (fields["hidden_size"], fields["type_vocab_size"]) == (768, 2)


def test_widths_follow_another_hidden_size() -> None:
    model = subject("我们的 BERT 有 6 层，隐藏维度 384")
    assert model
    fields = model.model.fields
    assert (fields["hidden_size"], fields["intermediate_size"]) == (384, 1536)
    assert (fields["num_hidden_layers"], fields["num_attention_heads"]) == (6, 6)


def test_the_fields_are_those_of_the_family() -> None:
    model = subject("GPT-2\nhidden size 1024, 24 layers, 16 heads, vocabulary of 50304")
    assert model
    assert (model.model.fields["n_embd"], model.model.fields["vocab_size"]) == (1024, 50304)


def test_sizes_that_fit_no_model_are_left_out() -> None:
    model = subject("BERT-base\n隐藏维度768，头数7")
    assert model
    assert model.model.fields["num_attention_heads"] == 12


def test_the_class_is_the_one_that_the_article_names() -> None:
    model = subject("BertForSequenceClassification\nbert 14 分类任务，词表大小21128")
    assert model
    assert model.class_name == "BertForSequenceClassification"
    assert model.model.fields["num_labels"] == 14
    assert (subject("BERT") or model).class_name == "BertModel"
    assert (subject("GPT-2") or model).class_name == "GPT2LMHeadModel"
    assert (subject("GPT-2\nGPT2Model") or model).class_name == "GPT2Model"


def test_a_doubtful_size_does_not_change_the_release() -> None:
    model = subject("ALBERT Base has 12 layers and 128-dimensional embeddings")
    assert model
    assert model.model.fields["hidden_size"] == 768


def test_other_models_are_listed() -> None:
    model = subject("BERT-base\n与 RoBERTa、GPT-2 和 BERT-large 相比，RoBERTa 更大")
    assert model
    assert model.name == "BERT-base"
    assert model.others == ("RoBERTa", "GPT-2", "BERT-large")


def test_sizes_alone_are_enough_if_one_family_has_them() -> None:
    model = subject("词表大小21128，隐藏维度768，12 层，12 个头，最大长度512")
    assert model
    assert (model.family, model.how) == ("bert", GUESSED)


def test_the_title_decides_between_models() -> None:
    model = subject("从零计算 GPT-2 的参数量\nBERT BERT BERT RoBERTa")
    assert model
    assert model.family == "gpt2"


NAMES = {
    "Bert 14 分类, BERT 12 layers, BERT的12层": ["Bert", "BERT", "BERT"],
    "Bert的Basemodel参数大小是110M,Largemodle是340M": ["Bert", "Base", "Large"],
    "Llama 2 7B, Llama-3.1-8B and LLaMA 65B": ["Llama 2 7B", "Llama-3.1-8B", "LLaMA 65B"],
    "bert.encoder.layer.0 bert_config": [],
    "a large vocabulary; the Large model": ["Large"],
    "GPT-2、GPT-3和T5": ["GPT-2", "GPT-3", "T5"],
    "BertEmbeddings(nn.Module)": ["BertEmbeddings"],
    "CLIP, clip, SAM, sam, OPT, opt": ["CLIP", "SAM", "OPT"],
    "BERT it is": ["BERT"],
    "a falcon, Falcon, a mamba": ["Falcon"],
    "BERT base, BERT_BASE, BERTBASE": ["BERT base", "BERT_BASE", "BERTBASE"],
}


@pytest.mark.parametrize("text", NAMES)
def test_names_of_models_are_found(text: str) -> None:
    assert [name.text for name in model_names_in(text)] == NAMES[text]


@pytest.mark.parametrize(
    "text",
    ["Fast", "The Encoder", "We align words", "Grounding", "a pop song", "seamless", "an informer"],
)
def test_words_that_begin_names_of_families_are_no_names(text: str) -> None:
    assert not list(model_names_in(text))


EXPLAINED = (
    "bert-base-chinese",
    "openai-community/gpt2",
    "google-t5/t5-base",
    "mistralai/Mixtral-8x7B-v0.1",
    "distilbert-base-uncased",
)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", EXPLAINED)
def test_our_own_explanation_is_read_as_its_model(name: str, lang: str) -> None:
    expected = find(name)
    model = subject(as_markdown(explain(name).document(lang)))
    assert model
    assert model.model.fields == expected.fields
    assert model.release == expected.where
