"""Model graphs (schemas/model.schema.json) out of the frameworks: `model_graph` of each submodule, and
`python -m tpplan.export` for all of them."""
