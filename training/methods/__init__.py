"""Methods of training: what a step computes. One module each; `training/engine/loop.py` says what a method supplies.

Pre-training: clism, wae. Fine-tuning, where a method also decodes what it predicts (`formulation.py`): questions, tags,
pairs, unified, two_stage.
"""
