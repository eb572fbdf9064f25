"""Settings of a trace: the options of `python -m tpplan.export`, and the inputs that they describe."""

import dataclasses

from ..files import InputError, printable, read_json

SMALL = 4 << 30  # bytes: the largest model that is rebuilt on the CPU if tracing on the meta device fails


@dataclasses.dataclass
class Settings:
    mode: str = "eval"
    batch: int = 2
    sequence: int = 64
    attention: str | None = None
    experts: str | None = None
    dtype: str | None = None
    inputs: dict = dataclasses.field(default_factory=dict)  # name -> {"shape": [...], "dtype": "..."}
    vmap: bool = False


def add_options(parser):
    parser.add_argument("--no-graph", action="store_true", help="do not trace the operations")
    parser.add_argument(
        "--mode",
        choices=("eval", "train"),
        default=Settings.mode,
        help="mode in which the model is traced (default: eval)",
    )
    parser.add_argument(
        "--batch", type=int, default=Settings.batch, metavar="B", help="batch size of the example inputs (default: 2)"
    )
    parser.add_argument(
        "--sequence",
        type=int,
        default=Settings.sequence,
        metavar="S",
        help="sequence length of the example inputs (default: 64)",
    )
    parser.add_argument(
        "--attention",
        metavar="KIND",
        help="attention implementation of a transformers model: eager, sdpa (default: the model's default)",
    )
    parser.add_argument(
        "--experts",
        metavar="KIND",
        help="experts implementation of a transformers model: eager, grouped_mm (default: the model's default)",
    )
    parser.add_argument("--dtype", metavar="D", help="dtype of the model (default: unchanged)")
    parser.add_argument(
        "--inputs",
        default="{}",
        metavar="JSON",
        help='arguments of forward, such as {"x": {"shape": [2, 16, 10], "dtype": "float64"}}',
    )


def as_inputs(inputs):
    """Returns descriptions of inputs as --inputs has them; a tensor is described by its shape and dtype. Raises
    InputError for other values."""
    described = {}
    for name, value in inputs.items():
        if not isinstance(value, (dict, list)):
            value = {"shape": [int(size) for size in value.shape], "dtype": str(value.dtype).removeprefix("torch.")}
        described[name] = value
    return read_inputs(described, "inputs")


def read_inputs(inputs, place):
    """Returns the descriptions of the inputs, with default dtypes added. Raises InputError if one has no shape or an
    unknown dtype."""
    remedy = 'write an object such as {"x": {"shape": [2, 16, 10], "dtype": "float64"}}'
    if not isinstance(inputs, dict):
        raise InputError(f"{place} is not an object", remedy)
    for name, described in inputs.items():
        shape = described.get("shape") if isinstance(described, dict) else described
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            raise InputError(f"{place}: `{printable(name)}` has no shape", remedy)
        inputs[name] = {"shape": shape, "dtype": "float32"} | (
            described if isinstance(described, dict) else {"dtype": "int64"}
        )
        read_dtype(inputs[name]["dtype"])
    return inputs


def check_sizes(options):
    if options.batch < 1 or options.sequence < 1:
        raise InputError("--batch and --sequence must be at least 1", "write --batch 2 --sequence 16")


def read_settings(options):
    check_sizes(options)
    inputs = read_inputs(read_json(options.inputs, "--inputs"), "--inputs")
    if options.dtype is not None:
        read_dtype(options.dtype)
    return Settings(
        options.mode, options.batch, options.sequence, options.attention, options.experts, options.dtype, inputs
    )


def read_dtype(name):
    """Returns torch's dtype of this name. Raises InputError if torch has none."""
    import torch

    found = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype):
        raise InputError(
            f"torch has no dtype `{printable(name)}`", "use a dtype of torch, such as float32, bfloat16 or int64"
        )
    return found


def make_input(described, device, index_below=1):
    """Returns a tensor of the described shape and dtype. Its values are the same in every execution; integers are
    below `index_below`."""
    import torch

    dtype, shape = read_dtype(described["dtype"]), described["shape"]
    if str(device) == "meta":
        return torch.empty(shape, dtype=dtype, device=device)
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=dtype, generator=generator)
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype)
    return torch.randint(0, max(index_below, 1), shape, dtype=dtype, generator=generator)


def header(settings, dtype):
    """Returns the first fields of a graph: mode, implementations, dtype, batch size and sequence length."""
    made = {"mode": settings.mode, "attention": settings.attention, "experts": settings.experts, "dtype": dtype}
    shapes = [list(described.get("shape", ())) for described in dict(settings.inputs).values()]
    batch, sequence = next((shape[:2] for shape in shapes if len(shape) > 1), (settings.batch, settings.sequence))
    made |= {"batch": batch, "sequence": sequence}
    return {key: value for key, value in made.items() if value is not None}
