"""Traces the operations of a program under jax.shard_map from its jaxpr: the field `graph` of a model graph."""
