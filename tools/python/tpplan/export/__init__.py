"""Exports model graphs (schemas/model.schema.json) of the frameworks. Each submodule has `model_graph`; `python -m
tpplan.export` covers all."""
