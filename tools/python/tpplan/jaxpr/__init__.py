"""The operations of a program under jax.shard_map, recorded from its jaxpr: the member `graph` of a model graph."""
