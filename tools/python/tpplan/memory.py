"""Memory into which a tensor is read: finds its address, and checks it against the manifest."""

import ctypes
import sys

from .files import printable
from .manifest import ManifestError

MAKE_ONE = "give contiguous, writable host memory"


class Target:
    """The destination of a tensor. `owner` is a buffer export of the memory: it keeps the memory alive and forbids
    resizing it. `finish`, if any, is called once the memory is filled, and copies it to the device. `local` is the
    torch tensor with these values.
    """

    def __init__(self, address, size, owner, finish=None, local=None):
        self.address, self.size, self.owner, self.finish, self.local = address, size, owner, finish, local


def mark_written(target):
    """Increments the version of the torch tensor, as an in-place change does, so that a backward through its old
    values raises an error."""
    if target.local is not None and not target.local.is_inference():
        sys.modules["torch"].autograd.graph.increment_version(target.local)


def target_of(path, tensor, value, is_written=True):
    """Returns the Target of a value for a tensor (load_library.Tensor).

    The value is a torch tensor or DTensor (its local shard), a numpy array, or any writable buffer. A tensor on
    another device gets a buffer on the host, pinned for a GPU. A buffer of plain bytes may have any shape. If not
    `is_written`, the value is only read from, and may be read-only.

    Raises ManifestError if shape, dtype or memory layout differ from this rank's local shard.
    """
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
            raise ManifestError(
                where, "is not in this machine's byte order", "give an array in this machine's byte order"
            )
    elif view.nbytes != tensor.bytes:
        raise ManifestError(where, f"has {view.nbytes} bytes, but this rank's shard has {tensor.bytes}", _give(tensor))
    if (view.readonly and is_written) or not view.c_contiguous:
        raise ManifestError(where, "is read-only" if view.readonly else "is not contiguous", MAKE_ONE)
    if view.nbytes == 0:
        return Target(0, 0, value)
    if view.readonly:
        return Target(value.__array_interface__["data"][0], view.nbytes, view)
    held = ctypes.c_char.from_buffer(view.cast("B"))
    return Target(ctypes.addressof(held), view.nbytes, held)


def _as_bytes(value, is_written):
    """Returns the bytes of an array as a buffer, because the buffer protocol lacks some dtypes. Raises TypeError or
    ValueError if it cannot be written in place."""
    if not hasattr(value, "__array_interface__") or not hasattr(value, "view"):
        if hasattr(value, "aval"):
            raise TypeError(
                "JAX arrays are immutable: use tpplan.jax.load, which creates arrays from the memory that it reads into"
            )
        if hasattr(value, "shape") and not isinstance(value, memoryview):
            raise TypeError("it is neither a numpy array nor a torch tensor")
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
        raise ManifestError(
            where, "is a view that negates or conjugates its memory", "give the tensor of which it is a view"
        )
    if not local.is_contiguous():
        raise ManifestError(where, "is not contiguous", MAKE_ONE)
    if local.device.type == "meta":
        raise ManifestError(where, "is on the meta device, which has no memory", MAKE_ONE)
    if not is_host_memory(local):
        if not is_written:
            there = local.cpu()
            return Target(there.data_ptr(), there.nbytes, there)
        there = torch.empty(local.shape, dtype=local.dtype, pin_memory=local.device.type == "cuda")
        # torch's allocator reuses the pinned memory only after this copy, in stream order.
        return Target(there.data_ptr(), there.nbytes, there, lambda: local.copy_(there, non_blocking=True), local)
    return Target(local.data_ptr(), local.numel() * local.element_size(), _hold(torch, local), local=local)


def _hold(torch, tensor):
    """Returns an object that keeps the memory of the tensor. torch does not resize a storage of which a numpy array
    exists or existed: a storage that is resized while the library writes would be used after it is freed."""
    with torch.no_grad():
        return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy()


def is_host_memory(tensor):
    return tensor.device.type == "cpu"


def _check(where, tensor, shape, dtype):
    if (shape, dtype) != (tensor.shape, tensor.dtype):
        raise ManifestError(
            where,
            f"is {list(shape)} {dtype}, but this rank's shard is {list(tensor.shape)} {tensor.dtype}",
            _give(tensor),
        )


def _give(tensor):
    return f"give memory for {list(tensor.shape)} {tensor.dtype}, {tensor.bytes} bytes"
