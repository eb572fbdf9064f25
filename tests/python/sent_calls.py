"""The collectives that a step executes, below DTensor."""

from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

FUNCTIONAL = {
    f"_c10d_functional::{name}": kind
    for name, kind in (
        ("all_gather_into_tensor", "all_gather"),
        ("reduce_scatter_tensor", "reduce_scatter"),
        ("all_reduce", "all_reduce"),
    )
}


class SentCalls(TorchDispatchMode):
    """Records the collectives. `found` has the results of `describe(phase, kind, given)` in order, without None;
    `given` is the rank's input. `kinds` are torch's names of the collectives that count.
    """

    def __init__(self, describe, kinds=FUNCTIONAL):
        super().__init__()
        self.describe, self.kinds = describe, kinds
        self.found, self.phase = [], "forward"

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        kind = self.kinds.get(function._schema.name)
        if kind is not None:
            given = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
            said = self.describe(self.phase, kind, given)
            self.found += [] if said is None else [said]
        return function(*args, **(kwargs or {}))
