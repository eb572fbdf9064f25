"""python -m tpplan.export: exports model graphs and plans of the frameworks."""

import argparse
import importlib
import sys

from ..files import InputError, loaded_sources, printable, read_kwargs, run_command, write_output
from ..graph import settings
from ..plans import PLAN_SOURCES, read_mesh
from ..write_plan import write_plan_file
from .file_text import file_text

# Option -> (module with build(NAME, kwargs, device) and model_graph(model), help).
SOURCES = {
    "torch": ("torch_module", "package.module:NAME of an nn.Module, or of a class or function that returns one"),
    "transformers": (
        "transformers_model",
        "transformers model class, model type or config.json; built without weights",
    ),
    "jax": (
        "jax_tree",
        "package.module:NAME of a pytree (Equinox, Flax), or of a class or function that returns one; built abstractly",
    ),
    "keras": ("keras_model", "package.module:NAME of a Keras 3 model, or of a class or function that returns one"),
}
TRACED = ("torch", "transformers")
STEPS = {"jax": "jax_step", "keras": "keras_step"}  # modules with step_of(model, modules, settings)


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m tpplan.export",
        description="Writes the model graph of a model, or converts a framework's plan to a plan of tpplan.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    for name, (_, text) in SOURCES.items():
        what.add_argument(f"--{name}", metavar="NAME", help=text)
    what.add_argument(
        "--plan-from",
        nargs=2,
        metavar=("KIND", "NAME"),
        help="write a plan of tpplan from NAME, which depends on KIND. "
        + "; ".join(f"{kind}: {row.help}" for kind, row in PLAN_SOURCES.items()),
    )
    parser.add_argument(
        "--kwargs",
        default="{}",
        metavar="JSON",
        help="keyword arguments of the class, function or configuration, as a JSON object (default: none)",
    )
    parser.add_argument("--device", help="device on which a torch model is built (default: meta)")
    parser.add_argument(
        "--mesh", help="mesh of the plan, such as fsdp=2,tp=4 (default: tp=2; with --shard-map: the mesh in the plan)"
    )
    parser.add_argument(
        "--shard-map",
        metavar="FUNCTION",
        help="with --jax and --inputs: trace FUNCTION(model, **inputs), a package.module:NAME, as one rank "
        "of jax.shard_map runs it",
    )
    parser.add_argument("--plan", metavar="PLAN", help="with --shard-map: plan that shards the model")
    parser.add_argument(
        "--out-specs", metavar="JSON", help="with --shard-map: list with the spec of each result (default: replicated)"
    )
    parser.add_argument(
        "--model", metavar="MODEL", help="with --plan-from easylm: model graph whose parameters the rules match"
    )
    parser.add_argument(
        "--vmap", action="store_true", help="with --jax: the model takes one example; it is traced under jax.vmap"
    )
    settings.add_options(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="output file (default: standard output)")
    options = parser.parse_args(arguments)
    kwargs = read_kwargs(options.kwargs)
    if options.plan_from:
        kind, name = options.plan_from
        if kind not in PLAN_SOURCES:
            raise InputError(f"--plan-from: unknown kind `{printable(kind)}`", "use one of " + ", ".join(PLAN_SOURCES))
        text = PLAN_SOURCES[kind].make(name, mesh=read_mesh(options.mesh or "tp=2"), kwargs=kwargs, model=options.model)
        inputs = [path for path in (name, options.model) if path]
        write_plan_file(options.output, text, [*inputs, *loaded_sources()])
        return
    source = next(name for name in SOURCES if getattr(options, name) is not None)
    name = getattr(options, source)
    exporter = importlib.import_module(f"{__package__}.{SOURCES[source][0]}")
    if options.shard_map is not None and (source != "jax" or options.plan is None):
        raise InputError("--shard-map needs --jax NAME and --plan", "write --jax NAME --shard-map FUNCTION --plan PLAN")
    if source not in TRACED:
        model = exporter.build(name, kwargs, options.device or "meta")
        modules = exporter.model_graph(model)
        graph = program = None
        if options.shard_map is not None:
            local = importlib.import_module(f"{__package__}.shard_map")  # imports jax
            graph = local.find(options, model, modules)
        elif not options.no_graph:
            program = _program(options, source, model, modules)
        inputs = [path for path in (name, options.plan) if path]
        write_output(options.output, file_text(modules, graph, program), [*inputs, *loaded_sources()])
        return
    chosen = settings.read_settings(options)
    model = exporter.build(name, kwargs, options.device or "meta", chosen)
    modules = exporter.model_graph(model)
    graph = None
    if not options.no_graph:
        operations = importlib.import_module(f"{__package__}.operations")  # imports torch
        graph = operations.find(exporter, model, name, kwargs, options.device, chosen)
    write_output(options.output, file_text(modules, graph), [name, *loaded_sources()])


def _program(options, source, model, modules):
    """Returns the field `program` of a JAX or Keras model; None if its step cannot be traced."""
    program = importlib.import_module(f"{__package__}.program")
    try:
        step = importlib.import_module(f"{__package__}.{STEPS[source]}")  # imports jax
    except ImportError:
        return program.warn_missing("jax is not installed", "pip install jax")
    return program.find(step, model, modules, program.read_settings(options))


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
