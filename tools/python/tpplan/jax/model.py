"""Creates sharded models, and shards existing ones."""

import jax

from ..compiled import manifest_of
from ..export.file_text import file_text
from ..files import InputError
from ..manifest import ManifestError, load_manifest
from .arrays import need_jax_mesh, with_shardings
from .modules import wrapped, wrappers
from .processes import said_by_first_process
from .trees import abstract, arrays_alone, plain_arrays, split
from .weights import load


def initialize(make, manifest, mesh, *args, batched=True, **kwargs):
    """Returns make(*args, **kwargs), computed under jit: each device computes its shards only, and the values equal
    those of make. `args` may be arrays, such as the key. Boundaries, `remat` and `batched` are as in `parallelize`."""
    manifest = load_manifest(manifest)
    model = abstract(make, *args, **kwargs)
    wanted = wrappers(model, manifest, mesh, batched)
    placed, _ = split(with_shardings(model, manifest, mesh))
    arrays, rebuild = arrays_alone(lambda *args: plain_arrays(make, args, kwargs))
    values = jax.jit(arrays, out_shardings=[shape.sharding for shape in placed])(*args)
    return wrapped(rebuild(values), "", wanted)


def parallelize(model, manifest, mesh, *, batched=True, weights=None):
    """Returns the model with its arrays placed, its module boundaries constrained, and jax.checkpoint around the
    modules of `remat`.

    An NNX module is changed in place; other trees are copied. A tree without modules, such as a dict of parameters,
    supports arrays only. A manifest with boundaries or `remat` then raises ManifestError. Arrays of an abstract model
    store their shardings.

    `batched=False` is for modules that are called with one example, under jax.vmap. Layouts are then counted without
    the batch dim, and its axes are left to vmap (`spmd_axis_name`). `weights` is a checkpoint, as `load` takes it,
    whose arrays replace those of the model, which may be abstract.
    """
    manifest = load_manifest(manifest)
    wanted = wrappers(model, manifest, mesh, batched)
    loaded = None if weights is None else load(manifest, weights, mesh)
    return wrapped(with_shardings(model, manifest, mesh, loaded), "", wanted)


def make_parallel(model, plan, mesh, *, batched=True, manifest=None, weights=None):
    """Returns the model parallelized by a plan or a manifest: a path, a text or a dict.

    The first process compiles a plan for this model and mesh. The axes of a plan must be the axes of the mesh, which
    provides their sizes; a plan without a mesh uses this one. `manifest` is the path to which the compiled manifest
    is written.

    `plan` may also be a list of logical axis rules with Flax' semantics. A rule is (logical name, axes), and `axes`
    is a mesh axis, several axes, or None. The arrays of the model must have logical axis names. `batched` and
    `weights` are as in `parallelize`.

    Raises PlanError, with the diagnostics, in every process if the plan is wrong.
    """
    from ..export.jax_tree import model_graph

    need_jax_mesh(mesh)
    if isinstance(plan, (list, tuple)):
        plan = _logical_plan(plan, mesh)
    found = manifest_of(
        plan, lambda: file_text(model_graph(model)), list(mesh.shape.items()), manifest, said=said_by_first_process
    )
    return parallelize(model, found, mesh, batched=batched, weights=weights)


def _logical_plan(rules, mesh):
    from ..flax_plan import logical_plan

    try:
        return logical_plan(rules, dict(mesh.shape))
    except InputError as error:
        raise ManifestError("logical axis rules", str(error), error.remedy) from None
