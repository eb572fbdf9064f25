"""Models that are made sharded, and models that are sharded when they are there."""

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
    """The model that make(*args, **kwargs) makes, made under jit: each device computes its own pieces only, and the values
    are those of make. `args` may be arrays, such as the key. Boundaries, `remat` and `batched` are those of `parallelize`."""
    manifest = load_manifest(manifest)
    model = abstract(make, *args, **kwargs)
    wanted = wrappers(model, manifest, mesh, batched)
    placed, _ = split(with_shardings(model, manifest, mesh))
    arrays, rebuild = arrays_alone(lambda *args: plain_arrays(make, args, kwargs))
    values = jax.jit(arrays, out_shardings=[shape.sharding for shape in placed])(*args)
    return wrapped(rebuild(values), "", wanted)


def parallelize(model, manifest, mesh, *, batched=True, weights=None):
    """The model with its arrays placed as the manifest says, with its modules' boundaries constrained, and with
    jax.checkpoint around the modules of `remat`. A NNX module is changed in place, of other trees a copy is made; a tree
    without modules (a dict of parameters) has arrays only, and a manifest with boundaries or `remat` is refused.

    `batched=False` is for modules that are called with one example, under jax.vmap: layouts are then counted without the
    batch's dim, and its axes are left to vmap (`spmd_axis_name`). An abstract model gets its shardings written.
    `weights` is a checkpoint (what `load` takes) whose arrays take the place of the model's, of an abstract one too."""
    manifest = load_manifest(manifest)
    wanted = wrappers(model, manifest, mesh, batched)
    loaded = None if weights is None else load(manifest, weights, mesh)
    return wrapped(with_shardings(model, manifest, mesh, loaded), "", wanted)


def make_parallel(model, plan, mesh, *, batched=True, manifest=None, weights=None):
    """`parallelize` by a plan (path, text or dict), which the first process compiles for this model and mesh; or by a manifest. A
    plan's own axes must be this mesh's, which says their sizes; a plan without a mesh takes it. `manifest` is a path where the
    compiled manifest is kept. In a plan's place stands a list of logical axis rules, too: (name, axis, axes or None), for a model
    whose arrays name their dims, in Flax's reading. Raises PlanError, with the program's findings, for a plan that is wrong, in
    every process."""
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
