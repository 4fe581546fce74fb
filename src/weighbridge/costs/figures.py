"""The names of the figures of a run, by the kind of operations that each adds up."""

FLOPS = {
    "forward": "forward_matmul_flops",
    "backward": "backward_matmul_flops",
    "recomputed": "recomputed_flops",
    "step": "step_matmul_flops",
}
BYTES = {"saved": "saved_for_backward_bytes", "checkpointed": "checkpointed_bytes"}
MOVED = {"forward": "moved_bytes", "backward": "backward_moved_bytes", "step": "step_moved_bytes"}
OF_TRAINING = ("backward", "recomputed", "saved", "checkpointed")
OF_CHECKPOINTING = ("recomputed", "checkpointed")
