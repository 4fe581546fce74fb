"""UNets of diffusers with fixed blocks, as functions of the arguments that releases vary.

The class itself has 46 arguments, most of which choose branches; deriving it takes too long. A
blueprint that is derived through one of these functions is held at the arguments left out here.
"""

# ruff: noqa: FBT001, FBT002, PLR0913, PLR0917  # the arguments are those of the classes

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diffusers import ControlNetModel, UNet2DConditionModel

if TYPE_CHECKING:
    from torch import nn

_XL_DOWN = ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D")
_XL_UP = ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D")


def stable_diffusion(
    sample_size: Any = None,
    in_channels: int = 4,
    out_channels: int = 4,
    center_input_sample: bool = False,
    flip_sin_to_cos: bool = True,
    freq_shift: int = 0,
    block_out_channels: Any = (320, 640, 1280, 1280),
    layers_per_block: int = 2,
    downsample_padding: int = 1,
    mid_block_scale_factor: float = 1,
    norm_num_groups: int = 32,
    norm_eps: float = 1e-5,
    cross_attention_dim: int = 1280,
    attention_head_dim: Any = 8,
    use_linear_projection: bool = False,
    upcast_attention: bool = False,
) -> nn.Module:
    """Return a UNet with the blocks of Stable Diffusion 1 and 2."""
    return UNet2DConditionModel(
        sample_size=sample_size,
        in_channels=in_channels,
        out_channels=out_channels,
        center_input_sample=center_input_sample,
        flip_sin_to_cos=flip_sin_to_cos,
        freq_shift=freq_shift,
        block_out_channels=block_out_channels,
        layers_per_block=layers_per_block,
        downsample_padding=downsample_padding,
        mid_block_scale_factor=mid_block_scale_factor,
        norm_num_groups=norm_num_groups,
        norm_eps=norm_eps,
        cross_attention_dim=cross_attention_dim,
        attention_head_dim=attention_head_dim,
        use_linear_projection=use_linear_projection,
        upcast_attention=upcast_attention,
    )


def stable_diffusion_xl(
    sample_size: Any = None,
    in_channels: int = 4,
    out_channels: int = 4,
    center_input_sample: bool = False,
    flip_sin_to_cos: bool = True,
    freq_shift: int = 0,
    block_out_channels: Any = (320, 640, 1280),
    layers_per_block: int = 2,
    downsample_padding: int = 1,
    mid_block_scale_factor: float = 1,
    norm_num_groups: int = 32,
    norm_eps: float = 1e-5,
    cross_attention_dim: int = 2048,
    addition_time_embed_dim: int = 256,
    projection_class_embeddings_input_dim: int = 2816,
    upcast_attention: Any = None,
) -> nn.Module:
    """Return a UNet with the blocks of Stable Diffusion XL."""
    return UNet2DConditionModel(
        sample_size=sample_size,
        in_channels=in_channels,
        out_channels=out_channels,
        center_input_sample=center_input_sample,
        flip_sin_to_cos=flip_sin_to_cos,
        freq_shift=freq_shift,
        down_block_types=_XL_DOWN,
        up_block_types=_XL_UP,
        block_out_channels=block_out_channels,
        layers_per_block=layers_per_block,
        downsample_padding=downsample_padding,
        mid_block_scale_factor=mid_block_scale_factor,
        norm_num_groups=norm_num_groups,
        norm_eps=norm_eps,
        cross_attention_dim=cross_attention_dim,
        transformer_layers_per_block=(1, 2, 10),
        attention_head_dim=(5, 10, 20),
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=addition_time_embed_dim,
        projection_class_embeddings_input_dim=projection_class_embeddings_input_dim,
        upcast_attention=upcast_attention,
    )


def stable_diffusion_control(
    in_channels: int = 4,
    conditioning_channels: int = 3,
    flip_sin_to_cos: bool = True,
    freq_shift: int = 0,
    block_out_channels: Any = (320, 640, 1280, 1280),
    layers_per_block: int = 2,
    downsample_padding: int = 1,
    mid_block_scale_factor: float = 1,
    norm_num_groups: int = 32,
    norm_eps: float = 1e-5,
    cross_attention_dim: int = 1280,
    attention_head_dim: Any = 8,
    use_linear_projection: bool = False,
    upcast_attention: bool = False,
) -> nn.Module:
    """Return a ControlNet with the blocks of Stable Diffusion 1 and 2."""
    return ControlNetModel(
        in_channels=in_channels,
        conditioning_channels=conditioning_channels,
        flip_sin_to_cos=flip_sin_to_cos,
        freq_shift=freq_shift,
        block_out_channels=block_out_channels,
        layers_per_block=layers_per_block,
        downsample_padding=downsample_padding,
        mid_block_scale_factor=mid_block_scale_factor,
        norm_num_groups=norm_num_groups,
        norm_eps=norm_eps,
        cross_attention_dim=cross_attention_dim,
        attention_head_dim=attention_head_dim,
        use_linear_projection=use_linear_projection,
        upcast_attention=upcast_attention,
    )
