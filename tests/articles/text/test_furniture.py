"""`articles.text.furniture`: what on a page is not about the model, and where the article ends.

In the samples the furniture stands between « and ». All other numbers must not be called furniture.
"""

import re
from pathlib import Path

import pytest

from weighbridge import data
from weighbridge.articles.text.furniture import NUMBER, end_of_article, furniture
from weighbridge.articles.text.lines import BOILERPLATE, ArticleLine

ARTICLES = Path(__file__).parents[4] / "shared" / "articles"


def lines_of(text: str) -> list[ArticleLine]:
    return [ArticleLine(number, line) for number, line in enumerate(text.splitlines(), 1)]


def marked(text: str) -> str:
    """Return a text with « and » around its furniture."""
    verdicts = {(verdict.at.line, verdict.at.start) for verdict in furniture(lines_of(text))}
    shown = []
    for line in lines_of(text):

        def mark(match: re.Match[str], number: int = line.number) -> str:
            is_furniture = (number, match.start()) in verdicts
            return f"«{match[0]}»" if is_furniture else match[0]

        shown.append(NUMBER.sub(mark, line.text))
    return "\n".join(shown)


# One line each. A topic line stands above and below, so that the line is not the page's end.

LINES = """
# Names
BERT-base has 12 layers, GPT-«2» has 12 layers too, and W«1» is a 768 × 3072 matrix.
GPT-«2» (124M), GPT-«3» with 175 billion parameters and GPT-«3.5» are decoders.
Llama «2» uses RMSNorm; Llama-«2»-«7»b has 6,738,415,616 parameters and 32 layers.
meta-llama/Llama-«3.1»-«8»B is Llama «3.1» with 8 key-value heads.
Mixtral «8»x«7»B has 8 experts of which 2 are used.
Qwen«2.5»-«7»B has a vocabulary of 152064 and hidden size 3584.
DeepSeek-V«3» has 61 layers and 671B parameters.
ChatGLM«3»-«6»B 的隐藏层维度为 4096，共 28 层。
T«5»-small has 60M parameters, 6 layers and 8 heads.
Conv«1»D stores the weight as 768 × 2304.
An H«100» has 80GB, an A«100» 40GB.
The file is in int«8», float«32» or bf«16»; «4»-bit
Written in C++«17» and Python «3.11» with PyTorch «2.0».
The code of transformers «4.30».«2» on Ubuntu «22.04» with CUDA «11.8».
word«2»vec and seq«2»seq came before.
ResNet-«50» has 25,557,032 parameters.
The L«2» norm is not a LayerNorm.
We report F«1» on SQuAD v«1.1» and the CoNLL-«2003» set.
FFN(x) = max(0, xW«1» + b«1»)W«2» + b«2»
词向量的维度均为768，W«1»，W«2»，W«3» 的维度为768x64
C++«17» 的代码在 RTX «4090» 上运行
ViT-B/«16» has 86M parameters.
bert-large-uncased-whole-word-masking has 24 layers, H=1024, A=16.
the encoder.layer.«11».output.dense.weight is 768 × 3072
# Not names
h12 是头的数量，dmodle768 是模型的大小，lenx768
vocabsize30522,hiddensize768,maxpositionembeddings512,tokentypeembeddings2
H2 = 768 * 768 = 589824
BERT 12 layers, T«5» 24 layers
Q1536 and V30522
H=768, L=12, A=12, F=3072
d_model=768, d_k=64, n_heads=12
Llama 32 layers, 32 heads
Gemma 2 layers
x = 2 * 768 and W = 768 * 64
# Numbering
Figure «3»: the encoder has 12 layers
Fig. «2» shows the 12 heads of 64 dimensions
see Table «1», Section «3.2» and Eq. («4») for the 768 dimensions
图 «3» 可以看出 768 维
由图«3» 可以看出, 输入维度是 21128 ,输出维度是 768
图«1»,我们导入模型，12 层
表«2» 给出 12 层的参数
Step «1»: multiply 768 by 3072
步骤«2»：计算 4 × 768 × 768
公式(«3»)中的 768
«1». Embedding layer: 30522 × 768
«2.1» self-attention部分 12 个头
«3.1».«2»通过矩阵运算实现自注意力机制
## «2.3» The 12 layers
«3»、前馈网络 768 到 3072
(«2») Attention: 4 matrices of 768 × 768
（«4»）LayerNorm 有 2 × 768 个参数
第 «3» 层的 768 维输出
第«2»部分 嵌入层 30522
layer «0» to layer «11» all have 7,087,872
(«0»): BertLayer(
In [«12»]: 768 * 64
参数(305225122)768(«2»)第二:multiheads参数
Bert 中token type 只有«0» 和«1»,因此,转换器输入为2维
大模型/NLP/算法«4»——bert参数量计算
# Not numbering
12 layers, each with 7,087,872 parameters
768 维的向量
12 heads of 64
2 * H
21128就是bert字典的大小
1.1 亿参数
110M parameters in all
3.4 billion parameters
1.18M parameters
layer 12 * 7,087,872 = 85,054,464
每层 12 个头
(512, 768)
Number of layers: 12
embedding 2*h
图 768 * 64
the 12 layers and 12 heads
number of heads 12
Total params: 109,482,240
109,482,240
= 102267648
Total: 110M
总计 102267648
Linear(in_features=768, out_features=3072, bias=True)
Embedding(30522, 768, padding_idx=«0»)
torch.Size([30522, 768])
shape [768]
shape: [12, 64]
[768, 3072]
the size is [64]
bert.pooler.dense.weight [768, 768] 589824
| pooler.dense.bias | 768 |
hidden size of 2048 and 2000 units
in 2048 dimensions
from 768 to 3072
V(词表大小)*h(指定向量维度,base中是768)+2*h+512*h+2*h
3 * H^2 + 3 * H
(4*h*h+4*h+h*4*h + 4*h+4*h*h+h+2*2*h)*12+h*h+h=102267648
12 × 7,081,960 = 84,983,520
2.36M + 4.72M = 7.08M
22% of the parameters
16,622,592 / 102,267,648 = 16.3%
每头 64 维，共 12 个头，每个头关注 64 维
4 matrices of 768×768, so 4 × 589,824
14 classes, 14 labels
the 14 分类任务 768
512 tokens at most
a vocabulary of 30,522 tokens
词表有 21128 个词
8 experts, 2 of them active
2 segments
438 MB at 4 bytes each
417.6 MiB
size 2 x 768
2 x 768 = 1536
1 pooler
12 encoder layers
H = 12. V = 30522. N = 512.
# Dates, years and times
Published on Jan «5», «2024» · 12 layers
«2023»-«08»-«09» «12»:«30»:«05» 首次发布
于 «2023»-«06»-«01» «15»:«32»:«19» 发布
已于 «2022»年«3»月«4»日修改
发布于 «2021»-«03»-«04» «20»:«11»
BERT (Devlin et al., «2018») has 12 layers
BERT was published in «2018» and has 110M parameters
Devlin et al. («2019») give 340M
© «2019»-«2024» the authors
answered Mar «4», «2021» at «12»:«30»
asked «3» years, «2» months ago
«10»月«18»日,大会召开
It took «4» days on «16» TPU chips.
It takes «5» minutes and «300» ms.
We train for «3» epochs with batch size «32» and a learning rate of «2e-5».
学习率为 «1e-4»，批大小 «256»，训练 «40» 个 epoch
学习率设置为«5e-5»，batch_size=«16»，epochs=«3»
dropout «0.1», eps=«1e-12», weight decay of «0.01», β«1»=«0.9»
(dropout): Dropout(p=«0.1», inplace=False)
(LayerNorm): LayerNorm((768,), eps=«1e-12», elementwise_affine=True)
warmup over the first «10,000» steps
accuracy of «92.3»% on the test set
准确率达到 «92.3»%，F«1» 为 «88.5»
«15»% of the tokens are masked
«80»% of the time
# Things
a set of «10» examples
BooksCorpus («800»M words) and Wikipedia («2,500»M words)
«104» languages and «11» NLP tasks
训练用了 «16» 块 TPU，«33» 亿词
«9,700» 张图片
trained on «300»B tokens
«40»GB of text
«8» GPUs
# Likes, prices and addresses
«1,234» likes · «56» comments
«123» 人赞同了该文章
阅读 «1.2»万 · 点赞 «56» · 收藏 «78»
阅读量«3456»
posted @ «2021»-«03»-«04» «12»:«30» 某人 阅读(«1234») 评论(«5») 编辑 收藏 举报
Viewed «12»k times
«5» min read · 12 layers
«8» min read
全文共 «3200» 字
¥«9.9» 一个月
It costs $«0.12» per hour
红包金额最低«5»元
当前余额«3.43»前往充值 >
https://blog.csdn.net/name/article/details/«107547338»?spm=«1001.2014»
see arXiv:«1810.04805» for 768
BERT [«12»] and GPT [«3», «4»]. Both have 12 layers.
[«12»] Devlin, J. BERT.
pages «4171»–«4186»
issue #«123» of the repository
softmax 会趋向于«0»
the weights sum to «1» over 512 positions
# Written after the patterns: of these 60 they found 55 at once, and none of the 51 others
RoBERTa-base was released in July «2019» and has 125M parameters.
文章首发于 «2022»-«11»-«03»，阅读约 «8» 分钟
The model was trained on «64» V«100» GPUs for «2» days.
我们用 «8» 张 A«100» 训练了 «3» 个 epoch，学习率 «2e-5»
DistilBERT keeps «97»% of BERT's performance with 66M parameters and 6 layers.
Run `pip install transformers==«4.41».«2»` first.
Let us start with Part «1»: the embeddings (30522 × 768).
Step «3». Multiply by 12.
Llama-«3»-«70»B has 80 layers, 64 heads and 8 key-value heads.
Chapter «5»: counting 12 layers
- [x] «3». Pooler: 590,592
GPT-«2» small: 12 layers, 768 dims, 124,439,808 parameters
ALBERT xxlarge v«2» has 235M parameters.
（«2»）多头注意力：4 个 768×768 的矩阵
二、(«1») 位置编码 512*768
【«12»】参考 «2017» 年的论文
代码运行时间 «0.35»s，参数量 109482240
Published in Towards AI · «7» min read · Apr «18», «2024»
«2.3»k claps
点赞 «128»　收藏 «256»　评论 «12»
Sep «12», «2020» at «14»:«22»
The WordPiece vocabulary has 30,522 entries, 768 dims each.
MNLI accuracy is «84.6», and SQuAD v«1.1» F«1» is «88.5».
In «2018», BERT-large with 340M parameters was the largest.
T«5»-«11»B has 24 layers and d_ff = 65536.
wiki 上的 «25» 亿词与 BooksCorpus 的 «8» 亿词
The first 768 dimensions
The vector has 768 numbers, 12 × 64.
共 12 个 Transformer block，每个 block 7,087,872 参数
from transformers import GPT«2»Model
base: 12/768/12/110M; large: 24/1024/16/340M
hidden_size=4096, intermediate_size=11008, num_hidden_layers=32
总计：«1». 词嵌入 23,440,896；«2». 位置嵌入 393,216
两个 LayerNorm 共 4*768 个参数
model.layers.«31».self_attn.q_proj.weight torch.Size([4096, 4096])
The tokenizer yields 128 tokens at most.
Question «2»: how many parameters has a layer of 12 heads?
Copyright © «2023» CSDN
ID: «123456789»
本文共 «2345» 字，预计阅读 «6» 分钟
"""
SAMPLES = [line for line in LINES.strip().splitlines() if not line.startswith("# ")]


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_line_has_exactly_the_furniture_that_is_marked(sample):
    topic = "The attention layer has H*H = 589824 parameters."
    text = re.sub("[«»]", "", sample)
    assert marked(f"{topic}\n{text}\n{topic}").splitlines()[1] == sample


# Whole pages: the article ends before the line that begins with ¶

PAGES = {
    "zhihu": """
首发于
深度学习笔记
写文章
BERT 参数量计算
小明
算法工程师
关注他
«123» 人赞同了该文章
目录
收起
«1». 嵌入层
词向量 V*H = 30522*768 = 23440896
位置编码 512*768 = 393216
«2». 总参数量
109482240
¶编辑于 «2021»-«03»-«04» «20»:«11»・IP 属地北京
BERT
Transformer
赞同 «123»
«5» 条评论
分享
喜欢
收藏
申请转载
推荐阅读
GPT-«2» 的参数量 «124»M
«7» 赞同 · «3» 评论 文章
""",
    "csdn": """
BERT参数量计算
最新推荐文章于 «2024»-«05»-«06» «10»:«20»:«30» 发布
hope
于 «2023»-«06»-«01» «15»:«32»:«19» 发布
阅读量«1.2»w
 收藏 «56»
点赞数 «12»
分类专栏： NLP 文章标签： bert 深度学习
版权声明：本文为博主原创文章，遵循 CC «4.0» BY-SA 版权协议，转载请附上原文出处链接和本声明。
本文链接：https://blog.csdn.net/a/article/details/«123456789»
每层有 4*768*768 = 2359296 个参数
一共 12 层
«1»
«2»
«3»
«4»
¶确定要放弃本次机会？
福利倒计时
«00»:«12»:«59»
立减 ¥ «5»
普通VIP年卡可用
立即使用
关注
«5»
点赞
踩
«6»
收藏
«0»
评论
专栏目录
BERT模型参数量计算，«12»层«768»维
weixin_«12345»的博客
«03»-«15»
«4567»
""",
    "cnblogs": """
随笔 - «120», 文章 - «0», 评论 - «34», 阅读 - «56789»
BERT 的参数量
BERT-base：L=12，H=768，A=12，共 110M 参数
Q、K、V 共 3*768*768 = 1769472
¶posted @ «2020»-«10»-«11» «12»:«13» 某人 阅读(«1234») 评论(«5») 编辑 收藏 举报
刷新评论 刷新页面 返回顶部
登录后才能查看或发表评论，立即 登录 或者 逛逛 博客园首页
推荐«10»个AI工具
· BERT 家族 «12» 讲
""",
    "juejin": """
BERT 参数量
用户«123456» «2023»-«01»-«02» «1234» 阅读«5»分钟
隐藏层 768，12 层
前馈 2*768*3072 = 4718592
¶标签：
人工智能 NLP
评论 «0»
登录 / 注册 即可发布评论！
暂无评论数据
«12»
«3»
收藏
为你推荐
LLaMA «7»B 的推理
«2»年前 «1.2»k «34» «5»
""",
    "medium": """
How many parameters does BERT have?
Jane Doe
Follow
«5» min read
·
Jan «5», «2024»
«127»
«3»
Listen
Share
The token embedding has 30522 × 768 = 23,440,896 parameters.
There are 12 layers with 7,087,872 parameters each.
In total 109,482,240 parameters.
¶Thanks for reading!
Bert
NLP
«127»
«3»
Written by Jane Doe
«1.2»K followers
·«56» following
Responses («3»)
See all responses
More from Jane Doe
The GPT-«3» model with its «175» billion parameters explained
Mar «3», «2023»
Recommended from Medium
Attention heads in «10» minutes
""",
    "towardsdatascience": """
Towards Data Science
Counting the weights of GPT-«2»
John · «11» min read
Feb «12», «2023»
GPT-«2» has 12 layers and a hidden size of 768.
Position embeddings: 1024 × 768 = 786,432.
¶Written By
John
Share This Article
Related Articles
How to train GPT-«3» with «8» GPUs
August «13», «2024» «6» min read
Towards Data Science is a community publication.
""",
    "dev.to": """
«1»
Ana
Posted on Mar «4», «2022»
• Originally published at example.com
Count the parameters of a Transformer
#ai #nlp
Each layer has 12 * 768 * 768 = 7,077,888 weights.
So 12 layers have 84,934,656.
¶Top comments («3»)
Subscribe
Code of Conduct • Report abuse
Read next
«5» ways to use Python «3.12»
Bob - Jan «3»
""",
    "substack": """
The size of a Llama
And why it is 7B
Mar «03», «2024»
«45»
«2»
Share
Hidden size 4096, 32 layers, FFN 11008.
3 × 4096 × 11008 = 135,266,304 for each layer.
¶Subscribe to The Letter
By Ana · Launched «2» years ago
«45» Likes
«2» Restacks
Discussion about this post
Ready for more?
""",
    "stackexchange": """
How is the number of parameters of BERT calculated?
Asked «4» years, «8» months ago
Modified «1» year, «2» months ago
Viewed «12»k times
«21»
The paper says that BERT-base has 110M parameters.
Share
Improve this question
edited Mar «4», «2021» at «12»:«30»
asked Mar «3», «2021» at «9»:«15»
«3» Answers
Sorted by:
«45»
The embeddings have 30522 * 768 + 512 * 768 + 2 * 768 = 23,835,648.
Then 12 layers have 85,054,464.
¶Share
Improve this answer
answered Mar «5», «2021» at «10»:«00»
user«1234»
«1»,«2342» gold badges«12» silver badges«34» bronze badges
Your Answer
Not the answer you're looking for? Browse other questions tagged bert or ask your own question.
Linked
«3»
What is the number of heads of BERT?
Related
«12»
Number of parameters of GPT-«3»
Hot Network Questions
""",
    "github": """
user/bert-size
Star «1.2»k
Fork «56»
Issues «12»
Pull requests «3»
README
Counts the parameters of BERT: 12 layers with H = 768.
The pooler has 768*768 + 768 = 590592.
¶License
MIT
About
Releases «4»
v«1.2» Latest
«2024»-«05»-«06»
Packages
Contributors «3»
Languages
Python «98.5»%
© «2024» GitHub, Inc.
""",
    "arxiv": """
BERT: Pre-training of Deep Bidirectional Transformers
arXiv:«1810.04805»v«2» [cs.CL] «24» May «2019»
«3.1» Model
BERT-base has L=12, H=768, A=12 and 110M parameters in total.
The feed-forward size is 4H, i.e., 3072 for H = 768, as in Vaswani et al. («2017»).
¶References
[«1»] J. Devlin. Twelve («12») heads and «110»M parameters. NAACL, pages «4171»–«4186», «2019».
[«2»] T. Brown. NeurIPS, «33»:«1877»–«1901», «2020».
Generated on Wed Mar «5» «12»:«30»:«01» «2024» by LaTeXML
""",
    "the total is last": """
点赞收藏不迷路
12 层，H=768

= 102267648
""",
    "the total follows a button": """
12 层，H=768
点赞
«12»

总参数量 109482240
""",
    "titles of other pages, without any word of a site": """
Bert 的 encoder 参数，12 层，共 768*768
那些让你在深夜哭过笑过的歌你听过哪些呢
¶第«7»首情书，«2015»年，有 «123456» 人听过
«10»月«18»日，大会召开
""",
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_pages(page):
    text = re.sub("[«»¶]", "", page)
    lines = lines_of(text)
    end = end_of_article(lines)
    after = next((n for n, line in enumerate(page.splitlines(), 1) if line[:1] == "¶"), None)
    assert marked(text).splitlines() == page.replace("¶", "").splitlines()
    if after:
        between = [line.text for line in lines[end : after - 1]]
        assert end < after
        assert not any(re.search(r"\d.*\D", text) for text in between)
    else:
        assert end == len(lines)


@pytest.mark.skipif(not ARTICLES.is_dir(), reason="the published articles are not here")
@pytest.mark.parametrize(
    ("name", "last"), [("000", 121), ("001", 27), ("002", 32), ("003", 68), ("004", 88)]
)
def test_published_articles_end_before_the_site(name, last):
    (path,) = ARTICLES.glob(f"{name}_*.txt")
    lines = lines_of(path.read_text(encoding="utf-8"))
    end = end_of_article(lines)
    assert end <= last
    assert not any(NUMBER.search(line.text) for line in lines[end:last])


def test_every_reason_has_its_words():
    groups = data.read_toml("facts/furniture.toml")["furniture"]
    reasons = {group["reason"] for group in groups} | {"site"}
    for lang in data.LANGUAGES:
        assert reasons <= data.read_toml(f"words/audit.{lang}.toml")["reasons"].keys()


def test_no_lines():
    assert furniture([]) == []
    assert end_of_article([]) == 0


def test_a_verdict_says_where_the_number_stands():
    (verdict,) = furniture([ArticleLine(7, "H = 768 for GPT-2")])
    assert verdict[:4] == ((7, 16, 17), "2", BOILERPLATE, "name")


def test_a_long_page_is_read_in_linear_time():
    text = "12 (3) [4] 5.6 layers of 768 * 64, " * 500
    assert len(furniture([ArticleLine(n, text) for n in range(1, 4)])) > 0


def test_line_numbers_of_code_and_headings_without_a_dot():
    code = "«1» import torch\n«2» from transformers import BertModel\n«3» print(768 * 64)"
    headings = "«1» Embedding\nH = 768\n«2» Encoder\n12 layers\n«3» Pooler"
    one = "1 pooler\nH = 768\n12 layers"
    for sample in (code, headings, one):
        assert marked(re.sub("[«»]", "", sample)) == sample
