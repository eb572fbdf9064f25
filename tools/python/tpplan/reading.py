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
from .memory import target_of
from .paths import join
from .placed import check_placed, is_placed, placed_rank


@dataclass(frozen=True)
class Loaded:
    """What `load` did: bytes that were read from files, and of these those that were wanted; `paths` were filled, and `left` are
    tensors of the manifest that were not: nobody asked, or buffers that the weights lack."""

    read_bytes: int
    needed_bytes: int
    paths: tuple
    left: tuple


@dataclass(frozen=True)
class Checkpoint:
    """Weights that are otherwise than the model, wherever weights are taken: with the `rename`, `fuse` and `dtype` of `load`."""

    weights: object
    rename: object = None
    fuse: object = None
    dtype: object = None


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

    on_module(path) is called, on this thread, once all that is read of a module has its values, while other threads read on:
    inner modules before those around them, "" at the end. progress(done_bytes, total_bytes) is called ten times a second.
    `threads` read (0: one for each processor, shared with the ranks that torchrun started here), `staging` is the memory that they
    take at most. `checksums`: a file of `tpplan-exec verify --write-checksums` for this manifest; a tensor is told of, and the call
    returns, only where they agree.

    Raises LoadError, with the findings of `tpplan-exec load`, and ManifestError for what is no memory for its tensor, both before
    anything is written. What fails later (a disk, a checksum, a callback) raises LoadError, or what the callback raised; what was told
    of is then whole, and the rest may hold anything."""
    asked, buffers = _asked_of(into)
    weights = _given(weights, rename, fuse, dtype)
    prefixes = prefix if isinstance(prefix, dict) else {"": prefix}
    full = {_full_path(path, prefixes): value for path, value in asked.items()}
    placed = {path: value for path, value in full.items() if is_placed(value)}
    if placed:
        manifest = load_manifest(manifest)
        placed = {path: v for path, v in placed.items() if path in manifest.parameters or path in manifest.buffers}
    if rank is None:
        rank = placed_rank(manifest, placed, full) if placed else _own_rank()
    with _opened(manifest, weights, rank) as opened:
        targets = _targets_of(opened, asked, buffers, prefixes)
        for path, value in placed.items():
            check_placed(manifest, rank, path, value)
        return _read(opened, targets, on_module, progress, threads, staging, checksums)


def read_new(manifest, weights, rank, make, threads=0, rename=None):
    """{path: make(shape, dtype)}, filled: all that `rank` holds, but for buffers that the weights lack. Names that are tied
    share one."""
    with _opened(manifest, _given(weights, rename), rank) as opened:
        made, values, targets = {}, {}, {}
        for path, tensor in opened.tensors.items():
            if not tensor.is_stored:
                continue
            if tensor.twin not in made:
                made[tensor.twin] = make(tensor.shape, tensor.dtype)
                targets[path] = tensor, target_of(path, tensor, made[tensor.twin])
            values[path] = made[tensor.twin]
        _read(opened, targets, threads=threads)
        return values


def save_own(manifest, rank, folder, values):
    """Writes what `rank` writes of {path: value}, all that the manifest has, into a folder that is there."""
    with _opened(manifest, None, rank) as opened:
        targets = {path: target_of(path, tensor, values[path], False) for path, tensor in opened.tensors.items()}
        opened.save(folder, [(opened.tensors[path], t.address, t.size) for path, t in targets.items()])


def _given(weights, rename=None, fuse=None, dtype=None):
    """Weights as a Checkpoint; what is said twice is an error."""
    if not isinstance(weights, Checkpoint):
        return Checkpoint(weights, rename, fuse, dtype)
    for name, value in (("rename", rename), ("fuse", fuse), ("dtype", dtype)):
        if value is not None and getattr(weights, name) is not None:
            raise ManifestError(f"`{name}`", "is given twice", "give it in the Checkpoint alone")
    values = {"rename": rename, "fuse": fuse, "dtype": dtype}
    return replace(weights, **{name: value for name, value in values.items() if value is not None})


@contextlib.contextmanager
def _opened(manifest, weights, rank):
    given = _given(weights)
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

    is_told = on_module is not None or any(target.finish is not None for _, target in targets.values())
    read, needed = opened.read(
        [(tensor, target.address, target.size) for tensor, target in targets.values()],
        on_tensor if is_told else None,
        progress,
        threads or _own_threads(),
        staging,
        checksums,
    )
    filled = {tensor.path for tensor, _ in targets.values()}
    return Loaded(read, needed, tuple(targets), tuple(path for path in opened.tensors if path not in filled))


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
    rules = []
    for fused, parts in dict(fuse or {}).items():
        groups = 1
        if isinstance(parts, dict):
            groups, parts = parts.get("groups", 1), parts.get("parts", ())
        names = [fused, *parts] if isinstance(parts, (list, tuple)) else []
        if len(names) < 3 or not all(isinstance(name, str) for name in names) or groups != int(groups) or groups < 1:
            raise ManifestError(
                "`fuse`", f"the rule for `{printable(fused)}` names no parts", 'give {"qkv": ["q", "k", "v"]}'
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
