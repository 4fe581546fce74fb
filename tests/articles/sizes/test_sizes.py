"""`articles.sizes.sizes`: the sizes that an article states, and whose they are."""

from fractions import Fraction

import pytest

from weighbridge.articles.sizes.sizes import Sizes, stated_sizes
from weighbridge.articles.text.lines import ArticleLine

FIELDS = {
    "V": "vocab_size",
    "P": "max_position_embeddings",
    "T": "type_vocab_size",
    "L": "num_hidden_layers",
    "A": "num_attention_heads",
    "KV": "num_key_value_heads",
    "H": "hidden_size",
    "F": "intermediate_size",
    "D": "head_dim",
    "C": "num_labels",
    "E": "num_local_experts",
    "K": "num_experts_per_tok",
    "FE": "moe_intermediate_size",
    "R": "kv_lora_rank",
    "Q": "q_lora_rank",
    "S": "n_shared_experts",
    "W": "embedding_size",
}


def read(text: str) -> Sizes:
    lines = text.split("\n")
    return stated_sizes([ArticleLine(number, line) for number, line in enumerate(lines, start=1)])


def short(fields: dict[str, int]) -> str:
    """Return sizes as a text, in the order of `FIELDS`: "L=12 H=768"."""
    return " ".join(f"{letter}={fields[name]}" for letter, name in FIELDS.items() if name in fields)


STATED = {
    # prose
    "We train a 12-layer model with 768 hidden units and 12 heads.": "L=12 A=12 H=768",
    "The hidden size is 768 and the number of layers is 12.": "L=12 H=768",
    "It uses 24 Transformer layers, 16 attention heads, a hidden size of 1024": "L=24 A=16 H=1024",
    "12-layer, 768-hidden, 12-heads, 110M parameters.": "L=12 A=12 H=768",
    "a vocabulary of 30,522 tokens and at most 512 positions": "V=30522 P=512",
    "Its context window is 2048 tokens.": "P=2048",
    "8 heads of 64, so the model dimension is 512": "A=8 H=512 D=64",
    "Each layer has 32 query heads, 8 key-value heads and 128 dimensions per head.": (
        "A=32 KV=8 D=128"
    ),
    "8 experts, of which each token activates 2 experts": "E=8 K=2",
    "a feed-forward size of 3072": "F=3072",
    "The feed-forward inner dimension d_ff = 4H = 3072": "F=3072",
    "In the base model (12 layers, 768 dim, 12 heads)": "L=12 A=12 H=768",
    "a 30,522-word vocabulary": "V=30522",
    "768 is the hidden size, 12 is the number of heads": "A=12 H=768",
    "a classifier with 14 labels": "C=14",
    "A cased vocabulary size: 28996 (28,996 word pieces)": "V=28996",
    # Chinese prose
    "模型有12层、768维、12头": "L=12 A=12 H=768",
    "隐藏层维度768,注意力头数12,Transformer 层数12": "L=12 A=12 H=768",
    "词汇表大小21128，最大位置编码512": "V=21128 P=512",
    "21128就是bert字典的大小": "V=21128",
    "层数、隐藏维度和头数分别为12、768和12": "L=12 A=12 H=768",
    "共有32个查询头和8个KV头，每个头的维度为128": "A=32 KV=8 D=128",
    "每层有8个专家，每个 token 激活其中的2个专家": "E=8 K=2",
    "前馈网络的维度是3072，即隐藏维度768的四倍": "H=768 F=3072",
    "全连接层大小设置，即4dmodle，为3072": "F=3072",
    "词表大小（V）：30522；句子类型数：2": "V=30522 T=2",
    "词表大小为１２８２５６，上下文长度８１９２": "V=128256 P=8192",
    "这是一个14分类任务": "C=14",
    "头数为12，每个头64维": "A=12 D=64",
    "使用 12 heads attention,其query,key,value是64维度": "A=12 D=64",
    "中间层大小一般取 4h，即 3072": "F=3072",
    "KV 压缩维度 512，Q 压缩维度 1536，路由专家数 256，共享专家数 1": "E=256 R=512 Q=1536 S=1",
    # letters
    "H=768, L=12, A=12": "L=12 A=12 H=768",
    "V=30522，H=768，S=512，T=2，F=3072": "V=30522 P=512 T=2 H=768 F=3072",
    "d_model=512, d_ff=2048, h=8, N=6": "L=6 A=8 H=512 F=2048",
    "其中 h 是头的数量，h = 12，d_model = 768": "A=12 H=768",
    "h是头的数量，dmodel模型的大小，即h12，dmodle768；之后将12个头": "A=12 H=768",
    # bullets, tables, code, configs
    "- **Hidden size (H):** 768\n- **Sequence length (S):** 512": "P=512 H=768",
    "| hidden size | 768 |\n\n| layers | 12 |": "L=12 H=768",
    "| 隐藏层大小 | H | 768 |\n| 词表大小 | V | 30522 |": "V=30522 H=768",
    "| H | 768 | 隐藏层大小 |": "H=768",
    "hidden_size=768,num_hidden_layers=12": "L=12 H=768",
    '"hidden_size": 768,\n"vocab_size": 21128,\n"type_vocab_size": 2': "V=21128 T=2 H=768",
    "BertConfig(hidden_size=256, num_hidden_layers=4)": "L=4 H=256",
    "n_embd: int = 768\nn_layer: int = 12\nn_head: int = 12\nblock_size: int = 1024": (
        "P=1024 L=12 A=12 H=768"
    ),
    "n_positions 1024, n_ctx 1024, n_vocab 50257": "V=50257 P=1024",
    "d_model=768, d_kv=64, d_ff=3072, num_layers=12": "L=12 H=768 F=3072 D=64",
    "dim = 4096, n_layers = 32, ffn_dim = 11008, n_kv_heads = 8": "L=32 KV=8 H=4096 F=11008",
    "self.emb = nn.Embedding(30522, 768)": "V=30522 H=768",
    "(wpe): Embedding(1024, 768)": "P=1024 H=768",
    "(0-11): 12 x BertLayer(": "L=12",
    "(query): Linear(in_features=768, out_features=768, bias=True)": "H=768",
    "(dense): Linear(in_features=768, out_features=3072, bias=True)": "H=768 F=3072",
    "(classifier): Linear(in_features=768, out_features=14, bias=True)": "H=768 C=14",
    "word_embeddings 转换器 输入维度是 21128 ,输出维度是 768": "V=21128 H=768",
    "最后连接一个分类层，输入768维，输出14维": "H=768 C=14",
    "moe_intermediate_size 1408, embedding_size 128": "FE=1408 W=128",
    "embeddings.word_embeddings.weight torch.Size([30522, 768])": "V=30522 H=768",
    "encoder.layer.0.intermediate.dense.weight torch.Size([3072, 768])": "H=768 F=3072",
    "token嵌入矩阵的形状为[30522, 768]，position嵌入矩阵的形状为[512, 768]": "V=30522 P=512 H=768",
    "(c_fc): Conv1D(nf=3072, nx=768)": "H=768 F=3072",
    "(lm_head): Linear(in_features=4096, out_features=32000, bias=False)": "V=32000 H=4096",
    "注意力头数\n128个\n\n隐藏维度\n\n7,168\n层数\n61层": "L=61 A=128 H=7168",
    "Hidden size\n4096\nLayers\n32": "L=32 H=4096",
    "V = 21,128 vocabulary size, P = 512 maximum positions, L = 12 layers": "V=21128 P=512 L=12",
    "V = 21,128(词表大小)，P = 512(最大位置数)，T = 2(片段类型数)": "V=21128 P=512 T=2",
    "768 hidden dimensions (64 hidden dimensions per head)": "H=768 D=64",
    "3072 for feed-forward projections, 768 for the hidden size": "H=768 F=3072",
    "768 hidden units (64 for each head)": "H=768",
    "16 heads, each with a dimension of 256": "A=16 D=256",
    "a context window of n_ctx = 2048 tokens": "P=2048",
    "| KV 缓存头数(KV Heads) | 4(GQA) |": "KV=4",
    "| layer_num | 32 | Transformer 层的总数(即模型深度) |": "L=32",
    "| 层数(Transformer Blocks) | 28 |\n| 总参数量 | 76.1 亿 |": "L=28",
    "词表包含30522个token": "V=30522",
    "N: 层数，堆叠了多少层。GPT-3 的 N 是 96": "L=96",
    '"num_experts_per_tok": 2,      // 每token激活专家数': "K=2",
    "vocabsize30522，hiddensize768，maxpositionembeddings512": "V=30522 P=512 H=768",
}


@pytest.mark.parametrize("text", STATED)
def test_sizes_are_read_in_every_way_of_writing(text: str) -> None:
    assert short(read(text).fields) == STATED[text]


NO_SIZES = [
    "BERT has 110M parameters, the large model 340M.",
    "Published on 2018-10-11, 768 likes, price 12 yuan",
    "词表大小约3万",
    "a vocabulary of about 30,000 tokens",
    "hidden sizes of 768-1024",
    "between 12 and 24",
    "6 or 12 layers, 6-12 layers, 6 to 12 layers",
    "第12层，前6层，最后4层，倒数第2层",
    "layer 12, the last 4 layers, the first 6 layers, Figure 12 heads",
    "hidden size × 3072 = 2359296",
    "3 × hidden size = 2304",
    "num_heads * 64 = 768",
    "12×64=768维",
    "the (h/A) · H = 3H²",
    "(H/3 = 256)",
    "隐藏层的大小与 768 有关",
    "If we increase the hidden size to 1024",
    "若把层数改为24",
    "若改为 H=1024、L=24，则更大",
    "With 1024 instead of 768: hidden size = 1024",
    "Fine-tune with batch size 32, sequence length 128 and 3 epochs.",
    "微调时序列长度取128，批大小32",
    "dropout 0.1, learning rate 2e-5, 40 epochs",
    "每层 7087872 个参数",
    "隐藏层 12",
    "over 100 layers",
    "hidden size 768.5 and vocabulary 30k, 3.2万词表",
    "the A100 GPU, T4, V100",
    "H 是隐藏层大小, F 是前馈维度: H100, F32, A100",
    "点赞 12 评论 37 收藏 1024",
    "heads 12%",
    "specific dimensions: 3072",
    "位置嵌入                 P·H                   393,216    0.4%",
    "| 位置嵌入 | P·H | 393,216 |",
    "| Position embeddings | 393,216 | 0.4% |",
    "| encoder.layers.{i}.fc1.bias | `F_e` | 3,072 |",
    "| model.layers.{i}.k_proj.bias | `A_kv D` | 512 |",
    "| L_f | first_k_dense_replace | dense layers | 3 |",
    "num_hidden_layers * (4 * hidden_size ** 2 + 4 * hidden_size)",
    "2 L H = 38400",
    "experts 3E·H·F",
    "Fine-tuned with a maximum sequence length of 384",
    "每个 MoE 层 h=2048",
    "class ModelArgs: vocab_size: int = -1",
    "注意力头 12 / 24",
]


@pytest.mark.parametrize("text", NO_SIZES)
def test_other_numbers_are_not_sizes(text: str) -> None:
    assert read(text).fields == {}


def test_a_heading_of_layers_is_not_the_hidden_size() -> None:
    assert short(read("隐藏层 24 层").fields) == "L=24"


# Whose sizes they are

BASE_AND_LARGE = """BERT 的参数量
BERT-base: L=12, H=768
若换成 BERT-large（H=1024, L=24），参数更多
"""


def test_sizes_belong_to_the_model_named_before_them() -> None:
    sizes = read(BASE_AND_LARGE)
    assert short(sizes.fields) == "L=12 H=768"
    assert short(sizes.of_model["BERT-large"]) == "L=24 H=1024"
    assert sizes.values["H"] == 768
    assert [size.own for size in sizes.found] == [True, True, False, False]


TABLES = {
    "models in rows": (
        "| Model | Layers | Hidden | Heads | Params |\n|---|---|---|---|---|\n"
        "| BERT-Base | 12 | 768 | 12 | 110M |\n| BERT-Large | 24 | 1024 | 16 | 340M |"
    ),
    "models in columns": (
        "| 参数 | BERT-Base | BERT-Large |\n|---|---|---|\n| 层数 | 12 | 24 |\n"
        "| 隐藏层大小 | 768 | 1024 |\n| 头数 | 12 | 16 |"
    ),
    "sections": (
        "# BERT-Base\n- layers: 12\n- hidden size: 768\n- heads: 12\n"
        "# BERT-Large\n- layers: 24\n- hidden size: 1024\n- heads: 16"
    ),
    "prose": (
        "BERT-Base has 12 layers, hidden size 768 and 12 heads. "
        "BERT-Large has 24 layers, hidden size 1024 and 16 heads."
    ),
    "tabs": "Model\tLayers\tHidden\tHeads\nBERT-Base\t12\t768\t12\nBERT-Large\t24\t1024\t16",
}


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
def test_several_models_are_kept_apart(text: str) -> None:
    sizes = read(text)
    assert short(sizes.of_model["BERT-Base"]) == "L=12 A=12 H=768"
    assert short(sizes.of_model["BERT-Large"]) == "L=24 A=16 H=1024"
    assert sizes.fields == sizes.of_model["BERT-Base"]


OTHERS = {
    "BERT 参数\n隐藏层维度768\nGPT-2 的上下文长度是1024，BERT 的最大长度是512": "P=512 H=768",
    "BERT\nhidden size 768. The original Transformer uses d_model=512, h=8.": "H=768",
    "GPT-2 small\n12 layers, hidden size 768, unlike GPT-2 XL with 48 layers": "L=12 H=768",
    "Llama 2 7B\n32 layers and hidden size 4096. Llama 2 70B: 80 layers, 8 KV heads": (
        "L=32 H=4096"
    ),
    "BERT\n| | 数值 |\n| 层数 | 12 |\n| RoBERTa 的词表 | 50265 |": "L=12",
    "BERT base\nvocab 30522; RoBERTa is bigger. It has vocab 50265.": "V=30522",
    "BERT\n12 layers in BERT-base, 24 layers in BERT-large": "L=12",
    "DistilBERT vs BERT\nDistilBERT keeps 6 of BERT's 12 layers": "",
    "Llama 2 7B\n32 query heads. Each key-value head is shared by 4 heads": "A=32",
    "BERT-base\nSequence length 128 with batch 32. max_position_embeddings 512.": "P=512",
}


@pytest.mark.parametrize("text", OTHERS)
def test_sizes_of_other_models_stay_theirs(text: str) -> None:
    assert short(read(text).fields) == OTHERS[text]


def test_a_pronoun_stands_for_the_model_before_it() -> None:
    sizes = read("BERT base\nvocab 30522; RoBERTa is bigger. It has vocab 50265.")
    assert short(sizes.of_model["RoBERTa"]) == "V=50265"


def test_a_number_that_counts_something_else_is_no_size() -> None:
    sizes = read("Llama 2 7B\nnumber of heads: 32. Each key-value head is shared by 4 heads")
    assert [size.value for size in sizes.found] == [32]


# Letters

LETTERS = {
    "V(词表大小)*h(指定向量维度,base中是768)": {"V": "vocab_size", "h": "hidden_size"},
    "维度通常为H（隐藏层大小），词汇表大小为V，序列最大长度为N": {
        "H": "hidden_size",
        "V": "vocab_size",
        "N": "max_position_embeddings",
    },
    "h是头的数量": {"h": "num_attention_heads"},
    "如果有num_heads个头": {"num_heads": "num_attention_heads"},
    "let L be the number of layers and A the number of heads": {
        "L": "num_hidden_layers",
        "A": "num_attention_heads",
    },
    "where d is the hidden size, n_h the number of heads": {
        "d": "hidden_size",
        "n_h": "num_attention_heads",
    },
    "hidden size (H), layers (L), layer(s), heads (Q, K, V)": {
        "H": "hidden_size",
        "L": "num_hidden_layers",
    },
    "隐藏层大小记为 d，用 L 表示层数": {"d": "hidden_size", "L": "num_hidden_layers"},
    "d_ffn (通常称为 hidden size)": {},
    "| S | 最大位置编码 | 512 |": {"S": "max_position_embeddings"},
    "| F | hidden_dim | feed-forward size | 3072 |": {"F": "intermediate_size"},
    "| H_e | embedding_size | embedding size | 128 |": {"H_e": "embedding_size"},
    "K       num_experts_per_tok  experts per token       2": {"K": "num_experts_per_tok"},
    "中间状态的维度大小为 H'": {},
    "H is the hidden size. In this section H is the number of heads.": {},
}


@pytest.mark.parametrize("text", LETTERS)
def test_letters_stand_for_what_the_article_says(text: str) -> None:
    assert read(text).letters == LETTERS[text]


def test_letters_have_the_values_of_their_fields() -> None:
    sizes = read("V(词表大小)*h(隐藏维度)\n词表大小21128，隐藏维度768，F=3072")
    assert sizes.values == {"V": Fraction(21128), "h": Fraction(768), "F": Fraction(3072)}


def test_a_letter_with_two_values_has_none() -> None:
    assert "n" not in read("n = 12, later n = 24").values


def test_a_size_says_where_it_stands() -> None:
    size = read("layers\n隐藏层维度768").found[0]
    assert (size.at.line, size.at.start, size.at.end) == (2, 5, 8)


def test_a_long_article_takes_bounded_time() -> None:
    paragraph = (
        "The hidden size of a BERT-base model with 12 layers is 768, 词表大小 is 30522. " * 8
    )
    lines = [ArticleLine(number, paragraph) for number in range(1, 321)]
    stated_sizes(lines)


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "| ",
        "hidden size ",
        "4h=",
        "为",
        "12、",
        "d_model",
        "H=(",
        "1 2 ",
        "a_",
        "BERT-",
        "BERT base ",
    ],
)
def test_no_line_takes_long(piece: str) -> None:
    read(piece * (19_000 // len(piece)))
