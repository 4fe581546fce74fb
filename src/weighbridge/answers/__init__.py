"""The public questions, one file each. An answer computes and leaves layout to render."""
