"""Communication between JAX processes before any array exists."""

import jax
import numpy as np
from jax.experimental import multihost_utils

from ..compiled import said_by_first


def said_by_first_process(make):
    """Calls make() in the first process and returns its result, a JSON value, in all processes. See said_by_first."""
    if jax.process_count() == 1:
        return make()
    is_first = jax.process_index() == 0

    def send(data):
        length = int(multihost_utils.broadcast_one_to_all(np.int32(len(data))))
        buffer = np.frombuffer(data, np.uint8) if is_first else np.zeros(length, np.uint8)
        return np.asarray(multihost_utils.broadcast_one_to_all(buffer)).tobytes()

    return said_by_first(make, is_first, send)
