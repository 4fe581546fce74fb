"""The public questions, one file each. An answer computes and never lays out."""
