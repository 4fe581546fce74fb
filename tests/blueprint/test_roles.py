"""The roles of the tensors of important families, and patterns that all match something."""

import re
from pathlib import Path

import pytest

from weighbridge import data
from weighbridge.blueprint.roles import component_of, role_of

FACTS = data.read_toml("facts/roles.toml")
PATTERNS = [
    (role, text)
    for role, *patterns in filter(None, map(str.split, FACTS["names"].splitlines()))
    if role != "#"
    for text in patterns
]
LLAMA = {
    "model.embed_tokens.weight": "embedding.token",
    "model.layers.{i}.self_attn.q_proj.weight": "attention.query",
    "model.layers.{i}.self_attn.k_proj.weight": "attention.key",
    "model.layers.{i}.self_attn.v_proj.weight": "attention.value",
    "model.layers.{i}.self_attn.o_proj.weight": "attention.output",
    "model.layers.{i}.input_layernorm.weight": "attention.norm",
    "model.norm.weight": "norm.final",
    "lm_head.weight": "head.lm",
}
GATED = {
    "model.layers.{i}.mlp.gate_proj.weight": "ffn.gate",
    "model.layers.{i}.mlp.up_proj.weight": "ffn.up",
    "model.layers.{i}.mlp.down_proj.weight": "ffn.down",
}
EXPERTS = {
    "model.layers.{i}.mlp.experts.gate_up_proj": "expert.gate_up",
    "model.layers.{i}.mlp.experts.down_proj": "expert.down",
    "model.layers.{i}.mlp.gate.weight": "router",
}
PRE_NORM = {"model.layers.{i}.post_attention_layernorm.weight": "ffn.norm"}
QK_NORM = {
    "model.layers.{i}.self_attn.q_norm.weight": "attention.query_norm",
    "model.layers.{i}.self_attn.k_norm.weight": "attention.key_norm",
}
BERT = {
    "embeddings.word_embeddings.weight": "embedding.token",
    "embeddings.position_embeddings.weight": "embedding.position",
    "embeddings.token_type_embeddings.weight": "embedding.segment",
    "embeddings.LayerNorm.bias": "embedding.norm",
    "encoder.layer.{i}.attention.self.query.weight": "attention.query",
    "encoder.layer.{i}.attention.self.key.bias": "attention.key",
    "encoder.layer.{i}.attention.self.value.weight": "attention.value",
    "encoder.layer.{i}.attention.output.dense.weight": "attention.output",
    "encoder.layer.{i}.attention.output.LayerNorm.weight": "attention.norm",
    "encoder.layer.{i}.crossattention.self.query.weight": "cross_attention.query",
    "encoder.layer.{i}.crossattention.self.key.weight": "cross_attention.key",
    "encoder.layer.{i}.crossattention.self.value.weight": "cross_attention.value",
    "encoder.layer.{i}.crossattention.output.dense.weight": "cross_attention.output",
    "encoder.layer.{i}.crossattention.output.LayerNorm.weight": "cross_attention.norm",
    "encoder.layer.{i}.intermediate.dense.weight": "ffn.up",
    "encoder.layer.{i}.output.dense.bias": "ffn.down",
    "encoder.layer.{i}.output.LayerNorm.weight": "ffn.norm",
    "classifier.weight": "head.classifier",
}
BERT_HEAD = {
    "cls.predictions.bias": "head.mlm.bias",
    "cls.predictions.transform.dense.weight": "head.mlm.transform",
    "cls.predictions.transform.LayerNorm.weight": "head.mlm.norm",
    "cls.predictions.decoder.weight": "head.mlm.decoder",
}
ROBERTA_HEAD = {
    "lm_head.bias": "head.mlm.bias",
    "lm_head.dense.weight": "head.mlm.transform",
    "lm_head.layer_norm.weight": "head.mlm.norm",
    "lm_head.decoder.weight": "head.mlm.decoder",
}
BART = {
    "model.shared.weight": "embedding.token",
    "model.encoder.layers.{i}.self_attn.q_proj.weight": "attention.query",
    "model.encoder.layers.{i}.self_attn.out_proj.weight": "attention.output",
    "model.encoder.layers.{i}.self_attn_layer_norm.weight": "attention.norm",
    "model.encoder.layers.{i}.fc1.weight": "ffn.up",
    "model.encoder.layers.{i}.fc2.weight": "ffn.down",
    "model.encoder.layers.{i}.final_layer_norm.weight": "ffn.norm",
    "model.decoder.embed_tokens.weight": "embedding.token",
    "model.decoder.embed_positions.weight": "embedding.position",
    "model.decoder.layers.{i}.self_attn.k_proj.weight": "attention.key",
    "model.decoder.layers.{i}.encoder_attn.q_proj.weight": "cross_attention.query",
    "model.decoder.layers.{i}.encoder_attn.k_proj.weight": "cross_attention.key",
    "model.decoder.layers.{i}.encoder_attn.v_proj.bias": "cross_attention.value",
    "model.decoder.layers.{i}.encoder_attn.out_proj.weight": "cross_attention.output",
    "model.decoder.layers.{i}.encoder_attn_layer_norm.weight": "cross_attention.norm",
    "model.decoder.layers.{i}.fc1.weight": "ffn.up",
    "model.decoder.layers.{i}.final_layer_norm.weight": "ffn.norm",
}
GPT2 = {
    "transformer.wte.weight": "embedding.token",
    "transformer.h.{i}.ln_1.weight": "attention.norm",
    "transformer.ln_f.weight": "norm.final",
    "lm_head.weight": "head.lm",
}
FUSED = {
    "transformer.word_embeddings.weight": "embedding.token",
    "transformer.h.{i}.self_attention.query_key_value.weight": "attention.qkv",
    "transformer.h.{i}.self_attention.dense.weight": "attention.output",
    "transformer.h.{i}.mlp.dense_h_to_4h.weight": "ffn.up",
    "transformer.h.{i}.mlp.dense_4h_to_h.weight": "ffn.down",
    "transformer.h.{i}.input_layernorm.weight": "attention.norm",
}
LATENT = {
    "model.layers.{i}.self_attn.q_a_proj.weight": "attention.q_down",
    "model.layers.{i}.self_attn.q_a_layernorm.weight": "attention.q_down_norm",
    "model.layers.{i}.self_attn.q_b_proj.weight": "attention.q_up",
    "model.layers.{i}.self_attn.kv_a_proj_with_mqa.weight": "attention.kv_down",
    "model.layers.{i}.self_attn.kv_a_layernorm.weight": "attention.kv_down_norm",
    "model.layers.{i}.self_attn.kv_b_proj.weight": "attention.kv_up",
    "model.layers.{i}.mlp.shared_experts.gate_proj.weight": "shared_expert.gate",
    "model.layers.{i}.mlp.shared_experts.down_proj.weight": "shared_expert.down",
}
MAMBA = {
    "backbone.embeddings.weight": "embedding.token",
    "backbone.layers.{i}.norm.weight": "norm",
    "backbone.layers.{i}.mixer.in_proj.weight": "ssm.in",
    "backbone.layers.{i}.mixer.conv1d.weight": "ssm.conv",
    "backbone.layers.{i}.mixer.A_log": "ssm.a",
    "backbone.layers.{i}.mixer.D": "ssm.d",
    "backbone.layers.{i}.mixer.out_proj.weight": "ssm.out",
    "backbone.norm_f.weight": "norm.final",
}
VIT = {
    "embeddings.cls_token": "embedding.class",
    "embeddings.position_embeddings": "embedding.position",
    "embeddings.patch_embeddings.projection.weight": "embedding.patch",
    "layernorm.weight": "norm.final",
}
CLIP = {
    "text_model.embeddings.token_embedding.weight": "embedding.token",
    "text_model.embeddings.position_embedding.weight": "embedding.position",
    "text_model.encoder.layers.{i}.self_attn.out_proj.weight": "attention.output",
    "text_model.encoder.layers.{i}.layer_norm1.weight": "attention.norm",
    "text_model.encoder.layers.{i}.layer_norm2.weight": "ffn.norm",
    "text_model.encoder.layers.{i}.mlp.fc1.weight": "ffn.up",
    "text_model.final_layer_norm.weight": "norm.final",
    "vision_model.embeddings.patch_embedding.weight": "embedding.patch",
    "vision_model.encoder.layers.{i}.mlp.fc2.weight": "ffn.down",
    "vision_model.post_layernorm.weight": "norm.final",
    "logit_scale": "head.contrastive.scale",
}
QWEN_VL = {
    "model.visual.patch_embed.proj.weight": "embedding.patch",
    "model.visual.blocks.{i}.norm1.weight": "attention.norm",
    "model.visual.blocks.{i}.norm2.weight": "ffn.norm",
    "model.visual.blocks.{i}.attn.qkv.weight": "attention.qkv",
    "model.visual.blocks.{i}.attn.proj.weight": "attention.output",
    "model.language_model.embed_tokens.weight": "embedding.token",
    "model.language_model.layers.{i}.mlp.up_proj.weight": "ffn.up",
    "model.language_model.norm.weight": "norm.final",
}
WAV2VEC2 = {
    "feature_extractor.conv_layers.{i}.conv.weight": "embedding.feature",
    "feature_extractor.conv_layers.{i}.layer_norm.weight": "embedding.feature",
    "feature_projection.projection.weight": "embedding.feature",
    "encoder.pos_conv_embed.conv.parametrizations.weight.original0": "embedding.position",
    "encoder.layers.{i}.attention.q_proj.weight": "attention.query",
    "encoder.layers.{i}.attention.out_proj.weight": "attention.output",
    "encoder.layers.{i}.layer_norm.weight": "attention.norm",
    "encoder.layers.{i}.feed_forward.intermediate_dense.weight": "ffn.up",
    "encoder.layers.{i}.feed_forward.output_dense.weight": "ffn.down",
    "encoder.layers.{i}.final_layer_norm.weight": "ffn.norm",
    "masked_spec_embed": "embedding.class",
}
TABLE = {
    "bert ernie": BERT
    | BERT_HEAD
    | {"cls.seq_relationship.weight": "head.nsp", "pooler.dense.weight": "pooler"},
    "ernie": {"embeddings.task_type_embeddings.weight": "embedding.segment"},
    "roberta xlm-roberta": BERT | ROBERTA_HEAD | {"classifier.out_proj.weight": "head.classifier"},
    "electra": BERT
    | {
        "embeddings_project.weight": "embedding.projection",
        "generator_predictions.dense.weight": "head.mlm.transform",
        "generator_predictions.LayerNorm.weight": "head.mlm.norm",
        "generator_lm_head.weight": "head.mlm.decoder",
        "discriminator_predictions.dense_prediction.weight": "head.discriminator",
    },
    "distilbert": {
        "transformer.layer.{i}.attention.q_lin.weight": "attention.query",
        "transformer.layer.{i}.attention.k_lin.weight": "attention.key",
        "transformer.layer.{i}.attention.v_lin.weight": "attention.value",
        "transformer.layer.{i}.attention.out_lin.weight": "attention.output",
        "transformer.layer.{i}.sa_layer_norm.weight": "attention.norm",
        "transformer.layer.{i}.ffn.lin1.weight": "ffn.up",
        "transformer.layer.{i}.ffn.lin2.weight": "ffn.down",
        "transformer.layer.{i}.output_layer_norm.weight": "ffn.norm",
        "vocab_transform.weight": "head.mlm.transform",
        "vocab_layer_norm.weight": "head.mlm.norm",
        "vocab_projector.weight": "head.mlm.decoder",
        "pre_classifier.weight": "head.classifier",
        "qa_outputs.weight": "head.span",
    },
    "albert": {
        "encoder.embedding_hidden_mapping_in.weight": "embedding.projection",
        "encoder.albert_layer_groups.{i}.albert_layers.{j}.attention.query.weight": (
            "attention.query"
        ),
        "encoder.albert_layer_groups.{i}.albert_layers.{j}.attention.dense.weight": (
            "attention.output"
        ),
        "encoder.albert_layer_groups.{i}.albert_layers.{j}.attention.LayerNorm.weight": (
            "attention.norm"
        ),
        "encoder.albert_layer_groups.{i}.albert_layers.{j}.ffn.weight": "ffn.up",
        "encoder.albert_layer_groups.{i}.albert_layers.{j}.ffn_output.weight": "ffn.down",
        "encoder.albert_layer_groups.{i}.albert_layers.{j}.full_layer_layer_norm.weight": (
            "ffn.norm"
        ),
        "pooler.weight": "pooler",
        "predictions.bias": "head.mlm.bias",
        "predictions.dense.weight": "head.mlm.transform",
        "predictions.LayerNorm.weight": "head.mlm.norm",
        "predictions.decoder.weight": "head.mlm.decoder",
        "sop_classifier.classifier.weight": "head.nsp",
    },
    "deberta": {
        "encoder.rel_embeddings.weight": "attention.relative_position",
        "encoder.layer.{i}.attention.self.in_proj.weight": "attention.qkv",
        "encoder.layer.{i}.attention.self.q_bias": "attention.query",
        "encoder.layer.{i}.attention.self.v_bias": "attention.value",
        "encoder.layer.{i}.attention.output.dense.weight": "attention.output",
    },
    "deberta-v2": {
        "encoder.rel_embeddings.weight": "attention.relative_position",
        "encoder.LayerNorm.weight": "attention.relative_position",
        "encoder.layer.{i}.attention.self.query_proj.weight": "attention.query",
        "encoder.layer.{i}.attention.self.key_proj.weight": "attention.key",
        "encoder.layer.{i}.attention.self.value_proj.weight": "attention.value",
    },
    "modernbert": {
        "embeddings.tok_embeddings.weight": "embedding.token",
        "embeddings.norm.weight": "embedding.norm",
        "layers.{i}.attn_norm.weight": "attention.norm",
        "layers.{i}.attn.Wqkv.weight": "attention.qkv",
        "layers.{i}.attn.Wo.weight": "attention.output",
        "layers.{i}.mlp_norm.weight": "ffn.norm",
        "layers.{i}.mlp.Wi.weight": "ffn.gate_up",
        "layers.{i}.mlp.Wo.weight": "ffn.down",
        "final_norm.weight": "norm.final",
        "head.dense.weight": "head.transform",
        "head.norm.weight": "head.norm",
        "decoder.weight": "head.mlm.decoder",
    },
    "mpnet": ROBERTA_HEAD
    | {
        "encoder.layer.{i}.attention.attn.q.weight": "attention.query",
        "encoder.layer.{i}.attention.attn.k.weight": "attention.key",
        "encoder.layer.{i}.attention.attn.v.weight": "attention.value",
        "encoder.layer.{i}.attention.attn.o.weight": "attention.output",
        "encoder.layer.{i}.attention.LayerNorm.weight": "attention.norm",
        "encoder.relative_attention_bias.weight": "attention.relative_position",
    },
    "mobilebert": {
        "embeddings.embedding_transformation.weight": "embedding.projection",
        "encoder.layer.{i}.ffn.{j}.intermediate.dense.weight": "ffn.up",
        "encoder.layer.{i}.ffn.{j}.output.dense.weight": "ffn.down",
        "encoder.layer.{i}.ffn.{j}.output.LayerNorm.weight": "ffn.norm",
        "encoder.layer.{i}.bottleneck.input.dense.weight": "bottleneck",
        "encoder.layer.{i}.bottleneck.attention.dense.weight": "bottleneck",
        "encoder.layer.{i}.output.bottleneck.dense.weight": "bottleneck",
        "encoder.layer.{i}.output.dense.weight": "ffn.down",
        "cls.predictions.dense.weight": "head.mlm.transform",
    },
    "gpt2 gpt_bigcode": GPT2
    | {
        "transformer.wpe.weight": "embedding.position",
        "transformer.h.{i}.attn.c_attn.weight": "attention.qkv",
        "transformer.h.{i}.attn.c_proj.weight": "attention.output",
        "transformer.h.{i}.ln_2.weight": "ffn.norm",
        "transformer.h.{i}.mlp.c_fc.weight": "ffn.up",
        "transformer.h.{i}.mlp.c_proj.weight": "ffn.down",
        "transformer.h.{i}.crossattention.c_attn.weight": "cross_attention.kv",
        "transformer.h.{i}.crossattention.q_attn.weight": "cross_attention.query",
        "transformer.h.{i}.crossattention.c_proj.weight": "cross_attention.output",
        "transformer.h.{i}.ln_cross_attn.weight": "cross_attention.norm",
        "score.weight": "head.classifier",
    },
    "gpt_neo": GPT2
    | {
        "transformer.h.{i}.attn.attention.q_proj.weight": "attention.query",
        "transformer.h.{i}.attn.attention.out_proj.weight": "attention.output",
        "transformer.h.{i}.mlp.c_fc.weight": "ffn.up",
        "transformer.h.{i}.mlp.c_proj.weight": "ffn.down",
    },
    "gptj": GPT2
    | {
        "transformer.h.{i}.attn.q_proj.weight": "attention.query",
        "transformer.h.{i}.attn.out_proj.weight": "attention.output",
        "transformer.h.{i}.mlp.fc_in.weight": "ffn.up",
        "transformer.h.{i}.mlp.fc_out.weight": "ffn.down",
        "lm_head.bias": "head.lm",
    },
    "gpt_neox": {
        "gpt_neox.embed_in.weight": "embedding.token",
        "gpt_neox.layers.{i}.attention.query_key_value.weight": "attention.qkv",
        "gpt_neox.layers.{i}.attention.dense.weight": "attention.output",
        "gpt_neox.layers.{i}.mlp.dense_h_to_4h.weight": "ffn.up",
        "gpt_neox.layers.{i}.mlp.dense_4h_to_h.weight": "ffn.down",
        "gpt_neox.layers.{i}.post_attention_layernorm.weight": "ffn.norm",
        "gpt_neox.final_layer_norm.weight": "norm.final",
    },
    "opt": {
        "model.decoder.embed_tokens.weight": "embedding.token",
        "model.decoder.embed_positions.weight": "embedding.position",
        "model.decoder.layers.{i}.self_attn.k_proj.weight": "attention.key",
        "model.decoder.layers.{i}.self_attn.out_proj.weight": "attention.output",
        "model.decoder.layers.{i}.self_attn_layer_norm.weight": "attention.norm",
        "model.decoder.layers.{i}.fc1.weight": "ffn.up",
        "model.decoder.layers.{i}.fc2.bias": "ffn.down",
        "model.decoder.layers.{i}.final_layer_norm.weight": "ffn.norm",
        "model.decoder.final_layer_norm.weight": "norm.final",
    },
    "bloom": FUSED | {"transformer.word_embeddings_layernorm.weight": "embedding.norm"},
    "falcon": FUSED
    | {
        "transformer.h.{i}.ln_attn.weight": "attention.norm",
        "transformer.h.{i}.ln_mlp.weight": "ffn.norm",
    },
    "llama mistral qwen2 gemma olmo granite": LLAMA | GATED | PRE_NORM,
    "qwen3": LLAMA | GATED | PRE_NORM | QK_NORM,
    "starcoder2": LLAMA
    | PRE_NORM
    | {
        "model.layers.{i}.mlp.c_fc.weight": "ffn.up",
        "model.layers.{i}.mlp.c_proj.weight": "ffn.down",
    },
    "cohere cohere2": LLAMA | GATED,
    "gemma2": LLAMA
    | GATED
    | {
        "model.layers.{i}.post_attention_layernorm.weight": "attention.norm",
        "model.layers.{i}.pre_feedforward_layernorm.weight": "ffn.norm",
        "model.layers.{i}.post_feedforward_layernorm.weight": "ffn.norm",
    },
    "olmo2": {
        "model.layers.{i}.self_attn.q_norm.weight": "attention.query_norm",
        "model.layers.{i}.post_attention_layernorm.weight": "attention.norm",
        "model.layers.{i}.post_feedforward_layernorm.weight": "ffn.norm",
    },
    "phi": {
        "model.layers.{i}.self_attn.dense.weight": "attention.output",
        "model.layers.{i}.self_attn.q_layernorm.weight": "attention.query_norm",
        "model.layers.{i}.mlp.fc1.weight": "ffn.up",
        "model.layers.{i}.mlp.fc2.weight": "ffn.down",
        "model.final_layernorm.weight": "norm.final",
    },
    "phi3": {
        "model.layers.{i}.self_attn.qkv_proj.weight": "attention.qkv",
        "model.layers.{i}.self_attn.o_proj.weight": "attention.output",
        "model.layers.{i}.mlp.gate_up_proj.weight": "ffn.gate_up",
        "model.layers.{i}.mlp.down_proj.weight": "ffn.down",
        **PRE_NORM,
    },
    "glm": {"model.layers.{i}.mlp.gate_up_proj.weight": "ffn.gate_up", **PRE_NORM},
    "glm4": {
        "model.layers.{i}.mlp.gate_up_proj.weight": "ffn.gate_up",
        "model.layers.{i}.post_self_attn_layernorm.weight": "attention.norm",
        "model.layers.{i}.post_attention_layernorm.weight": "ffn.norm",
        "model.layers.{i}.post_mlp_layernorm.weight": "ffn.norm",
    },
    "mixtral olmoe": LLAMA | EXPERTS | PRE_NORM,
    "qwen2_moe": LLAMA
    | EXPERTS
    | {
        "model.layers.{i}.mlp.shared_expert.gate_proj.weight": "shared_expert.gate",
        "model.layers.{i}.mlp.shared_expert.up_proj.weight": "shared_expert.up",
        "model.layers.{i}.mlp.shared_expert.down_proj.weight": "shared_expert.down",
        "model.layers.{i}.mlp.shared_expert_gate.weight": "shared_expert.switch",
    },
    "qwen3_moe": LLAMA | EXPERTS | QK_NORM,
    "qwen3_next": EXPERTS
    | QK_NORM
    | {
        "model.layers.{i}.linear_attn.in_proj_qkvz.weight": "linear_attention.in",
        "model.layers.{i}.linear_attn.in_proj_ba.weight": "linear_attention.in",
        "model.layers.{i}.linear_attn.conv1d.weight": "linear_attention.conv",
        "model.layers.{i}.linear_attn.A_log": "linear_attention.a",
        "model.layers.{i}.linear_attn.dt_bias": "linear_attention.dt",
        "model.layers.{i}.linear_attn.norm.weight": "linear_attention.norm",
        "model.layers.{i}.linear_attn.out_proj.weight": "linear_attention.out",
        "model.layers.{i}.mlp.shared_expert_gate.weight": "shared_expert.switch",
    },
    "phimoe": LLAMA
    | {
        "model.layers.{i}.mlp.experts.gate_up_proj": "expert.gate_up",
        "model.layers.{i}.mlp.router.weight": "router",
    },
    "deepseek_v2 deepseek_v3": EXPERTS | LATENT | PRE_NORM,
    "glm4_moe": LLAMA
    | EXPERTS
    | {"model.layers.{i}.mlp.shared_experts.up_proj.weight": "shared_expert.up"},
    "minimax_m2": LLAMA | EXPERTS | QK_NORM,
    "granitemoe": {
        "model.layers.{i}.block_sparse_moe.router.weight": "router",
        "model.layers.{i}.block_sparse_moe.experts.gate_up_proj": "expert.gate_up",
        "model.layers.{i}.block_sparse_moe.experts.down_proj": "expert.down",
    },
    "gpt_oss": LLAMA
    | {
        "model.layers.{i}.self_attn.sinks": "attention.sinks",
        "model.layers.{i}.mlp.router.weight": "router",
        "model.layers.{i}.mlp.router.bias": "router",
        "model.layers.{i}.mlp.experts.gate_up_proj_bias": "expert.gate_up",
        "model.layers.{i}.mlp.experts.down_proj_bias": "expert.down",
    },
    "llama4": {
        "language_model.model.layers.{i}.feed_forward.router.weight": "router",
        "language_model.model.layers.{i}.feed_forward.experts.gate_up_proj": "expert.gate_up",
        "language_model.model.layers.{i}.feed_forward.shared_expert.down_proj.weight": (
            "shared_expert.down"
        ),
        "vision_model.patch_embedding.linear.weight": "embedding.patch",
        "vision_model.class_embedding": "embedding.class",
        "vision_model.positional_embedding_vlm": "embedding.position",
        "vision_model.layernorm_pre.weight": "embedding.norm",
        "vision_model.vision_adapter.mlp.fc1.weight": "projector",
        "multi_modal_projector.linear_1.weight": "projector",
    },
    "mamba falcon_mamba": MAMBA
    | {
        "backbone.layers.{i}.mixer.x_proj.weight": "ssm.x",
        "backbone.layers.{i}.mixer.dt_proj.weight": "ssm.dt",
    },
    "mamba2": MAMBA
    | {
        "backbone.layers.{i}.mixer.dt_bias": "ssm.dt",
        "backbone.layers.{i}.mixer.norm.weight": "ssm.norm",
    },
    "jamba": {
        "model.layers.{i}.mamba.in_proj.weight": "ssm.in",
        "model.layers.{i}.mamba.x_proj.weight": "ssm.x",
        "model.layers.{i}.mamba.b_layernorm.weight": "ssm.norm",
        "model.layers.{i}.self_attn.q_proj.weight": "attention.query",
        "model.layers.{i}.input_layernorm.weight": "norm",
        "model.layers.{i}.pre_ff_layernorm.weight": "ffn.norm",
        "model.layers.{i}.feed_forward.gate_proj.weight": "ffn.gate",
        "model.layers.{i}.feed_forward.router.weight": "router",
        "model.layers.{i}.feed_forward.experts.down_proj": "expert.down",
    },
    "nemotron_h": {
        "model.layers.{i}.norm.weight": "norm",
        "model.layers.{i}.mixer.in_proj.weight": "ssm.in",
        "model.layers.{i}.mixer.norm.weight": "ssm.norm",
        "model.layers.{i}.mixer.q_proj.weight": "attention.query",
        "model.layers.{i}.mixer.o_proj.weight": "attention.output",
        "model.layers.{i}.mixer.up_proj.weight": "ffn.up",
        "model.layers.{i}.mixer.gate.weight": "router",
        "model.layers.{i}.mixer.experts.up_proj": "expert.up",
        "model.layers.{i}.mixer.shared_experts.down_proj.weight": "shared_expert.down",
        "model.norm_f.weight": "norm.final",
    },
    "rwkv": {
        "rwkv.embeddings.weight": "embedding.token",
        "rwkv.blocks.{i}.pre_ln.weight": "embedding.norm",
        "rwkv.blocks.{i}.ln1.weight": "time_mix.norm",
        "rwkv.blocks.{i}.ln2.weight": "channel_mix.norm",
        "rwkv.blocks.{i}.attention.time_decay": "time_mix.decay",
        "rwkv.blocks.{i}.attention.time_mix_key": "time_mix.shift",
        "rwkv.blocks.{i}.attention.key.weight": "time_mix.key",
        "rwkv.blocks.{i}.attention.value.weight": "time_mix.value",
        "rwkv.blocks.{i}.attention.receptance.weight": "time_mix.receptance",
        "rwkv.blocks.{i}.attention.output.weight": "time_mix.output",
        "rwkv.blocks.{i}.feed_forward.time_mix_key": "channel_mix.shift",
        "rwkv.blocks.{i}.feed_forward.key.weight": "channel_mix.key",
        "rwkv.blocks.{i}.feed_forward.value.weight": "channel_mix.value",
        "rwkv.blocks.{i}.feed_forward.receptance.weight": "channel_mix.receptance",
        "rwkv.ln_out.weight": "norm.final",
        "head.weight": "head.lm",
    },
    "recurrent_gemma": {
        "model.layers.{i}.temporal_pre_norm.weight": "attention.norm",
        "model.layers.{i}.temporal_block.linear_x.weight": "recurrent.in",
        "model.layers.{i}.temporal_block.conv_1d.weight": "recurrent.conv",
        "model.layers.{i}.temporal_block.rg_lru.recurrent_param": "recurrent.gate",
        "model.layers.{i}.temporal_block.linear_out.weight": "recurrent.out",
        "model.layers.{i}.temporal_block.q_proj.weight": "attention.query",
        "model.layers.{i}.channel_pre_norm.weight": "ffn.norm",
        "model.layers.{i}.mlp_block.gate_proj.weight": "ffn.gate",
    },
    "t5 mt5": {
        "shared.weight": "embedding.token",
        "encoder.block.{i}.layer.0.SelfAttention.q.weight": "attention.query",
        "encoder.block.{i}.layer.0.SelfAttention.o.weight": "attention.output",
        "encoder.block.{i}.layer.0.SelfAttention.relative_attention_bias.weight": (
            "attention.relative_position"
        ),
        "encoder.block.{i}.layer.0.layer_norm.weight": "attention.norm",
        "encoder.block.{i}.layer.1.DenseReluDense.wi_0.weight": "ffn.gate",
        "encoder.block.{i}.layer.1.DenseReluDense.wi_1.weight": "ffn.up",
        "encoder.block.{i}.layer.1.DenseReluDense.wo.weight": "ffn.down",
        "encoder.block.{i}.layer.1.layer_norm.weight": "ffn.norm",
        "encoder.final_layer_norm.weight": "norm.final",
        "decoder.block.{i}.layer.0.layer_norm.weight": "attention.norm",
        "decoder.block.{i}.layer.1.EncDecAttention.q.weight": "cross_attention.query",
        "decoder.block.{i}.layer.1.EncDecAttention.k.weight": "cross_attention.key",
        "decoder.block.{i}.layer.1.EncDecAttention.v.weight": "cross_attention.value",
        "decoder.block.{i}.layer.1.EncDecAttention.o.weight": "cross_attention.output",
        "decoder.block.{i}.layer.1.layer_norm.weight": "cross_attention.norm",
        "decoder.block.{i}.layer.2.DenseReluDense.wi.weight": "ffn.up",
        "decoder.block.{i}.layer.2.layer_norm.weight": "ffn.norm",
    },
    "bart mbart": BART | {"model.encoder.layernorm_embedding.weight": "embedding.norm"},
    "pegasus mbart": BART | {"model.encoder.layer_norm.weight": "norm.final"},
    "bart": {"classification_head.dense.weight": "head.classifier"},
    "whisper": {
        "model.encoder.conv1.weight": "embedding.feature",
        "model.encoder.embed_positions.weight": "embedding.position",
        "model.decoder.layers.{i}.encoder_attn.q_proj.weight": "cross_attention.query",
        "model.decoder.layers.{i}.encoder_attn_layer_norm.weight": "cross_attention.norm",
        "model.decoder.layer_norm.weight": "norm.final",
        "proj_out.weight": "head.lm",
    },
    "vit deit": VIT
    | {
        "layers.{i}.attention.q_proj.weight": "attention.query",
        "layers.{i}.attention.o_proj.weight": "attention.output",
        "layers.{i}.layernorm_before.weight": "attention.norm",
        "layers.{i}.mlp.fc1.weight": "ffn.up",
        "layers.{i}.layernorm_after.weight": "ffn.norm",
    },
    "deit": {
        "embeddings.distillation_token": "embedding.class",
        "cls_classifier.weight": "head.classifier",
    },
    "dinov2": VIT
    | {
        "encoder.layer.{i}.attention.q_proj.weight": "attention.query",
        "encoder.layer.{i}.norm1.weight": "attention.norm",
        "encoder.layer.{i}.norm2.weight": "ffn.norm",
        "encoder.layer.{i}.layer_scale1.lambda1": "layer_scale",
        "encoder.layer.{i}.mlp.fc2.weight": "ffn.down",
    },
    "swin": {
        "embeddings.norm.weight": "embedding.norm",
        "embeddings.patch_embeddings.projection.weight": "embedding.patch",
        "layers.{i}.blocks.{j}.attention.relative_position_bias.relative_position_bias_table": (
            "attention.relative_position"
        ),
        "layers.{i}.blocks.{j}.attention.q_proj.weight": "attention.query",
        "layers.{i}.blocks.{j}.layernorm_before.weight": "attention.norm",
        "layers.{i}.blocks.{j}.mlp.fc1.weight": "ffn.up",
        "layers.{i}.downsample.reduction.weight": "downsample",
        "layers.{i}.downsample.norm.weight": "downsample",
        "layernorm.weight": "norm.final",
    },
    "convnext": {
        "embeddings.patch_embeddings.weight": "embedding.patch",
        "embeddings.layernorm.weight": "embedding.norm",
        "stages.{i}.downsampling_layer.1.weight": "downsample",
        "stages.{i}.layers.{j}.dwconv.weight": "conv.depthwise",
        "stages.{i}.layers.{j}.layernorm.weight": "conv.norm",
        "stages.{i}.layers.{j}.pwconv1.weight": "conv.pointwise",
        "stages.{i}.layers.{j}.layer_scale_parameter": "layer_scale",
        "layernorm.weight": "norm.final",
    },
    "clip": CLIP
    | {
        "vision_model.embeddings.class_embedding": "embedding.class",
        "vision_model.pre_layrnorm.weight": "embedding.norm",
        "visual_projection.weight": "head.contrastive.projection",
        "text_projection.weight": "head.contrastive.projection",
    },
    "siglip": CLIP
    | {
        "text_model.head.weight": "head.contrastive.projection",
        "vision_model.head.probe": "pooler",
        "vision_model.head.attention.in_proj_weight": "pooler",
        "vision_model.head.mlp.fc1.weight": "pooler",
    },
    "qwen2_vl": QWEN_VL
    | {
        "model.visual.merger.ln_q.weight": "projector",
        "model.visual.merger.mlp.0.weight": "projector",
        "model.visual.blocks.{i}.mlp.fc1.weight": "ffn.up",
    },
    "qwen3_vl": QWEN_VL
    | {
        "model.visual.pos_embed.weight": "embedding.position",
        "model.visual.merger.linear_fc1.weight": "projector",
        "model.visual.deepstack_merger_list.{i}.norm.weight": "projector",
        "model.visual.blocks.{i}.mlp.linear_fc1.weight": "ffn.up",
        "model.language_model.layers.{i}.self_attn.q_norm.weight": "attention.query_norm",
    },
    "gemma3": {
        "model.language_model.layers.{i}.post_attention_layernorm.weight": "attention.norm",
        "model.language_model.layers.{i}.post_feedforward_layernorm.weight": "ffn.norm",
        "model.multi_modal_projector.mm_input_projection_weight": "projector",
        "model.vision_tower.embeddings.patch_embedding.weight": "embedding.patch",
        "model.vision_tower.head.probe": "pooler",
    },
    "wav2vec2 hubert": WAV2VEC2,
    "wav2vec2": {
        "quantizer.codevectors": "quantizer",
        "project_q.weight": "quantizer",
        "adapter.layers.{i}.conv.weight": "adapter",
        "feature_extractor.weight": "head",
    },
    "timm's ViT": {
        "cls_token": "embedding.class",
        "reg_token": "embedding.class",
        "norm_pre.weight": "embedding.norm",
        "blocks.{i}.norm1.weight": "attention.norm",
        "blocks.{i}.attn.qkv.weight": "attention.qkv",
        "fc_norm.weight": "norm.final",
        "attn_pool.latent": "pooler",
        "attn_pool.mlp.fc1.weight": "pooler",
        "head.weight": "head.classifier",
        "head.bias": "head.classifier",
    },
    "timm's ConvNeXt": {
        "stages.0.blocks.{j}.conv_dw.weight": "conv.depthwise",
        "stages.0.blocks.{j}.norm.weight": "conv.norm",
        "stages.0.blocks.{j}.mlp.fc1.weight": "ffn.up",
        "norm_pre.weight": "norm.final",
        "head.norm.weight": "norm.final",
        "head.pre_logits.fc.weight": "head",
        "head.fc.weight": "head.classifier",
    },
    "timm's Mixer": {
        "stem.proj.weight": "embedding.patch",
        "stem.norm.weight": "embedding.norm",
        "blocks.{i}.norm1.weight": "ffn.norm",
        "blocks.{i}.mlp_tokens.fc1.weight": "ffn.up",
        "blocks.{i}.norm2.weight": "ffn.norm",
    },
    "codecs, and what nobody has named": {
        "decoder.block.{i}.conv1.weight": "conv",
        "reconstruction_of.something": "other",
    },
}
BESIDE = {
    "jamba": ["model.layers.{i}.mamba.in_proj.weight"],
    "pegasus mbart": ["model.encoder.layers.{i}.fc1.weight"],
    "wav2vec2": ["quantizer.weight_proj.weight"],
}


@pytest.mark.parametrize("families", TABLE)
def test_the_tensors_of_a_family_have_the_roles_that_they_play(families: str) -> None:
    names = [*TABLE[families], *BESIDE.get(families, ())]
    assert {name: role_of(name, names) for name in TABLE[families]} == TABLE[families]


def test_a_role_needs_no_index_to_be_a_placeholder() -> None:
    assert role_of("model.layers.31.self_attn.q_proj.weight") == "attention.query"
    assert role_of("decoder.block.0.layer.1.layer_norm.weight") == "cross_attention.norm"


def test_every_role_and_component_has_a_name_in_both_languages_and_belongs_somewhere() -> None:
    of_readers = {f"quantization.{role}" for role in ("scale", "zero", "index", "table")}
    of_readers |= {f"training.{role}" for role in ("optimizer", "average", "state")}
    of_readers.add("constant")
    assert {role for role, _ in PATTERNS} | {"other"} | of_readers == set(FACTS["roles"])
    assert {component_of(role) for role in FACTS["roles"]} == set(FACTS["components"])
    for part in ("roles", "components"):
        assert all(
            named.keys() == {"en", "zh"} and all(named.values()) for named in FACTS[part].values()
        )
        for lang in ("en", "zh"):
            texts = [named[lang] for named in FACTS[part].values()]
            assert len(set(texts)) == len(texts), "two of one name"


def expression(text: str) -> "re.Pattern[str]":
    """Return a pattern as a regular expression, each piece of it a group."""
    pieces = (
        "[^.]+" if piece == "*" else piece.replace("^", r"\^")
        for piece in text.partition("/")[0].split(".")
    )
    return re.compile(r"(?:^|\.)" + r"\.".join(f"({piece})" for piece in pieces) + r"(?=\.|$)")


def test_each_pattern_and_each_of_its_pieces_is_the_first_that_fits_some_real_name() -> None:
    """And the role is that of the first match of a plain search."""
    names = (Path(__file__).parents[1] / "data" / "names.txt").read_text().split()
    expressions = [(role, expression(text), text.partition("/")[2]) for role, text in PATTERNS]
    by_last: dict[str, list[int]] = {}
    for rank, (_, text) in enumerate(PATTERNS):
        for last in text.partition("/")[0].rpartition(".")[2].split("|"):
            by_last.setdefault(last, []).append(rank)
    used: set[tuple[int, int, str]] = set()
    for name in names:
        near = sorted({rank for piece in name.split(".") for rank in by_last.get(piece, ())})
        for beside in ((), names):
            first = next(
                (rank for rank in near if fits(expressions[rank], f"^.{name}", beside)), None
            )
            assert role_of(name, beside) == (
                PATTERNS[first][0] if first is not None else "other"
            ), name
            if first is not None:
                for found in expressions[first][1].finditer(f"^.{name}"):
                    used.update((first, at, piece) for at, piece in enumerate(found.groups()))
    dead = [
        (PATTERNS[rank], piece)
        for rank, (_, text) in enumerate(PATTERNS)
        for at, pieces in enumerate(text.partition("/")[0].split("."))
        for piece in pieces.split("|")
        if piece != "*" and (rank, at, piece) not in used
    ]
    assert dead == []


def fits(
    pattern: "tuple[str, re.Pattern[str], str]", name: str, beside: "tuple[()] | list[str]"
) -> bool:
    _, looked_for, needed = pattern
    for found in looked_for.finditer(name):
        path = name[2 : found.start(found.lastindex or 0)]
        paths = tuple(f"{path}{piece}." for piece in needed.split("|"))
        if not needed or any(f"{other}.".startswith(paths) for other in beside):
            return True
    return False
