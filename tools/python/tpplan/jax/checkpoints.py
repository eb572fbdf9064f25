"""Training states on disk: saves and loads any tree of parameters, optimizer moments and the like, in a folder that
any mesh can resume from."""

import sys

import jax
import numpy as np
from jax.sharding import NamedSharding

from ..files import printable
from ..manifest import ManifestError, load_manifest
from ..new_folder import begin_folder, drop_folder, finish_folder
from ..load_weights import save_own
from ..states import states_manifest, stored_tensors
from .arrays import check_jax_mesh, partition_spec
from .processes import said_by_first_process
from .trees import is_flax, leaves_of
from .weights import load


def save_states(folder, manifest, mesh, state):
    """Writes a new folder with every array of a tree, such as a model, an optax state, masters or a step count. Every
    process must call it.

    Each array is stored under its path in the tree. It is sharded like a parameter if its path ends with that
    parameter's path and it has the same shape; otherwise it is replicated. Other leaves and states of random
    generators are not saved. The folder has the format of `tpplan-exec save`, for the manifest that `python -m
    tpplan.states` prints.

    An error in one process is raised in all.
    """
    manifest = load_manifest(manifest)
    check_jax_mesh(manifest, mesh)
    arrays = {leaf.path: leaf.value for leaf in leaves_of(_plain(state)) if leaf.path is not None}
    states = states_manifest(manifest, {path: (x.dtype.name, tuple(x.shape)) for path, x in arrays.items()})
    placed = {}
    for path, value in arrays.items():
        wanted = NamedSharding(mesh, partition_spec(states, states.parameters[path]))
        placed[path] = {shard.device: shard.data for shard in jax.device_put(value, wanted).addressable_shards}
    made = said_by_first_process(lambda: begin_folder(folder))
    failure = None
    try:
        for rank, device in enumerate(mesh.devices.flat):
            if device.process_index == jax.process_index():
                save_own(states, rank, made, {path: _on_host(shards[device]) for path, shards in placed.items()})
    except Exception as error:  # the others wait
        failure = error
    failures = _told(None if failure is None else f"{type(failure).__name__}: {failure}")
    if any(failures):
        if jax.process_index() == 0:
            drop_folder(made)
        raise failure or RuntimeError(f"a process failed: {next(filter(None, failures))}")
    said_by_first_process(lambda: finish_folder(made, folder))


def load_states(folder, manifest, mesh, state):
    """Returns the tree with its arrays replaced by those of a folder of save_states, written on any mesh.

    The tree may be abstract (jax.eval_shape). Other leaves are unchanged. NNX modules and optimizers are changed in
    place. Raises ManifestError if the folder lacks an array, or has another shape or dtype. Raises LoadError if
    reading fails.
    """
    manifest = load_manifest(manifest)
    if is_flax(state, "Pytree"):
        nnx = sys.modules["flax.nnx"]
        nnx.update(state, load_states(folder, manifest, mesh, nnx.state(state)))
        return state
    stored = said_by_first_process(lambda: stored_tensors(folder))
    leaves = leaves_of(state)
    for leaf in leaves:
        _check(leaf, stored)
    wanted = {leaf.path: tuple(stored[leaf.path]) for leaf in leaves if leaf.path is not None}
    states = states_manifest(manifest, wanted)
    arrays = load(states, folder, mesh, rename=lambda name: name if name in wanted else None)
    return jax.tree.unflatten(jax.tree.structure(state), [arrays.get(leaf.path, leaf.value) for leaf in leaves])


def _plain(state):
    return sys.modules["flax.nnx"].state(state) if is_flax(state, "Pytree") else state


def _on_host(array):
    return np.ascontiguousarray(np.asarray(array)).reshape(array.shape)


def _check(leaf, stored):
    if leaf.path is None:
        return
    where, own = f"state `{printable(leaf.path)}`", (leaf.value.dtype.name, list(leaf.value.shape))
    if leaf.path not in stored:
        raise ManifestError(where, "is not in the checkpoint", "load only states that were saved")
    if own != (stored[leaf.path][0], list(stored[leaf.path][1])):
        saved = "{} {}".format(list(stored[leaf.path][1]), stored[leaf.path][0])
        raise ManifestError(
            where,
            f"is {own[1]} {own[0]}, but was saved as {saved}",
            "load into a tree with the saved shapes and dtypes",
        )


def _told(failure):
    """Returns the failure of each process (None if it has none), in all processes."""
    if jax.process_count() == 1:
        return [failure]
    from jax.experimental import multihost_utils

    text = (failure or "").encode()[:500].ljust(500)
    rows = multihost_utils.process_allgather(np.frombuffer(text, np.uint8))
    return [bytes(row).decode(errors="replace").strip() or None for row in rows]
