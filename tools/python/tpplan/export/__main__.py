"""python -m tpplan.export: model graphs and plans out of the frameworks."""

import argparse
import importlib
import sys

from ..files import InputError, printable, read_kwargs, run_command, write_output
from ..graph import settings
from ..plans import PLAN_SOURCES, read_mesh
from ..write_plan import write_plan_file
from .file_text import file_text

# Option, module with build(NAME, kwargs, device) and model_graph(model), help.
SOURCES = {
    "torch": ("torch_module", "package.module:NAME of an nn.Module, or of a class or function that makes one"),
    "transformers": ("transformers_model", "model class, model type or config.json; built without weights"),
    "jax": (
        "jax_tree",
        "package.module:NAME of a pytree (Equinox, Flax), or of a class or function that makes one; built abstractly",
    ),
    "keras": ("keras_model", "package.module:NAME of a Keras 3 model, or of a class or function that makes one"),
}
TRACED = ("torch", "transformers")


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m tpplan.export",
        description="Writes the model graph of a model, or a plan of a framework, for tpplan.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    for name, (_, text) in SOURCES.items():
        what.add_argument(f"--{name}", metavar="NAME", help=text)
    what.add_argument(
        "--plan-from",
        nargs=2,
        metavar=("KIND", "NAME"),
        help="write a plan: " + "; ".join(f"{kind} {row.help}" for kind, row in PLAN_SOURCES.items()),
    )
    parser.add_argument(
        "--kwargs", default="{}", metavar="JSON", help="arguments for the class or function, or for the configuration"
    )
    parser.add_argument("--device", help="where a torch model is built (default: meta)")
    parser.add_argument(
        "--mesh", help="mesh of the plan, such as fsdp=2,tp=4 (default: tp=2; of --shard-map: the plan's own)"
    )
    parser.add_argument(
        "--shard-map",
        metavar="FUNCTION",
        help="with --jax and --inputs: record FUNCTION(model, **inputs), package.module:NAME, as a rank of jax.shard_map runs it",
    )
    parser.add_argument("--plan", metavar="PLAN", help="of --shard-map: the plan by which the model is cut")
    parser.add_argument(
        "--out-specs", metavar="JSON", help="of --shard-map: a list with the spec of each result (default: whole)"
    )
    parser.add_argument("--model", metavar="MODEL", help="model graph that rules are resolved against (easylm)")
    settings.add_options(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write (default: standard output)")
    options = parser.parse_args(arguments)
    kwargs = read_kwargs(options.kwargs)
    if options.plan_from:
        kind, name = options.plan_from
        if kind not in PLAN_SOURCES:
            raise InputError(f"there are no plans of `{printable(kind)}`", "one of " + ", ".join(PLAN_SOURCES))
        text = PLAN_SOURCES[kind].make(name, mesh=read_mesh(options.mesh or "tp=2"), kwargs=kwargs, model=options.model)
        write_plan_file(options.output, text, [path for path in (name, options.model) if path])
        return
    source = next(name for name in SOURCES if getattr(options, name) is not None)
    name = getattr(options, source)
    exporter = importlib.import_module(f"{__package__}.{SOURCES[source][0]}")
    if options.shard_map is not None and (source != "jax" or options.plan is None):
        raise InputError("--shard-map is for --jax NAME, with --plan", "--jax NAME --shard-map FUNCTION --plan PLAN")
    if source not in TRACED:
        model = exporter.build(name, kwargs, options.device or "meta")
        modules = exporter.model_graph(model)
        graph = None
        if options.shard_map is not None:
            local = importlib.import_module(f"{__package__}.shard_map")  # with jax
            graph = local.find(options, model, modules)
        write_output(options.output, file_text(modules, graph), [name, options.plan] if options.plan else [name])
        return
    chosen = settings.read_settings(options)
    model = exporter.build(name, kwargs, options.device or "meta", chosen)
    modules = exporter.model_graph(model)
    graph = None
    if not options.no_graph:
        operations = importlib.import_module(f"{__package__}.operations")  # with torch
        graph = operations.find(exporter, model, name, kwargs, options.device, chosen)
    write_output(options.output, file_text(modules, graph), [name])


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
