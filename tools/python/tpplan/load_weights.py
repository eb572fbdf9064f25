"""`load` reads a rank's shards of a checkpoint into the tensors of an existing model."""

import contextlib
import json
import os
import re
import sys
from dataclasses import dataclass, fields, replace

from .compiled import warn_user
from .files import printable
from .load_library import MAX_INT, MAX_SIZE, LoadWarning, Weights, check_number
from .manifest import EXPORT_AGAIN, Manifest, ManifestError, load_manifest
from .memory import mark_written, target_of
from .paths import join
from .placed import check_placed, is_placed, placed_rank


@dataclass(frozen=True)
class Loaded:
    """Result of `load`.

    - `read_bytes`: bytes that were read from files
    - `needed_bytes`: bytes of these that were needed
    - `checked_bytes`: bytes that were compared with checksums in the files; only tensors of a file that this rank read
      completely
    - `paths`: tensors that were filled
    - `left`: tensors of the manifest that were not filled: not requested, or buffers that the weights do not have
    """

    read_bytes: int
    needed_bytes: int
    checked_bytes: int
    paths: tuple
    left: tuple


@dataclass(frozen=True)
class Checkpoint:
    """Weights with other names, fusion or dtypes than the model. All functions that accept weights accept it, with the
    options `rename`, `fuse`, `dtype` and `share` of `load`."""

    weights: object
    rename: object = None
    fuse: object = None
    dtype: object = None
    share: object = None


STORED_OPTIONS = fields(Checkpoint)[1:]


@dataclass(frozen=True)
class ReadOptions:
    """The options of `load` about the read itself."""

    on_module: object = None
    progress: object = None
    threads: int = 0
    staging: int = 0
    checksums: object = None

    def __post_init__(self):
        check_number("threads", self.threads, MAX_INT)
        check_number("staging", self.staging, MAX_SIZE)


def load(manifest, weights, *, into, rank=None, prefix="", **options):
    """Reads the shards of `rank` from `weights` into the memory of `into`; on the CPU without a copy. Returns Loaded.
    The tensors of `into` must have the local shapes of the manifest.

    `manifest`: a path, a dict, or a Manifest.

    `weights`: a safetensors file, a folder of them, their index, or a folder that `tpplan-exec save` wrote with any
    manifest and mesh.

    `into`: an nn.Module, or {path: torch tensor, DTensor, numpy array or bytearray} with some or all tensors of the
    manifest. Of a module every parameter is read, and every buffer that the weights have. DTensors must be sharded as
    in the manifest. Their meshes must use the manifest's axis names (any subset, in any order) or its axis order.

    `rank`: rank in the manifest's mesh. The default is the rank in the DTensors' meshes, else in torch.distributed,
    else 0.

    `prefix`: the path of `into` in the manifest's model, if `into` is one layer or stage; paths are then relative to
    it. A stage of several modules uses {module of `into`: its path in the manifest}, such as {"layers.0": "layers.16",
    "layers.1": "layers.17"}.

    `options`: the fields of Checkpoint and of ReadOptions.

    `rename`: maps stored names to names in the manifest. Either {regular expression: replacement}, applied in order to
    every match (as transformers' key_mapping), or a function that returns None for tensors to skip.

    `fuse`: {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}, if the weights have the fused tensor and the manifest the
    parts, or the reverse. The parts are concatenated in the dim in which their sizes add up. If the heads of each
    group are contiguous (q q k v, q q k v), a rule is {"parts": [...], "groups": 2}.

    `dtype`: "manifest" casts floating-point tensors to the manifest's dtype. A dtype such as torch.float32 is the
    dtype of `into` and replaces the manifest's. A LoadWarning reports lost precision.

    `share=True`: each byte is read once in the whole job. Every rank of the DTensors' mesh must call it for the same
    tensors. Each replicated shard is read by one rank and sent to the others over the mesh's process groups. If one
    rank fails, all raise.

    `on_module(path)`: called on this thread once all tensors of a module are filled, while other threads read. Inner
    modules come before outer ones, "" comes last.

    `progress(done_bytes, total_bytes)`: called ten times per second.

    `threads`: number of reading threads (0: one per processor, divided by the ranks that torchrun started on this
    node). `staging`: maximum bytes of their buffers.

    `checksums`: a file from `tpplan-exec verify --write-checksums` for this manifest. A tensor is reported, and the
    call returns, only if the checksums are equal.

    Raises LoadError with the diagnostics of `tpplan-exec load`, and ManifestError if an element of `into` does not
    match its tensor. Both are raised before anything is written. A later failure (disk, checksum, callback) raises
    LoadError or the callback's exception; tensors that were reported are then complete, and the contents of the others
    are undefined.
    """
    asked, buffers = _asked_of(into)
    stored = {field.name: options.pop(field.name) for field in STORED_OPTIONS if field.name in options}
    weights, how = _given(weights, **stored), ReadOptions(**options)
    check_number("rank", rank or 0, MAX_INT)
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
            return _read(*open_targets(stack), how)
        from .torch.shared import Sharing, mesh_of, whole_dims

        dims = {path: whole_dims(value) if is_placed(value) else () for path, value in asked.items()}
        sharing = Sharing(mesh_of(placed), dims)
        return _read_shared(sharing, lambda: open_targets(stack), how)


def read_new(manifest, weights, rank, make, threads=0, rename=None, sharing=None, on_module=None, progress=None):
    """Returns {path: make(shape, dtype)} with all shards of `rank`, except buffers that the weights do not have. Tied
    names share one tensor. With `sharing` (torch.shared.Sharing) every rank of its mesh must call it. The callbacks
    are those of `load`."""
    made, values, targets = {}, {}, {}
    if _given(weights).share and sharing is None:
        raise ManifestError("`share`", "needs a device mesh of torch", "remove it from the Checkpoint")

    def open_targets(stack):
        opened = stack.enter_context(_opened(manifest, _given(weights, rename=rename), rank))
        for path, tensor in opened.tensors.items():
            if not tensor.is_stored:
                continue
            if tensor.twin not in made:
                made[tensor.twin] = make(tensor.shape, tensor.dtype)
                targets[path] = tensor, target_of(path, tensor, made[tensor.twin])
            values[path] = made[tensor.twin]
        return opened, targets

    with contextlib.ExitStack() as stack:
        how = ReadOptions(threads=threads, on_module=on_module, progress=progress)
        if sharing is None:
            _read(*open_targets(stack), how)
        else:
            _read_shared(sharing, lambda: open_targets(stack), how)
        return values


def save_own(manifest, rank, folder, values):
    """Writes the rank's files from {path: value}, which has all tensors of the manifest, into an existing folder."""
    with _opened(manifest, None, rank, is_saved=True) as opened:
        targets = {path: target_of(path, tensor, values[path], False) for path, tensor in opened.tensors.items()}
        opened.save(folder, [(opened.tensors[path], t.address, t.size) for path, t in targets.items()])


def _given(weights, **stored):
    """Returns the weights as a Checkpoint with these options. Raises ManifestError if an option is given twice."""
    if not isinstance(weights, Checkpoint):
        return Checkpoint(weights, **stored)
    stored = {name: value for name, value in stored.items() if value is not None}
    for name in stored:
        if getattr(weights, name) is not None:
            raise ManifestError(f"`{name}`", "is given twice", "pass it only in the Checkpoint")
    return replace(weights, **stored)


@contextlib.contextmanager
def _opened(manifest, weights, rank, is_saved=False):
    given = _given(weights)
    if not isinstance(given.weights, (str, bytes, os.PathLike)) and not is_saved:
        raise ManifestError(
            "`weights`",
            f"{type(given.weights).__name__} is not a path",
            "give a file, an index or a folder of safetensors",
        )
    rules, dtype = _rules_of(given.fuse), _dtype_of(given.dtype)
    opened = Weights(*_text_of(manifest), given.weights, rank, _function_of(given.rename), rules, dtype)
    try:
        yield opened
    finally:
        opened.close()


def _read(opened, targets, how):
    """Fills {path: (Tensor, Target)} and returns Loaded."""
    if opened.warnings:
        warn_user(LoadWarning(opened.warnings.rstrip()))
    done = _Modules(targets, how.on_module)
    by_number = {tensor.number: (path, target) for path, (tensor, target) in targets.items()}

    def on_tensor(number):
        path, target = by_number[number]
        if target.finish is not None:
            target.finish()
            target.finish = target.owner = None
        if how.on_module is not None:
            done.fill(path)

    for _, target in targets.values():
        mark_written(target)
    is_told = how.on_module is not None or any(target.finish is not None for _, target in targets.values())
    done_bytes = opened.read(
        [(tensor, target.address, target.size) for tensor, target in targets.values()],
        on_tensor if is_told else None,
        how.progress,
        how.threads or _own_threads(),
        how.staging,
        how.checksums,
    )
    filled = {tensor.path for tensor, _ in targets.values()}
    return Loaded(*done_bytes, tuple(targets), tuple(path for path in opened.tensors if path not in filled))


def _read_shared(sharing, open_targets, how):
    """Executes _read on all ranks of a mesh: each rank reads a part of their common shards and receives the rest.
    open_targets() returns the arguments of _read. If one rank fails, all raise instead of waiting for it."""
    from .torch.shared import BATCH, deal_out, is_reader, send
    from .torch.weights import fail_together

    failure, done_bytes, counted = None, 0, (0, 0, 0)

    def tried(work, *arguments):
        nonlocal failure
        try:
            return work(*arguments) if failure is None else None
        except BaseException as error:  # raised after the other ranks know it
            failure = error

    def together():
        fail_together(sharing.mesh, _own_rank(), failure, "read its weights")

    found = tried(open_targets)
    together()
    opened, targets = found
    ordered = sorted(targets, key=lambda path: targets[path][0].number)
    deal_out(sharing, {path: (targets[path][0].twin, targets[path][1].size) for path in ordered})
    done = _Modules(targets, how.on_module or (lambda module: None))
    batches = []
    for batch in _batches(ordered, targets, BATCH):
        own = {path: targets[path] for path in batch if is_reader(sharing, path)}
        batches.append((batch, own, sum({tensor.twin: target.size for tensor, target in own.values()}.values())))
    own_bytes = sum(size for _, _, size in batches)

    def shown(now, _):
        how.progress(min(done_bytes + now, own_bytes), own_bytes)

    part = replace(how, on_module=None, progress=how.progress and shown)
    for batch, own, size in batches:
        loaded = tried(_read, opened, own, part)
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
    """Yields lists of paths with about `size` bytes each."""
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
    """Returns {path: value} of the tensors to fill, and the set of a module's buffers; None if `into` is not a module."""
    if hasattr(into, "named_parameters"):
        buffers = dict(into.named_buffers(remove_duplicate=False))
        return dict(into.named_parameters(remove_duplicate=False)) | buffers, set(buffers)
    if hasattr(into, "items"):
        return dict(into.items()), None
    raise ManifestError(
        "`into`", f"{type(into).__name__} is neither a module nor a dict", "pass a model, or {path: tensor}"
    )


def _text_of(manifest):
    """Returns the manifest's path or text, and True if it is text."""
    if isinstance(manifest, Manifest):
        return manifest.text, True
    if isinstance(manifest, dict):
        return json.dumps(manifest, ensure_ascii=False), True
    return manifest, False


def _function_of(rename):
    """Returns `rename` as a function of a stored name."""
    if rename is None or callable(rename):
        return rename
    try:
        patterns = [(re.compile(pattern), replacement) for pattern, replacement in rename.items()]
    except (re.error, TypeError, AttributeError) as error:
        raise ManifestError(
            "`rename`", f"is not a dict of regular expressions: {error}", 'pass {"^model": "decoder"}, or a function'
        ) from None

    def renamed(name):
        for pattern, replacement in patterns:
            name = pattern.sub(replacement, name)
        return name

    return renamed


def _rules_of(fuse):
    """Returns `fuse` as a list of (fused, parts, groups)."""
    if not hasattr(fuse or {}, "items"):
        raise ManifestError("`fuse`", f"{type(fuse).__name__} is not a dict", 'pass {"qkv": ["q", "k", "v"]}')
    rules = []
    for fused, parts in dict(fuse or {}).items():
        groups = 1
        if isinstance(parts, dict):
            groups, parts = parts.get("groups", 1), parts.get("parts", ())
        names = [fused, *parts] if isinstance(parts, (list, tuple)) else []
        if not hasattr(groups, "__index__") or groups < 1:
            raise ManifestError(
                "`fuse`",
                f"`{printable(str(fused))}` has {printable(repr(groups))} groups",
                "use an integer of at least 1",
            )
        if len(names) < 3 or not all(isinstance(name, str) for name in names):
            raise ManifestError(
                "`fuse`",
                f"the rule for `{printable(str(fused))}` is not a list of at least two names",
                'pass {"qkv": ["q", "k", "v"]}',
            )
        rules.append((fused, parts, int(groups)))
    return rules


def _dtype_of(dtype):
    """Returns the name of a dtype of torch, numpy or JAX."""
    if dtype is None or isinstance(dtype, str):
        return dtype
    return getattr(getattr(dtype, "dtype", dtype), "name", None) or str(dtype).removeprefix("torch.")


def _own_rank():
    """Returns the rank of this process in torch.distributed; 0 without torch.distributed."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return 0


def _own_threads():
    """Returns this rank's share of the processors, if the launcher sets LOCAL_WORLD_SIZE; otherwise 0."""
    here = os.environ.get("LOCAL_WORLD_SIZE", "")
    if not here.isascii() or not here.isdigit() or int(here) < 2:
        return 0
    return max(1, len(os.sched_getaffinity(0)) // int(here))


def _targets_of(opened, asked, buffers, prefixes):
    """Returns {path: (Tensor, Target)} of the tensors to fill. A module must have every parameter below its prefixes;
    buffers may be missing."""
    for full in prefixes.values():
        if full and not any(_moved(path, full, "") is not None for path in opened.tensors):
            reason = f"the manifest has no tensor below `{printable(full)}`"
            raise ManifestError("`prefix`", reason, "pass the path of the module in the full model")
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
            raise ManifestError(f"buffer `{printable(where)}`", "is not in the weights", "remove it from `into`")
    return targets


def _moved(path, prefix, other):
    """Returns the path with the enclosing module `prefix` replaced by `other`; None if `prefix` does not enclose it."""
    if not prefix:
        return join(other, path)
    if path == prefix or path.startswith(f"{prefix}."):
        return join(other, path[len(prefix) + 1 :]) if path != prefix else other
    return None


def _full_path(path, prefixes):
    """Returns the manifest's path of a path of `into`, using the longest enclosing prefix; None if no prefix encloses
    it."""
    around = [own for own in prefixes if _moved(path, own, "") is not None]
    return _moved(path, max(around, key=len), prefixes[max(around, key=len)]) if around else None


class _Modules:
    """Counts the missing tensors of each module, and reports modules that are complete."""

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
    """Returns the modules that enclose a tensor, innermost first."""
    atoms = path.split(".")[:-1]
    return [".".join(atoms[:count]) for count in range(len(atoms), -1, -1)]
