"""A rank's shards of a checkpoint, read into the tensors of a model that is there: `load`."""

import contextlib
import json
import os
import re
import sys
from dataclasses import dataclass, replace

from .compiled import warn_user
from .files import printable
from .load_library import LoadWarning, Weights
from .manifest import EXPORT_AGAIN, Manifest, ManifestError, load_manifest
from .memory import mark_written, target_of
from .paths import join
from .placed import check_placed, is_placed, placed_rank


@dataclass(frozen=True)
class Loaded:
    """What `load` did: bytes that were read from files, of these those that were wanted, and those that were held against checksums which
    the files keep (of tensors of a file that this rank read whole); `paths` were filled, and `left` are tensors of the manifest that were
    not: nobody asked, or buffers that the weights lack."""

    read_bytes: int
    needed_bytes: int
    checked_bytes: int
    paths: tuple
    left: tuple


@dataclass(frozen=True)
class Checkpoint:
    """Weights that are otherwise than the model, wherever weights are taken: with the `rename`, `fuse`, `dtype` and `share` of `load`."""

    weights: object
    rename: object = None
    fuse: object = None
    dtype: object = None
    share: object = None


def load(
    manifest,
    weights,
    *,
    into,
    rank=None,
    prefix="",
    rename=None,
    fuse=None,
    dtype=None,
    share=None,
    on_module=None,
    progress=None,
    threads=0,
    staging=0,
    checksums=None,
):
    """Reads what `rank` holds of `weights` into the memory of `into`, which must be what the manifest says that it holds; on
    the CPU without a copy. Returns Loaded.

    `manifest`: a path, a dict, or what load_manifest gave. `weights`: a safetensors file, a folder of them, their index, or a
    folder that `tpplan-exec save` wrote, by whatever manifest and mesh. `into`: an nn.Module, of which every parameter is read,
    and every buffer that the weights have; or {path: torch tensor, DTensor, numpy array or bytearray}, some or all of the
    manifest's. DTensors must be cut as the manifest says, over meshes whose axes have its names (some of them, in any order) or
    stand in its order. `rank`: the manifest's; without it the place on the DTensors' meshes, else in torch.distributed, else 0.

    `prefix`: the path of the module that `into` is of the manifest's model: one layer, one stage; paths are then that module's own.
    A stage of several: {module of `into`: its path in the manifest}, such as {"layers.0": "layers.16", "layers.1": "layers.17"}.
    `rename`: what the manifest calls the tensors of the weights: {regular expression: replacement}, of which each that is found in
    a name is replaced, in this order (as transformers' key_mapping); or a function of the name, None for what is left out.

    `fuse`: {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}, of which the weights have the one and the manifest the others: parts stand one
    behind the other in the dim in which they add up. Where the heads of a group stand together (q q k v, q q k v), a rule is
    {"parts": [...], "groups": 2}. `dtype`: "manifest" casts what the weights have in another type of floating point to the manifest's;
    a type, such as torch.float32, is that of `into`, whatever the manifest says; a LoadWarning says where precision is lost.

    `share=True`: every rank of the DTensors' mesh calls it, for the same tensors; what several of them hold is read by one, each by another
    part, and sent to the others by the mesh's process groups, so that each byte is read once in the whole job. Where one of them
    fails, all raise.

    on_module(path) is called, on this thread, once all that is read of a module has its values, while other threads read on:
    inner modules before those around them, "" at the end. progress(done_bytes, total_bytes) is called ten times a second.
    `threads` read (0: one for each processor, shared with the ranks that torchrun started here), `staging` is the memory that they
    take at most. `checksums`: a file of `tpplan-exec verify --write-checksums` for this manifest; a tensor is told of, and the call
    returns, only where they agree.

    Raises LoadError, with the findings of `tpplan-exec load`, and ManifestError for what is no memory for its tensor, both before
    anything is written. What fails later (a disk, a checksum, a callback) raises LoadError, or what the callback raised; what was told
    of is then whole, and the rest may hold anything."""
    asked, buffers = _asked_of(into)
    weights = _given(weights, rename, fuse, dtype, share)
    for name, value in {"rank": rank or 0, "threads": threads, "staging": staging}.items():
        if not hasattr(value, "__index__") or value < 0:
            raise ManifestError(f"`{name}`", f"is {printable(repr(value))}", "give a number from 0 on, or leave it out")
    prefixes = prefix if isinstance(prefix, dict) else {"": prefix}
    full = {_full_path(path, prefixes): value for path, value in asked.items()}
    placed = {path: value for path, value in full.items() if is_placed(value)}

    def open_targets(stack):
        of, known = manifest, {}
        if placed:
            of = load_manifest(manifest)
            known = {path: v for path, v in placed.items() if path in of.parameters or path in of.buffers}
        own = rank if rank is not None else placed_rank(of, known, full) if known else _own_rank()
        opened = stack.enter_context(_opened(of, weights, own))
        targets = _targets_of(opened, asked, buffers, prefixes)
        for path, value in known.items():
            check_placed(of, own, path, value)
        return opened, targets

    with contextlib.ExitStack() as stack:
        if not weights.share:
            return _read(*open_targets(stack), on_module, progress, threads, staging, checksums)
        from .torch.shared import Sharing, mesh_of, whole_dims

        dims = {path: whole_dims(value) if is_placed(value) else () for path, value in asked.items()}
        sharing = Sharing(mesh_of(placed), dims)
        return _read_shared(sharing, lambda: open_targets(stack), on_module, progress, threads, staging, checksums)


def read_new(manifest, weights, rank, make, threads=0, rename=None, sharing=None):
    """{path: make(shape, dtype)}, filled: all that `rank` holds, but for buffers that the weights lack. Names that are tied
    share one. With `sharing` (torch.shared.Sharing) every rank of its mesh calls it."""
    made, values, targets = {}, {}, {}
    if _given(weights).share and sharing is None:
        raise ManifestError("`share`", "is for meshes of torch", "leave it out of the Checkpoint")

    def open_targets(stack):
        opened = stack.enter_context(_opened(manifest, _given(weights, rename), rank))
        for path, tensor in opened.tensors.items():
            if not tensor.is_stored:
                continue
            if tensor.twin not in made:
                made[tensor.twin] = make(tensor.shape, tensor.dtype)
                targets[path] = tensor, target_of(path, tensor, made[tensor.twin])
            values[path] = made[tensor.twin]
        return opened, targets

    with contextlib.ExitStack() as stack:
        if sharing is None:
            _read(*open_targets(stack), threads=threads)
        else:
            _read_shared(sharing, lambda: open_targets(stack), threads=threads)
        return values


def save_own(manifest, rank, folder, values):
    """Writes what `rank` writes of {path: value}, all that the manifest has, into a folder that is there."""
    with _opened(manifest, None, rank, is_saved=True) as opened:
        targets = {path: target_of(path, tensor, values[path], False) for path, tensor in opened.tensors.items()}
        opened.save(folder, [(opened.tensors[path], t.address, t.size) for path, t in targets.items()])


def _given(weights, rename=None, fuse=None, dtype=None, share=None):
    """Weights as a Checkpoint; what is said twice is an error."""
    if not isinstance(weights, Checkpoint):
        return Checkpoint(weights, rename, fuse, dtype, share)
    values = {"rename": rename, "fuse": fuse, "dtype": dtype, "share": share}
    for name, value in values.items():
        if value is not None and getattr(weights, name) is not None:
            raise ManifestError(f"`{name}`", "is given twice", "give it in the Checkpoint alone")
    return replace(weights, **{name: value for name, value in values.items() if value is not None})


@contextlib.contextmanager
def _opened(manifest, weights, rank, is_saved=False):
    given = _given(weights)
    if not isinstance(given.weights, (str, bytes, os.PathLike)) and not is_saved:
        raise ManifestError(
            "`weights`",
            f"{type(given.weights).__name__} is no path",
            "name a file, an index or a folder of safetensors",
        )
    rules, dtype = _rules_of(given.fuse), _dtype_of(given.dtype)
    opened = Weights(*_text_of(manifest), given.weights, rank, _function_of(given.rename), rules, dtype)
    try:
        yield opened
    finally:
        opened.close()


def _read(opened, targets, on_module=None, progress=None, threads=0, staging=0, checksums=None):
    """Fills {path: (Tensor, Target)}; returns Loaded."""
    if opened.warnings:
        warn_user(LoadWarning(opened.warnings.rstrip()))
    done = _Modules(targets, on_module)
    by_number = {tensor.number: (path, target) for path, (tensor, target) in targets.items()}

    def on_tensor(number):
        path, target = by_number[number]
        if target.finish is not None:
            target.finish()
            target.finish = target.owner = None
        if on_module is not None:
            done.fill(path)

    for _, target in targets.values():
        mark_written(target)
    is_told = on_module is not None or any(target.finish is not None for _, target in targets.values())
    done_bytes = opened.read(
        [(tensor, target.address, target.size) for tensor, target in targets.values()],
        on_tensor if is_told else None,
        progress,
        threads or _own_threads(),
        staging,
        checksums,
    )
    filled = {tensor.path for tensor, _ in targets.values()}
    return Loaded(*done_bytes, tuple(targets), tuple(path for path in opened.tensors if path not in filled))


def _read_shared(sharing, open_targets, on_module=None, progress=None, threads=0, staging=0, checksums=None):
    """_read by all ranks of a mesh, each of which reads a part of what they hold alike, and is sent the rest. open_targets() gives what
    _read takes. Where one of them fails, nobody waits for it, and all raise."""
    from .torch.shared import BATCH, deal_out, is_reader, send
    from .torch.weights import fail_together

    failure, done_bytes, counted = None, 0, (0, 0, 0)

    def tried(work, *arguments):
        nonlocal failure
        try:
            return work(*arguments) if failure is None else None
        except BaseException as error:  # the others wait
            failure = error

    def together():
        fail_together(sharing.mesh, _own_rank(), failure, "read its weights")

    found = tried(open_targets)
    together()
    opened, targets = found
    ordered = sorted(targets, key=lambda path: targets[path][0].number)
    deal_out(sharing, {path: (targets[path][0].twin, targets[path][1].size) for path in ordered})
    done = _Modules(targets, on_module or (lambda module: None))
    batches = []
    for batch in _batches(ordered, targets, BATCH):
        own = {path: targets[path] for path in batch if is_reader(sharing, path)}
        batches.append((batch, own, sum({tensor.twin: target.size for tensor, target in own.values()}.values())))
    own_bytes = sum(size for _, _, size in batches)

    def shown(now, _):
        progress(min(done_bytes + now, own_bytes), own_bytes)

    for batch, own, size in batches:
        loaded = tried(_read, opened, own, None, progress and shown, threads, staging, checksums)
        together()
        done_bytes += size
        counted = [a + b for a, b in zip(counted, (loaded.read_bytes, loaded.needed_bytes, loaded.checked_bytes))]
        for path in batch:
            mark_written(targets[path][1])
            send(sharing, path, targets[path][1].local)
            tried(done.fill, path)
    together()
    filled = {tensor.path for tensor, _ in targets.values()}
    return Loaded(*counted, tuple(targets), tuple(path for path in opened.tensors if path not in filled))


def _batches(paths, targets, size):
    """The paths, in lists of about so many bytes."""
    batch, bytes_of_it = [], 0
    for path in paths:
        batch.append(path)
        bytes_of_it += targets[path][1].size
        if bytes_of_it >= size:
            yield batch
            batch, bytes_of_it = [], 0
    if batch:
        yield batch


def _asked_of(into):
    """{path: value} of what is to be filled; and which of these are a module's buffers, None where `into` is no module."""
    if hasattr(into, "named_parameters"):
        buffers = dict(into.named_buffers(remove_duplicate=False))
        return dict(into.named_parameters(remove_duplicate=False)) | buffers, set(buffers)
    if hasattr(into, "items"):
        return dict(into.items()), None
    raise ManifestError("`into`", f"{type(into).__name__} is no module and no dict", "give a model, or {path: tensor}")


def _text_of(manifest):
    """What a manifest is opened by, and whether that is its text."""
    if isinstance(manifest, Manifest):
        return manifest.text, True
    if isinstance(manifest, dict):
        return json.dumps(manifest, ensure_ascii=False), True
    return manifest, False


def _function_of(rename):
    """`rename` as a function of a stored name."""
    if rename is None or callable(rename):
        return rename
    try:
        patterns = [(re.compile(pattern), replacement) for pattern, replacement in rename.items()]
    except (re.error, TypeError, AttributeError) as error:
        raise ManifestError(
            "`rename`", f"is no dict of regular expressions: {error}", 'give {"^model": "decoder"}, or a function'
        ) from None

    def renamed(name):
        for pattern, replacement in patterns:
            name = pattern.sub(replacement, name)
        return name

    return renamed


def _rules_of(fuse):
    """`fuse` as (fused, parts, groups)."""
    if not hasattr(fuse or {}, "items"):
        raise ManifestError("`fuse`", f"{type(fuse).__name__} is no dict", 'give {"qkv": ["q", "k", "v"]}')
    rules = []
    for fused, parts in dict(fuse or {}).items():
        groups = 1
        if isinstance(parts, dict):
            groups, parts = parts.get("groups", 1), parts.get("parts", ())
        names = [fused, *parts] if isinstance(parts, (list, tuple)) else []
        if not hasattr(groups, "__index__") or groups < 1:
            raise ManifestError(
                "`fuse`", f"`{printable(str(fused))}` has {printable(repr(groups))} groups", "give a number from 1 on"
            )
        if len(names) < 3 or not all(isinstance(name, str) for name in names):
            raise ManifestError(
                "`fuse`", f"the rule for `{printable(str(fused))}` names no parts", 'give {"qkv": ["q", "k", "v"]}'
            )
        rules.append((fused, parts, int(groups)))
    return rules


def _dtype_of(dtype):
    """The name of a type of torch, numpy or JAX."""
    if dtype is None or isinstance(dtype, str):
        return dtype
    return getattr(getattr(dtype, "dtype", dtype), "name", None) or str(dtype).removeprefix("torch.")


def _own_rank():
    """The place of this process in torch.distributed; where there is none, 0."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return 0


def _own_threads():
    """A share of the processors among the ranks of a node, where a launcher says how many there are."""
    here = os.environ.get("LOCAL_WORLD_SIZE", "")
    if not here.isascii() or not here.isdigit() or int(here) < 2:
        return 0
    return max(1, len(os.sched_getaffinity(0)) // int(here))


def _targets_of(opened, asked, buffers, prefixes):
    """{path: (Tensor, Target)} of what is filled. Of a module this is all below its prefixes, but for buffers that are not kept."""
    for full in prefixes.values():
        if full and not any(_moved(path, full, "") is not None for path in opened.tensors):
            reason = f"the manifest has nothing below `{printable(full)}`"
            raise ManifestError("`prefix`", reason, "give the path of the module in the whole model")
    for path, tensor in opened.tensors.items():
        for own, full in prefixes.items() if buffers is not None and not tensor.is_buffer else ():
            below = _moved(path, full, own)
            if below is not None and _full_path(below, prefixes) == path and below not in asked:
                raise ManifestError(f"parameter `{printable(path)}`", "is not in the model", EXPORT_AGAIN)
    targets = {}
    for path, value in asked.items():
        full = _full_path(path, prefixes)
        tensor = None if full is None else opened.tensors.get(full)
        where = path if full is None else full
        if tensor is not None and tensor.is_stored:
            targets[path] = tensor, target_of(where, tensor, value)
        elif tensor is None and path not in (buffers or ()):
            raise ManifestError(f"`{printable(where)}`", "is not in the manifest", EXPORT_AGAIN)
        elif buffers is None:
            raise ManifestError(f"buffer `{printable(where)}`", "is not in the weights", "leave it out")
    return targets


def _moved(path, prefix, other):
    """The path with `other` in place of a module around it; None where it is not around it."""
    if not prefix:
        return join(other, path)
    if path == prefix or path.startswith(f"{prefix}."):
        return join(other, path[len(prefix) + 1 :]) if path != prefix else other
    return None


def _full_path(path, prefixes):
    """Where a path of `into` stands in the manifest: by the longest module that is around it. None: in none of them."""
    around = [own for own in prefixes if _moved(path, own, "") is not None]
    return _moved(path, max(around, key=len), prefixes[max(around, key=len)]) if around else None


class _Modules:
    """Counts what is missing of each module, and tells when it is nothing."""

    def __init__(self, paths, tell):
        self.missing, self.tell = {}, tell
        for path in paths:
            for module in _around(path):
                self.missing[module] = self.missing.get(module, 0) + 1

    def fill(self, path):
        for module in _around(path):
            self.missing[module] -= 1
            if self.missing[module] == 0:
                self.tell(module)


def _around(path):
    """The modules around a tensor, the innermost first."""
    atoms = path.split(".")[:-1]
    return [".".join(atoms[:count]) for count in range(len(atoms), -1, -1)]
