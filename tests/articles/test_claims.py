"""`articles.claims`: wrong statements in words are found, and right ones near them are not.

The sentences of `WRONG` and `RIGHT` were written before the patterns.
"""

import re
from pathlib import Path

import pytest

import weighbridge
from weighbridge import data
from weighbridge.articles.claims import WordSlip, find_claims
from weighbridge.articles.text.lines import ArticleLine

ARTICLES = Path(__file__).parents[3] / "shared" / "articles"

BERT = ("bert", "embedding.token embedding.position embedding.segment embedding.norm pooler")
GPT2 = ("gpt2", "embedding.token embedding.position norm.final head.lm")
LLAMA = ("llama", "embedding.token norm.final head.lm ffn.gate")
MIXTRAL = ("mixtral", "embedding.token norm.final head.lm router expert.gate expert.up expert.down")
LAYER = "attention.query attention.key attention.value attention.output attention.norm ffn.norm"
DENSE = "ffn.up ffn.down"


def lines_of(text: str) -> list[ArticleLine]:
    return [ArticleLine(number, line) for number, line in enumerate(text.splitlines(), 1)]


def claims_in(text: str, model: tuple[str, str] = BERT) -> list[WordSlip]:
    family, roles = model
    more = LAYER if model == MIXTRAL else f"{LAYER} {DENSE}"
    return find_claims(lines_of(text), f"{roles} {more}".split(), family)


WRONG = {
    "heads_multiplied": """
The number of parameters is multiplied by the number of heads.
With 12 heads, the Q, K and V matrices must be counted 12 times.
Each head has its own full H × H matrices, so attention has 3·H²·A parameters.
More heads mean more parameters, because every head adds three matrices of size H×H.
The total of the attention is then A * 3 * H * H.
Doubling the number of heads doubles the parameters of the attention layer.
参数量还要再乘以头数。
因为有12个头，所以Q、K、V的参数量要乘以12。
每个头都有一套完整的 H×H 的 W_Q、W_K、W_V 矩阵，所以一共是 3*H*H*num_heads。
头数越多，注意力层的参数量就越大。
多头注意力的参数是单头注意力的 A 倍。
""",
    "no_output_projection": """
The self-attention of BERT has only three weight matrices: W_Q, W_K and W_V.
The attention parameters consist only of the query, key and value matrices.
After the heads are concatenated there is no further projection.
Concatenating the heads gives the output directly, with no additional parameters.
There is no output projection in BERT's attention.
注意力层只有 W_Q、W_K、W_V 三个矩阵。
多头拼接之后直接输出，没有额外的参数。
BERT 的注意力里没有输出投影矩阵 W_O。
自注意力的参数仅包括 Q、K、V 三个权重矩阵。
""",
    "feed_forward_biases": """
Both biases of the feed-forward network have H elements.
Each of the two linear layers in the FFN has a bias of length H.
The two feed-forward biases add 2H parameters.
前馈网络的两个偏置都是 H 维。
FFN 两个线性层的偏置一共是 2H 个参数。
前馈层每个线性层都有一个长度为 H 的偏置。
""",
    "pooler_no_parameters": """
The pooler has no learnable parameters of its own.
BERT's pooling layer does not add any parameters.
The pooler is parameter-free; it only selects the [CLS] vector.
The pooler simply takes the hidden state of [CLS] without any parameters.
BERT-BASE 的池化层本身没有额外的可学习参数，它直接复用最后一层的隐藏状态。
Pooler 层不包含任何参数。
池化层只是取出 [CLS] 的向量，没有参数。
BERT 的 pooler 不引入新的参数。
""",
    "pooler_is_classifier": """
Pooler 参数量（分类头的权重）：H×H
The pooler (the classification head) has H × H weights.
The pooler is the classification head of BERT.
Pooler 就是 BERT 的分类头。
池化层，也就是分类层，有 768×768 个参数。
""",
    "norm_statistics": """
The two learnable parameters of LayerNorm are the mean and the variance.
LayerNorm learns a mean and a variance for each feature.
Layer normalization has 2H parameters: mean and variance.
Each LayerNorm has two parameters, the mean and standard deviation.
每个层归一化层只有两个可学习的参数：均值和方差。
LayerNorm 的可学习参数是均值和方差。
层归一化的参数为均值和标准差，各 H 个。
LN 层有 2H 个参数，分别对应均值与方差。
""",
    "norm_two_numbers": """
A LayerNorm has only two learnable parameters.
Each layer norm adds just 2 parameters, gamma and beta.
There are two LayerNorms in a layer with two scalars each.
每个 LayerNorm 只有两个可学习参数。
一个层归一化仅有 2 个参数 γ 和 β。
LayerNorm 只引入两个标量参数。
""",
    "tied_decoder": """
The MLM decoder has another V × H weights of its own.
The decoder of the masked-LM head adds 30522 × 768 parameters to the model.
The output layer is tied to the embedding, so it has to be counted twice.
The MLM head needs its own V×H matrix, which is not shared with the embedding.
MLM 头的解码器另有 V×H 个参数。
MLM 输出层还需要单独的 H×V 权重矩阵。
输出层与词嵌入共享权重，所以要算两次。
MLM 的 decoder 权重不与词嵌入共享。
""",
    "qkv_same": """
In self-attention the matrices W_Q, W_K and W_V are the same.
Because it is self-attention, Q, K and V are identical, so one weight matrix is enough.
The weights of Q, K and V are shared, which gives H² parameters.
Q = K = V, so there is only one matrix to count.
因为BERT使用自注意力机制，所以Q、K、V是相同的，每个权重矩阵大小一样。
Q、K、V 的权重矩阵是同一个矩阵。
W_Q、W_K、W_V 三个矩阵完全相同。
由于 Q=K=V，只需要计算一个矩阵的参数。
""",
    "inner_size_name": """
The inner dimension d_ffn is usually called the hidden size.
d_ff (also called hidden size) is 3072.
中间层维度: d_ffn (通常称为 hidden size，如 BERT-BASE 中为 4*768)
d_ff 也叫 hidden_size，等于 3072。
""",
    "weights_for_vectors": """
我们使用X乘以WQ/WK/WV 矩阵来产生查询、键、值权值矩阵。
Multiplying X by W_Q, W_K and W_V gives the query, key and value weight matrices.
输入 X 与 W_Q 相乘得到查询权重矩阵。
""",
    "no_pooler_part": """
可以看出 bert Model 有两大部分组成,embeddings 和 encoder。
BERT consists of two parts, the embeddings and the encoder.
BERT 模型由嵌入层和编码器两部分组成。
The BERT model is made up of two components: embeddings and encoder layers.
""",
    "sinusoid_learned": """
The sinusoidal position encodings are learned during training.
The sine and cosine position encoding adds P × H learnable parameters.
正弦位置编码是可学习的参数。
正余弦位置编码有 512×768 个可训练参数。
""",
    "positions_without_parameters": """
The position embeddings of BERT have no parameters.
BERT's position encodings are fixed sine and cosine functions.
BERT 的位置编码用正弦和余弦函数计算，没有参数。
BERT 的位置编码不含可学习参数。
""",
    "parameterless_step": """
The softmax has H learnable parameters.
Dropout adds a few parameters to each layer.
The GELU activation introduces additional parameters.
The residual connections have 2H parameters.
Dropout 层有 768 个参数。
GELU 激活函数也引入了少量可学习参数。
残差连接也带来了额外的参数。
""",
}

WRONG_ELSEWHERE = [
    ("rms_norm_bias", LLAMA, "RMSNorm has a scale and a bias, so 2H parameters."),
    ("rms_norm_bias", LLAMA, "Each RMSNorm has two vectors of parameters, gamma and beta."),
    ("rms_norm_bias", LLAMA, "RMSNorm 有缩放和偏移两个参数向量，共 2H 个参数。"),
    ("rms_norm_bias", LLAMA, "每个 RMSNorm 包含权重和偏置。"),
    ("two_matrices", LLAMA, "The feed-forward network of Llama has two matrices, up and down."),
    ("two_matrices", LLAMA, "Llama's MLP consists of two linear layers."),
    ("two_matrices", LLAMA, "SwiGLU uses two weight matrices."),
    ("two_matrices", LLAMA, "LLaMA 的前馈网络由两个线性层组成。"),
    ("two_matrices", LLAMA, "LLaMA 的 FFN 有两个矩阵，分别是升维和降维。"),
    ("four_times", LLAMA, "The intermediate size of Llama is four times the hidden size."),
    ("four_times", LLAMA, "The FFN of Llama expands from H to 4H."),
    ("four_times", LLAMA, "LLaMA 的中间层维度是隐藏层的 4 倍。"),
    ("grouped_heads", LLAMA, "Grouped-query attention does not change the number of parameters."),
    ("grouped_heads", LLAMA, "With GQA the K and V projections still have H × H weights."),
    ("grouped_heads", LLAMA, "GQA 不影响参数量。"),
    ("grouped_heads", LLAMA, "使用 GQA 时，K 和 V 的权重矩阵大小仍与 Q 相同。"),
    ("experts_counted_once", MIXTRAL, "All experts share the same parameters."),
    ("experts_counted_once", MIXTRAL, "The 8 experts are counted only once."),
    ("experts_counted_once", MIXTRAL, "The experts do not increase the number of parameters."),
    ("experts_counted_once", MIXTRAL, "所有专家共享同一套参数。"),
    ("experts_counted_once", MIXTRAL, "专家只需计算一次参数。"),
    ("experts_times_all", MIXTRAL, "Mixtral 8x7B has 8 × 7B = 56B parameters."),
    ("experts_times_all", MIXTRAL, "Mixtral 8x7B 的总参数量是 56B。"),
    ("tied_decoder", GPT2, "The LM head of GPT-2 adds another V × H parameters."),
    ("tied_decoder", GPT2, "GPT-2 的 lm_head 还有 V*H 个参数。"),
    ("positions_without_parameters", GPT2, "GPT-2 uses fixed sinusoidal positions."),
    ("heads_multiplied", GPT2, "Multiply this by the number of heads to get the parameters of Q."),
    (
        "no_output_projection",
        LLAMA,
        "Attention has three projections, q_proj, k_proj, v_proj, only.",
    ),
]

RIGHT = """
# Heads
The number of heads does not change the number of parameters.
The parameters are not multiplied by the number of heads.
Splitting into 12 heads leaves 3H² parameters, no matter how many heads there are.
The 12 heads of 64 dimensions are concatenated to 768.
Each head has three matrices of H × (H/A), so A heads have A × 3 × H × (H/A) = 3H².
The size of a head is the hidden size divided by the number of heads: 768/12 = 64.
The head size multiplied by the number of heads is the hidden size.
A common mistake is that the number of parameters is multiplied by the number of heads.
Some people multiply the parameters by the number of heads, which is wrong.
It is wrong to multiply by the number of heads.
Does the number of parameters grow with the number of heads?
The KV cache grows with the number of heads.
Is the total multiplied by the number of heads? No.
参数量与头数无关。
不管有多少个头，参数量都不变，不能再乘以头数。
每个头的参数量是 3*H*64，乘以头数 12 得到 3*H*H。
单头的参数为 768*768/12*3，头数为 12，再乘以 12。
有人认为参数量要乘以头数，其实不对。
d_k 乘以头数等于隐藏层维度。
每个头的维度 64 乘以头数 12 等于 768。
常见误区：参数量要乘以头数。
为什么参数量不用乘以头数？
单层线性变换参数量为 $ 3 \\times d_{\\text{model}} \\times d_k $，多头时需乘以头数 $ h $。
因为多头注意力是将向量拼接，所以维度乘以头数，参数矩阵也随之变大。
The weights project to the model dimension, the key size multiplied by the number of heads.
For the multihead version, the FLOPs, not the weights, are multiplied by the number of heads.
自注意力的参数量是 3*H*H，其中 m 的设置与头数有关，再乘上 m 的调节因子。
# Output projection
Besides W_Q, W_K and W_V there is an output projection W_O.
Attention has four matrices: query, key, value and output.
Three matrices W_Q, W_K and W_V project the input; a fourth, W_O, projects the heads.
The three matrices Q, K and V have 3H² parameters, and W_O has H² more.
Do not forget the output projection.
The concatenation itself has no parameters; the projection after it has H² + H.
It is easy to overlook that attention has not only the query, key and value matrices.
输入序列通过 3 个独立的线性变换矩阵（W_Q、W_K、W_V）生成 Q、K、V。
注意力的参数不只在 Q、K、V，多头拼接之后的投影还有 H²+H 个。
所有头的输出拼接后，通过输出投影矩阵（W_O）整合为最终结果。
拼接本身没有参数，之后还要乘以 W_O。
Q、K、V 三个矩阵的参数量为 3*H*H，再加上 W_O 的 H*H。
# Feed-forward
The first bias has 4H elements, the second H.
The second bias of the feed-forward network has H elements.
The two biases of the feed-forward network have 4H + H = 5H elements.
Ignoring biases, the feed-forward network has 8H² parameters.
Biases are ignored here.
前馈网络的两个偏置分别是 4H 和 H 维。
第二个线性层的偏置有 H 个元素。
此外涉及的bias由于参数很少,本文也并未加入。
第一个偏置有 F 个元素，不是 H 个。
每个偏置的长度等于输出维度。
# Pooler
The pooler has H² + H parameters.
The pooler does not just select the vector of the first token: it has 590,592 parameters.
Mean pooling has no parameters.
The pooler is a dense layer with tanh.
Without the pooler the model has 108,891,648 parameters.
If the pooler is not counted, there are no parameters after the last layer.
Contrary to what is often said, the pooler does have parameters; it is not true that it has none.
The pooler is not a classification head.
The classification head is put on top of the pooler.
The pooler output is passed to the classification head.
DistilBERT has no pooler.
RoBERTa's LM model has no pooler parameters.
平均池化没有可学习的参数。
池化层有 H²+H 个参数，它不是直接取 [CLS] 的向量。
有人说池化层没有参数，这是错误的。
池化层不是分类头。
分类头接在池化层之后，有 H*2 个参数。
不计池化层时，没有这 H²+H 个参数。
很多文章误以为 pooler 没有参数。
这些线性层参数是下游任务训练时学习的,不属于 BERT 预训练模型的池化层参数。
The pooling layer of a convolutional network contains no parameters.
The max-over-time pooling layer has no parameters.
# Norms
LayerNorm's two parameters are the scale and the shift, with H elements each.
The parameters of LayerNorm are gamma and beta, not the mean and variance.
LayerNorm normalizes with the mean and variance and then applies a learned scale and shift.
The mean and variance of LayerNorm are computed from the input and are not learned.
LayerNorm subtracts the mean and divides by the standard deviation, with 2H parameters.
LayerNorm has two learnable parameter vectors, gamma and beta.
A LayerNorm has two parameters of size H.
BatchNorm keeps running estimates of the mean and variance.
层归一化的参数为两个可学习的向量：缩放参数和偏移参数。
可学习的是缩放和平移；均值和方差由输入算出，不是参数。
LayerNorm 先减去均值再除以标准差，然后乘以 γ 加上 β，参数共 2H 个。
LayerNorm 的参数不是均值和方差，而是缩放和平移。
两个 LayerNorm，每个有 2×H 参数（权重和偏置）。
文章其实并没有写出layernorm层的参数,但是在代码中有,分别为gamma和beta。
每个 LayerNorm 有两个参数向量 γ 和 β，各 768 维。
RMSNorm has only a scale and no bias.
RMSNorm 没有偏置，只有 H 个参数。
Unlike LayerNorm, which has a scale and a bias, RMSNorm has only a scale.
LayerNorm has two learnable parameters: gamma and beta.
LayerNorm has two learnable parameters per feature: gain and bias.
Unlike RMSNorm, LayerNorm has two reductions (mean and variance) and a bias.
LayerNorm 根据均值和方差归一化，可学习参数为 γ 和 β。
# Ties
The decoder of the MLM head shares its weight with the token embedding.
The output layer is tied to the embedding, so it is counted once.
Counting the tied decoder twice makes the total 23,440,896 too high.
If the tied weight were counted twice, the total would be 133M.
The decoder adds only a bias of V elements.
MLM 头的解码器与词嵌入共享权重，只算一次。
共享的权重算一次还是两次，都会改变总数。
解码器的权重就是词嵌入，不另外计算 V×H。
# Q, K and V
Q, K and V come from the same input.
In self-attention, Q, K and V are all computed from the same X by different matrices.
The matrices W_Q, W_K and W_V have the same shape.
W_Q, W_K and W_V have the same number of parameters.
The inputs are the same, but the matrices are not.
Q、K、V 来自同一个输入 X。
如果是self-attention，输入的Q=K=V；如果是普通的attention，Q!=K=V。
Q、K、V 三个矩阵的形状相同。
W_Q、W_K、W_V 的大小是相同的，都是 H×H。
如果是selfattention,QKV,如果是普通的attention,Q!KV。
Q、K、V 的参数量相同，共 3H²。
encoding部分的Q、K、V是相同的均为输入值，经过不同的权重矩阵。
这里的q、k、v是相同的值copy三份，所以是self-attention，权重矩阵各不相同。
# Names
The hidden size H is 768 and the intermediate size d_ff is 3072.
Intermediate size (FFN hidden size): 3072
d_model is usually called the hidden size.
d_ff is four times the hidden size.
输入维度: d_model (通常称为 hidden size)
d_ff 是 hidden size 的 4 倍。
我们为每个头保持独立的查询、键、值权重矩阵。
X 乘以权重矩阵 W_Q 得到查询向量。
Multiplying X by the weight matrices W_Q, W_K and W_V gives the queries, keys and values.
经过 softmax 得到注意力权重矩阵。
# Parts
BERT consists of embeddings, an encoder and a pooler.
The layer consists of two parts, attention and feed-forward.
bert encoder 主要分为两部分,自注意力和前馈神经网络。
BERT 由嵌入层、编码器和池化层三部分组成。
The Transformer consists of two parts, the encoder and the decoder.
# Positions
BERT learns its position embeddings; the original Transformer uses fixed sine and cosine functions.
The original Transformer's sinusoidal encoding has no parameters.
Unlike the sinusoidal encoding, BERT's position embeddings are learned.
Sinusoidal encodings are not learned.
BERT 的位置嵌入是可学习的，而原始 Transformer 用固定的正弦和余弦函数。
BERT的位置嵌入是通过一个可训练的矩阵实现的，并且其长度通常固定(如512)
正弦位置编码没有可学习的参数。
位置编码不是正弦函数，而是可学习的参数，有 512*768 个。
Rotary positions have no parameters.
BERT's position embeddings are fixed at 512 positions.
加载模型时，对于 pooler 这类出现不需要的权重不发生报错。
# Steps without parameters
Softmax, dropout and GELU have no parameters.
Dropout does not add parameters.
Residual connections do not introduce additional parameters.
残差连接(Residual Connection)不引入额外的参数。
激活函数没有参数。
The layer after dropout has 768 × 768 parameters.
Dropout is applied to the parameters of the attention layer with probability 0.1.
The dropout probability is a hyperparameter.
dropout 的概率是一个超参数。
两个线性层+中间一个激活层
"""

RIGHT_ELSEWHERE = [
    (LLAMA, "The feed-forward network of Llama has three matrices: gate, up and down."),
    (LLAMA, "BERT's feed-forward network has two matrices; Llama's has three."),
    (LLAMA, "Unlike a network with two linear layers, SwiGLU has three matrices."),
    (LLAMA, "LLaMA 的前馈网络有三个矩阵，而不是两个。"),
    (LLAMA, "The two matrices gate and up have 2HF parameters, and down has HF more."),
    (LLAMA, "BERT's intermediate size is four times the hidden size; here it is 11008."),
    (LLAMA, "The rule that F = 4H does not hold for Llama."),
    (LLAMA, "GQA reduces the number of parameters of K and V."),
    (LLAMA, "With GQA the K and V projections are smaller than H × H."),
    (LLAMA, "Llama-2-7B does not use GQA, so K and V have H × H weights."),
    (LLAMA, "GQA 减少了 K 和 V 的参数量。"),
    (LLAMA, "The lm_head has V × H parameters, which are not shared with the embedding."),
    (LLAMA, "Rotary position embeddings have no parameters."),
    (LLAMA, "BERT uses LayerNorm with a bias, Llama uses RMSNorm without one."),
    (LLAMA, "The pooler of BERT has no parameters that Llama could use."),
    (LLAMA, "Transformer 的前馈神经网络是由两个线性层中间加一个 RELU 激活函数组成的。"),
    (LLAMA, "MLP 层由一个 GELU 激活函数，以及 A 和 B 两个线性层组成。"),
    (MIXTRAL, "Each token uses 2 of 8 experts, so only 12.9B parameters are active."),
    (MIXTRAL, "All experts have the same number of parameters."),
    (MIXTRAL, "Mixtral 8x7B has 46.7B parameters and not 56B."),
    (MIXTRAL, "The experts share the attention layers."),
    (MIXTRAL, "所有专家的结构相同，但参数各自独立。"),
    (MIXTRAL, "The attention parameters are shared by all experts and counted only once."),
    (MIXTRAL, "All experts must be in memory, although only two are used."),
    (GPT2, "The LM head of GPT-2 is tied to the token embedding and adds no parameters."),
    (GPT2, "GPT-2's position embeddings are learned: 1024 × 768."),
    (GPT2, "GPT-2 has no pooler and no segment embeddings."),
    (GPT2, "GPT-2 的 lm_head 与词嵌入共享 V*H 个参数。"),
]


UNSURE = """
Position embeddings are computed with sine and cosine, so they add no parameters.
位置嵌入是固定的，不需要学习。
前馈网络由两个线性层组成。
"""
"""Wrong of BERT, but perhaps said of another model: the sentence names none."""


def cases(table: dict[str, str]) -> list[tuple[str, str]]:
    listed = []
    for kind, sentences in table.items():
        listed += [(kind, sentence) for sentence in sentences.strip().splitlines()]
    return listed


@pytest.mark.parametrize(("kind", "sentence"), cases(WRONG))
def test_a_wrong_statement_is_found(kind, sentence):
    assert [claim.kind for claim in claims_in(sentence)] == [kind]


@pytest.mark.parametrize(("kind", "model", "sentence"), WRONG_ELSEWHERE)
def test_a_wrong_statement_about_another_model_is_found(kind, model, sentence):
    assert [claim.kind for claim in claims_in(sentence, model)] == [kind]


def wordings(of_set: str) -> list[tuple[tuple[str, str], str, str]]:
    """Return a set of `wordings.tsv`: model, kind and sentence.

    The patterns knew none of them. They found 36 of the first 60, were widened, found 45 of the
    next 55, and were widened again: these are `found`, and `missed` what they still do not find,
    because a right statement reads too much like it. Of the last 40, `held out`, they found 36; the
    patterns must not be changed for the sake of these.
    """
    models = {"BERT": BERT, "GPT2": GPT2, "LLAMA": LLAMA, "MIXTRAL": MIXTRAL}
    lines = Path(__file__).with_name("wordings.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return [
        (models[model], kind, sentence) for name, model, kind, sentence in rows if name == of_set
    ]


@pytest.mark.parametrize(("model", "kind", "sentence"), wordings("found"))
def test_other_wordings_are_found(model, kind, sentence):
    assert [claim.kind for claim in claims_in(sentence, model)] == [kind]


@pytest.mark.parametrize(("model", "kind", "sentence"), wordings("missed"))
def test_wordings_that_may_be_right_are_not_slips(model, kind, sentence):
    assert claims_in(sentence, model) == []


def test_nine_of_ten_wordings_that_the_patterns_do_not_know_are_found():
    held_out = wordings("held out")
    found = 0
    for model, kind, sentence in held_out:
        found += kind in {claim.kind for claim in claims_in(sentence, model)}
    assert found >= 0.9 * len(held_out) > 30


@pytest.mark.parametrize("sentence", [s for s in RIGHT.strip().splitlines() if s[0] != "#"])
def test_a_right_statement_is_not_a_slip(sentence):
    assert claims_in(sentence) == []


@pytest.mark.parametrize(("model", "sentence"), RIGHT_ELSEWHERE)
def test_a_right_statement_about_another_model_is_not_a_slip(model, sentence):
    assert claims_in(sentence, model) == []


@pytest.mark.parametrize("sentence", UNSURE.strip().splitlines())
def test_what_may_be_said_of_another_model_is_not_a_slip(sentence):
    assert claims_in(sentence) == claims_in(sentence, LLAMA) == []


# The article around a sentence


@pytest.mark.parametrize(
    "text",
    [
        "A common mistake. The pooler has no parameters.",
        "The pooler has no parameters. This is wrong: it has H² + H.",
        "The pooler has no parameters, which is wrong.",
        "Common mistakes\n\n- The pooler has no parameters.\n- Q = K = V, so count one matrix.",
        "## 常见误区\n1. 池化层没有参数。\n2. LayerNorm 的参数是均值和方差。",
        "池化层没有参数。其实它有 H²+H 个。",
        "有一种错误的说法。LayerNorm 的参数是均值和方差。",
        "池化层没有参数吗？",
        "Does this mean that the pooler has no parameters?",
        "Unlike in BERT, RoBERTa's pooler has no parameters.",
    ],
)
def test_what_an_article_calls_wrong_is_not_its_own_slip(text):
    assert claims_in(text) == []


def test_a_claim_may_go_on_in_the_next_line():
    wrapped = (
        "The last part of the model is a small layer on top. In the base model, the pooler\n"
        "has no learnable parameters of its own."
    )
    (claim,) = claims_in(wrapped)
    assert claim == ((1, 75, 81), "pooler_no_parameters", "slip")
    assert claims_in(wrapped.replace("pooler\n", "pooler\n\n")) == []
    assert claims_in("Pooler\nhas no parameters") == []


def test_a_claim_says_where_it_stands():
    text = "First line.\nSo **the pooler** 本身  没有 参数。"
    (claim,) = claims_in(text)
    assert claim.at.line == 2
    assert text.splitlines()[1][claim.at.start : claim.at.end] == "pooler** 本身  没有 参数"


def test_an_unknown_model_may_have_no_pooler():
    lines = lines_of("The pooler has no parameters.\nMultiply the weights by the number of heads.")
    assert [claim.kind for claim in find_claims(lines, (), "")] == ["heads_multiplied"]


def test_a_model_without_the_component_is_not_blamed():
    assert claims_in("The pooler has no parameters.", LLAMA) == []
    assert claims_in("The experts are counted only once.", LLAMA) == []


def test_no_lines():
    assert find_claims([], (), "") == []


# The five published articles

PUBLISHED = {
    "000": [(78, "inner_size_name", "remark"), (110, "pooler_no_parameters", "slip")],
    "001": [],
    "002": [(17, "qkv_same", "slip"), (25, "norm_statistics", "slip")],
    "003": [(61, "pooler_is_classifier", "remark")],
    "004": [(13, "no_pooler_part", "remark"), (53, "weights_for_vectors", "slip")],
}


@pytest.mark.skipif(not ARTICLES.is_dir(), reason="the published articles are not here")
@pytest.mark.parametrize(("name", "expected"), PUBLISHED.items())
def test_published_articles(name, expected):
    (path,) = ARTICLES.glob(f"{name}_*.txt")
    claims = claims_in(path.read_text(encoding="utf-8"))
    assert [(claim.at.line, claim.kind, claim.rank) for claim in claims] == expected


# What `explain` writes is right

EXPLAINED = [
    *("bert-base-chinese", "roberta-base", "gpt2", "t5-small", "meta-llama/Llama-2-7b-hf"),
    *("mixtral", "deepseek_v3", "albert-base-v2", "distilbert-base-uncased", "electra", "qwen2"),
    *("qwen3_moe", "gemma2", "bart", "vit", "clip", "falcon", "bloom", "mamba", "opt"),
]


@pytest.mark.sampled("src/weighbridge/articles", "src/weighbridge/answers/explain")
@pytest.mark.parametrize("model", EXPLAINED)
def test_explain_makes_no_wrong_statement(model):
    for lang in data.LANGUAGES:
        article = weighbridge.explain(model, lang=lang)
        roles = {entry.template.role for entry in article.weighing.ledger.entries}
        family = article.weighing.model.blueprint.family
        heading = data.read_toml(f"words/explain.{lang}.toml")["wrong"]
        for text in (article.text(), article.markdown(), article.html(), article.latex()):
            plain = re.sub(r"<[^>]*>", "", text).replace(heading, "")
            assert find_claims(lines_of(plain), roles, family) == []


def test_every_kind_has_its_words():
    kinds = {claim["kind"] for claim in data.read_toml("facts/claims.toml")["claim"]}
    for lang in data.LANGUAGES:
        assert data.read_toml(f"words/audit.{lang}.toml")["claims"].keys() >= kinds
