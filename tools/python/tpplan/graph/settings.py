"""What a trace is told: the flags of `python -m tpplan.export`, and the inputs that they make."""

import dataclasses

from ..files import InputError, printable, read_json

SMALL = (
    4 << 30
)  # bytes: a model of at most so much is made again on the CPU, where it cannot be traced on the meta device


@dataclasses.dataclass
class Settings:
    mode: str = "eval"
    batch: int = 2
    sequence: int = 64
    attention: str | None = None
    experts: str | None = None
    dtype: str | None = None
    inputs: dict = dataclasses.field(default_factory=dict)  # name -> {"shape": [...], "dtype": "..."}


def add_options(parser):
    parser.add_argument("--no-graph", action="store_true", help="leave the operations out")
    parser.add_argument(
        "--mode",
        choices=("eval", "train"),
        default=Settings.mode,
        help="mode in which the operations are recorded (default: eval)",
    )
    parser.add_argument(
        "--batch", type=int, default=Settings.batch, metavar="B", help="batch size of the recorded run (default: 2)"
    )
    parser.add_argument(
        "--sequence",
        type=int,
        default=Settings.sequence,
        metavar="S",
        help="sequence length of the recorded run (default: 64)",
    )
    parser.add_argument(
        "--attention",
        metavar="KIND",
        help="attention of a model of transformers: eager, sdpa (default: what the model takes by itself)",
    )
    parser.add_argument(
        "--experts",
        metavar="KIND",
        help="experts of a model of transformers: eager, grouped_mm (default: what the model takes by itself)",
    )
    parser.add_argument("--dtype", metavar="D", help="dtype in which the model is built (default: its own)")
    parser.add_argument(
        "--inputs",
        default="{}",
        metavar="JSON",
        help='what forward takes, such as {"x": {"shape": [2, 16, 10], "dtype": "float64"}}',
    )


def as_inputs(inputs):
    """What --inputs says, where tensors stand for their descriptions. Raises InputError."""
    described = {}
    for name, value in inputs.items():
        if not isinstance(value, (dict, list)):
            value = {"shape": [int(size) for size in value.shape], "dtype": str(value.dtype).removeprefix("torch.")}
        described[name] = value
    return read_inputs(described, "inputs")


def read_inputs(inputs, place):
    """The descriptions of inputs, each with shape and dtype."""
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


def read_settings(options):
    if options.batch < 1 or options.sequence < 1:
        raise InputError("--batch and --sequence are at least 1", "write --batch 2 --sequence 16")
    inputs = read_inputs(read_json(options.inputs, "--inputs"), "--inputs")
    if options.dtype is not None:
        read_dtype(options.dtype)
    return Settings(
        options.mode, options.batch, options.sequence, options.attention, options.experts, options.dtype, inputs
    )


def read_dtype(name):
    """The dtype of torch that has this name. Raises InputError."""
    import torch

    found = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype):
        raise InputError(f"torch has no dtype `{printable(name)}`", "float32, bfloat16, int64 ...")
    return found


def make_input(described, device, index_below=1):
    """A tensor of this shape and dtype: numbers that repeat from run to run, whole ones below index_below."""
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
    """The first members of a graph."""
    made = {"mode": settings.mode, "attention": settings.attention, "experts": settings.experts, "dtype": dtype}
    shapes = [list(described.get("shape", ())) for described in dict(settings.inputs).values()]
    batch, sequence = next((shape[:2] for shape in shapes if len(shape) > 1), (settings.batch, settings.sequence))
    made |= {"batch": batch, "sequence": sequence}
    return {key: value for key, value in made.items() if value is not None}
