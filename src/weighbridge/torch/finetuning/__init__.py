"""Fine-tuning a BERT to classify texts: the data, the plan, the training and its costs.

`command.finetune` runs everything. It uses `texts` (from files to a split), `plan` (which texts in
which step), `training` (the steps), `checkpoint` (the state that survives a kill), `processes`
(several at once) and `prediction`.
"""
