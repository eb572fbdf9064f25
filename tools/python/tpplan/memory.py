"""Memory that a tensor is read into: where it begins, and whether it is what the manifest says."""

import ctypes
import sys

from .files import printable
from .manifest import ManifestError

MAKE_ONE = "give memory that is whole and can be written: contiguous, of the host"


class Target:
    """Where a tensor goes. `owner` keeps the memory; `finish`, where there is one, is called when it is filled, and copies it on;
    `local` is the tensor of torch whose values these are."""

    def __init__(self, address, size, owner, finish=None, local=None):
        self.address, self.size, self.owner, self.finish, self.local = address, size, owner, finish, local


def mark_written(target):
    """Tells autograd that a tensor of torch changes, as a change in place does: a graph that was made of it is then refused, and
    has no gradients of values that it never saw."""
    if target.local is not None and not target.local.is_inference():
        sys.modules["torch"].autograd.graph.increment_version(target.local)


def target_of(path, tensor, value, is_written=True):
    """The Target of a value for a tensor (load_library.Tensor): a torch tensor or DTensor, whose local piece is taken (of another
    device's one through memory of the host, pinned towards a GPU), a numpy array, or any writable buffer; one of plain bytes may
    have any shape. Raises ManifestError where it is not what this rank holds. What is only read from (not `is_written`) may be
    read-only."""
    where = f"`{printable(path)}`"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_torch(torch, where, tensor, value, is_written)
    try:
        view = memoryview(_as_bytes(value, is_written))
    except (TypeError, ValueError, BufferError) as error:
        raise ManifestError(where, f"cannot be written to: {type(value).__name__}: {error}", MAKE_ONE) from None
    plain = isinstance(value, (bytes, bytearray, memoryview)) and view.format in "Bbc"
    if not plain:
        _check(where, tensor, tuple(value.shape), value.dtype.name)
        if not value.dtype.isnative:
            raise ManifestError(where, "has its bytes in the other order", "give an array in this machine's byte order")
    elif view.nbytes != tensor.bytes:
        raise ManifestError(where, f"has {view.nbytes} bytes, and this rank holds {tensor.bytes}", _give(tensor))
    if (view.readonly and is_written) or not view.c_contiguous:
        raise ManifestError(where, "is read-only" if view.readonly else "is not contiguous", MAKE_ONE)
    if view.nbytes == 0:
        return Target(0, 0, value)
    if view.readonly:
        return Target(value.__array_interface__["data"][0], view.nbytes, value)
    return Target(ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B"))), view.nbytes, value)


def _as_bytes(value, is_written):
    """A buffer of an array, whose type may be one that buffers have no word for."""
    if not hasattr(value, "__array_interface__") or not hasattr(value, "view"):
        if hasattr(value, "aval"):
            raise TypeError("arrays of JAX do not change: tpplan.jax.load makes them of the memory that is read into")
        if hasattr(value, "shape") and not isinstance(value, memoryview):
            raise TypeError("it is neither an array of numpy nor a tensor of torch")
        return value
    if not value.flags.c_contiguous or not (value.flags.writeable or not is_written):
        raise ValueError("it is not contiguous" if value.flags.writeable else "it is read-only")
    return value.reshape(-1).view("uint8") if value.size else b""


def _of_torch(torch, where, tensor, value, is_written):
    with torch.no_grad():
        local = value.to_local() if hasattr(value, "to_local") else value.detach()
    _check(where, tensor, tuple(local.shape), str(local.dtype).removeprefix("torch."))
    if local.layout != torch.strided:
        raise ManifestError(where, f"is {str(local.layout).removeprefix('torch.')}, not strided", MAKE_ONE)
    if local.is_neg() or local.is_conj():
        raise ManifestError(where, "is a view that negates or conjugates its memory", "give what it is a view of")
    if not local.is_contiguous():
        raise ManifestError(where, "is not contiguous", MAKE_ONE)
    if local.device.type == "meta":
        raise ManifestError(where, "is on the meta device, without memory", MAKE_ONE)
    if not is_host_memory(local):
        if not is_written:
            there = local.cpu()
            return Target(there.data_ptr(), there.nbytes, there)
        there = torch.empty(local.shape, dtype=local.dtype, pin_memory=local.device.type == "cuda")
        # Pinned memory is used again only when the copy from it is done, in the order of the current stream.
        return Target(there.data_ptr(), there.nbytes, there, lambda: local.copy_(there, non_blocking=True), local)
    return Target(local.data_ptr(), local.numel() * local.element_size(), local, local=local)


def is_host_memory(tensor):
    return tensor.device.type == "cpu"


def _check(where, tensor, shape, dtype):
    if (shape, dtype) != (tensor.shape, tensor.dtype):
        raise ManifestError(
            where, f"is {list(shape)} {dtype}, and this rank holds {list(tensor.shape)} {tensor.dtype}", _give(tensor)
        )


def _give(tensor):
    return f"give memory for {list(tensor.shape)} {tensor.dtype}, {tensor.bytes} bytes"
