"""Records the StableHLO program of a step of a JAX or Keras model: without a plan, devices or values."""

import json
import sys

from ..files import InputError, printable, read_json
from ..graph import settings
from . import marks
from .shard_map import read_inputs

# Operations whose regions are recorded; of others (reductions, sorts, scatters) only the names of the body.
WITH_REGIONS = ("stablehlo.while", "stablehlo.case", "stablehlo.if")
MAX_ATTRIBUTE = 64  # characters of a constant


def program_text(step, arguments, gradients, header):
    """Returns the field `program` of a model file (schemas/model.schema.json): the lowered step(*arrays).

    `arguments` lists (kind, path, abstract array), `gradients` the path of the parameter of each result that is a
    gradient, or "" for others; `header` has mode and sizes."""
    import jax

    shapes = [shape for _, _, shape in arguments]
    lowered = jax.jit(step, keep_unused=True).trace(*shapes).lower()
    recorder = _Recorder(lowered.compiler_ir("stablehlo"))
    args, ops, outs = recorder.main()
    if len(args) != len(arguments) or len(outs) != len(gradients):
        raise InputError("the program has other arguments or results than the step", "report this as a bug", 1)
    fields = dict(header) | {"arguments": [[kind, path] for kind, path, _ in arguments], "gradients": gradients}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items()]
    lines += [f'  "args": {_tight(args)}', '  "ops": [\n   ' + ",\n   ".join(map(_tight, ops)) + "\n  ]"]
    return "{\n" + ",\n".join([*lines, f'  "outs": {_tight(outs)}']) + "\n }"


def _tight(value):
    return json.dumps(value, separators=(",", ":"))


class _Recorder:
    """Numbers values and operations of a module, with its calls inlined."""

    def __init__(self, module):
        self.functions = {str(f.attributes["sym_name"]).strip('"'): f for f in module.body.operations}
        self.values = self.operations = 0

    def main(self):
        block = self.functions["main"].regions[0].blocks[0]
        known = {}
        args = [self.new(known, argument) for argument in block.arguments]
        ops, outs = self.block(block, known, None)
        return args, ops, outs

    def new(self, known, value):
        """Returns [number, type, shape] of a value that is defined here."""
        known[value] = self.values
        self.values += 1
        return [known[value], str(value.type.element_type), list(value.type.shape)]

    def block(self, block, known, outer):
        """Returns (operations, numbers of the returned values). `known` are the numbers of values."""
        ops = []
        for view in block.operations:
            operation = view.operation
            if operation.name in ("func.return", "stablehlo.return"):
                return ops, [known[x] for x in operation.operands]
            if operation.name in ("func.call", "call"):
                ops += self.call(operation, known, outer)
            else:
                ops.append(self.operation(operation, known, outer))
        return ops, []

    def call(self, operation, known, outer):
        callee = self.functions[str(operation.attributes["callee"]).lstrip("@").strip('"')].regions[0].blocks[0]
        inner = {argument: known[x] for argument, x in zip(callee.arguments, operation.operands)}
        ops, outs = self.block(callee, inner, marks.location_of(_name(operation), outer))
        known.update(zip(operation.results, outs))
        return ops

    def operation(self, operation, known, outer):
        place = marks.location_of(_name(operation), outer)
        name, attributes = operation.name, {key: str(operation.attributes[key]) for key in operation.attributes}
        if attributes.get("call_target_name") == f'"{marks.TARGET}"':
            name, attributes = marks.TARGET, json.loads(operation.attributes["backend_config"].value)
        if "value" in attributes and name == "stablehlo.constant":
            attributes["value"] = attributes["value"][:MAX_ATTRIBUTE]
        blocks = [region.blocks[0] for region in operation.regions if len(region.blocks)]
        number, operands = self.operations, [known[x] for x in operation.operands]
        self.operations += 1
        regions = []
        if name in WITH_REGIONS:
            for block in blocks:
                args = [self.new(known, argument) for argument in block.arguments]
                regions.append([args, *self.block(block, known, place)])
        elif blocks:
            attributes["body"] = ",".join(x.operation.name for x in blocks[0].operations)
        results = [self.new(known, x) for x in operation.results]
        module, primitive, backward = place
        location = (f"{module}: " if module is not None else "") + primitive + (" (backward)" if backward else "")
        return [number, name, operands, results, attributes, location, regions]


def _name(operation):
    return getattr(operation.location, "name_str", "")


def loss_of(outputs):
    """Returns the loss of a recorded training step: the mean square of the first floating-point output."""
    import jax
    import jax.numpy as jnp

    found = [x for x in jax.tree.leaves(outputs) if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)]
    if not found:
        raise InputError("the model has no floating-point output", "trace it with --mode eval", 1)
    return jnp.mean(jnp.square(found[0].astype(jnp.float32)))


def training_step(run, is_trained):
    """Returns the function of (loss, *gradients) of run(*arrays), and so of the arrays with `is_trained`."""
    import jax

    where = tuple(i for i, trained in enumerate(is_trained) if trained)

    def step(*arrays):
        loss, gradients = jax.value_and_grad(lambda *given: loss_of(run(*given)), argnums=where)(*arrays)
        return loss, *gradients

    return step


def outputs_of(run):
    """Returns the function of the arrays that run(*arrays) returns."""
    import jax

    return lambda *arrays: [x for x in jax.tree.leaves(run(*arrays)) if isinstance(x, jax.Array)]


def read_settings(options):
    """Returns the Settings of a step of JAX or Keras."""
    settings.check_sizes(options)
    inputs = read_inputs(read_json(options.inputs, "--inputs"))
    return settings.Settings(options.mode, options.batch, options.sequence, inputs=inputs, vmap=options.vmap)


def find(exporter, model, modules, chosen):
    """Returns the field `program` as text; None, with a warning on standard error, if the step cannot be traced."""
    try:
        run, arguments, sizes = exporter.step_of(model, modules, chosen)
        import jax.numpy as jnp

        trained = [kind == "param" and jnp.issubdtype(x.dtype, jnp.floating) for kind, _, x in arguments]
        if chosen.mode == "train":
            step = training_step(run, trained)
            gradients = ["", *(path for (_, path, _), is_trained in zip(arguments, trained) if is_trained)]
        else:
            import jax

            step = outputs_of(run)
            gradients = [""] * len(jax.eval_shape(step, *(shape for _, _, shape in arguments)))
        return program_text(step, arguments, gradients, {"mode": chosen.mode} | sizes)
    except InputError as error:
        reason, remedy = str(error), error.remedy
    except Exception as error:  # whatever the model's code raises
        reason = f"{type(error).__name__}: {error}"
        remedy = "describe the arguments of the model's call with --inputs, or add --vmap if it takes one example"
    return warn_missing(reason, remedy)


def warn_missing(reason, remedy):
    """Prints a warning on standard error that the file has no program."""
    print(
        f"warning: the file has no program: {printable(reason, 500)}\n"
        f"  = help: {remedy}, or omit the program with --no-graph",
        file=sys.stderr,
    )
