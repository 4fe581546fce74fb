"""Fine-tuning a BERT to classify texts: the data, the plan, the training and its costs.

`command.finetune` does it all; it uses `texts` (files to a split), `plan` (which texts in which
step), `training` (the steps), `checkpoint` (what survives a kill), `processes` (several at once)
and `prediction`.
"""
