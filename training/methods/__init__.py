"""The methods of training: each says what a step computes (`base.Method`).

The modules clism and wae are for pre-training. Those of fine-tuning also make features of records and predictions of
outputs (`formulation.Formulation`). `training.recipes.methods` lists the methods of fine-tuning, and
`pretraining_tasks` those of pre-training.
"""
