"""Keras layers of BERT, each usable in any functional model.

Position-wise layers take `[…, features]` of any rank and compute one 2-D matrix product. Variable
names are those of google-research/bert, so that the path of a variable is its name in the official
checkpoint. Activations run in the compute type of the policy, statistics in float32.
"""
