"""Calls libtpplan_load (lib/exec/load/tpplan_load.h) with ctypes, which releases the GIL during calls."""

import ctypes
import os
import pathlib
import shutil
import sys
import sysconfig

from .files import printable
from .manifest import ManifestError

NAME, VERSION = "libtpplan_load.so", 3
STOPPED = 4  # TPPLAN_LOAD_STOPPED
MAX_INT, MAX_SIZE = (1 << 31) - 1, (1 << 64) - 1  # limits of int and uint64_t


class LoadError(ValueError):
    """Weights that cannot be loaded; the text is the output of `tpplan-exec load`. `status` is its exit status: 1 for
    wrong content, 2 for unusable input, 3 for a lack of memory."""

    def __init__(self, text, status=1):
        self.status = status
        super().__init__(text)


class LoadWarning(UserWarning):
    """Warnings of the library about weights that were opened, in the format of LoadError."""


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("path", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("dims", ctypes.c_size_t),
        ("full_shape", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_uint64),
        ("same_as", ctypes.c_size_t),
        ("is_buffer", ctypes.c_int),
        ("is_stored", ctypes.c_int),
    )


class _Target(ctypes.Structure):
    _fields_ = (("tensor", ctypes.c_size_t), ("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64))


_RENAME = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_ON_TENSOR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_ON_PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)


class _Fuse(ctypes.Structure):
    _fields_ = (
        ("fused", ctypes.c_char_p),
        ("parts", ctypes.POINTER(ctypes.c_char_p)),
        ("count", ctypes.c_size_t),
        ("groups", ctypes.c_uint64),
    )


class _Source(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("manifest", ctypes.c_char_p),
        ("text", ctypes.c_char_p),
        ("length", ctypes.c_size_t),
        ("weights", ctypes.c_char_p),
        ("rank", ctypes.c_int),
        ("rename", _RENAME),
        ("user", ctypes.c_void_p),
        ("fuse", ctypes.POINTER(_Fuse)),
        ("fuse_count", ctypes.c_size_t),
        ("dtype", ctypes.c_char_p),
        ("device", ctypes.c_char_p),
        ("device_number", ctypes.c_int),
    )


class _Options(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("threads", ctypes.c_int),
        ("staging", ctypes.c_uint64),
        ("checksums", ctypes.c_char_p),
        ("on_tensor", _ON_TENSOR),
        ("on_progress", _ON_PROGRESS),
        ("user", ctypes.c_void_p),
    )


class _Result(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("read_bytes", "needed_bytes", "checked_bytes"))


_RESULTS = {
    "version": (ctypes.c_int, ()),
    "open": (ctypes.c_int, (ctypes.POINTER(_Source), ctypes.c_void_p)),
    "count": (ctypes.c_size_t, (ctypes.c_void_p,)),
    "describe": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_Tensor))),
    "read": (
        ctypes.c_int,
        (ctypes.c_void_p, ctypes.POINTER(_Target), ctypes.c_size_t, ctypes.POINTER(_Options), ctypes.POINTER(_Result)),
    ),
    "save": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(_Target), ctypes.c_size_t)),
    "error": (ctypes.c_char_p, (ctypes.c_void_p,)),
    "warnings": (ctypes.c_char_p, (ctypes.c_void_p,)),
    "close": (None, (ctypes.c_void_p,)),
}
_found = {}  # functions of each opened library, by path


def library():
    """Returns the functions of the library, by name. Raises ManifestError if the library is not found. It is searched
    in:

    - the environment's TPPLAN_LOAD
    - the folder of the program (TPPLAN, or tpplan in PATH) and the prefix of this Python; the prefix comes first
      unless TPPLAN is set
    - the system's library path
    """
    program = shutil.which(os.environ.get("TPPLAN", "")) or shutil.which("tpplan")
    near = (
        [pathlib.Path(program).resolve().parent, pathlib.Path(program).resolve().parent.parent / "lib"]
        if program
        else []
    )
    places = [pathlib.Path(sysconfig.get_path("data")) / "lib", pathlib.Path(sys.prefix) / "lib"]
    paths = [str(folder / NAME) for folder in (near + places if "TPPLAN" in os.environ else places + near)]
    named = os.environ.get("TPPLAN_LOAD")
    path = named or next((path for path in paths if os.path.exists(path)), NAME)
    if path in _found:
        return _found[path]
    try:
        opened = ctypes.CDLL(path)
    except OSError as error:
        raise ManifestError(
            NAME,
            f"cannot be loaded: {error}",
            "install it (pip install tpplan-*.whl), or build it (tools/scripts/package) and set the "
            "environment variable TPPLAN_LOAD to its path",
        ) from None
    functions = {}
    for name, (result, arguments) in _RESULTS.items():
        functions[name] = getattr(opened, f"tpplan_load_{name}")
        functions[name].restype, functions[name].argtypes = result, arguments
    if functions["version"]() != VERSION:
        raise ManifestError(
            path,
            f"has version {functions['version']()}, but this package needs {VERSION}",
            "install both from one release",
        )
    return _found.setdefault(path, functions)


class Tensor:
    """A tensor of the manifest with its local shape on this rank. `twin` is the index of the first tensor that is tied
    to it."""

    def __init__(self, number, told):
        self.number, self.path, self.dtype = number, told.path.decode(), told.dtype.decode()
        self.shape = tuple(told.shape[: told.dims])
        self.bytes, self.twin = told.bytes, told.same_as
        self.is_buffer, self.is_stored = bool(told.is_buffer), bool(told.is_stored)


class Weights:
    """Weights that are open for one rank: `tensors` by path, in the manifest's order, and `warnings`.

    - `manifest`: a path, or text if `is_text`
    - `weights`: None if only `save` is called
    - `rename`: function from a stored name to the manifest's name, or to None
    - `fuse`: rules (fused, parts, groups)
    - `dtype`: a dtype or "manifest"
    - `device`: (name, number)

    tpplan_load_source has the details. Raises LoadError, and any exception of rename.
    """

    def __init__(self, manifest, is_text, weights, rank, rename=None, fuse=(), dtype=None, device=None):
        self._call, self._load = library(), ctypes.c_void_p()
        source = _Source(ctypes.sizeof(_Source), rank=check_number("rank", rank, MAX_INT))
        if weights is not None:
            source.weights = _text("weights", os.fsencode(weights))
        rules = [
            (
                _text("fuse", fused.encode()),
                [_text("fuse", part.encode()) for part in parts],
                check_number("groups", groups, MAX_SIZE),
            )
            for fused, parts, groups in fuse
        ]
        rules = [_Fuse(f, (ctypes.c_char_p * len(p))(*p), len(p), groups) for f, p, groups in rules]
        source.fuse, source.fuse_count = (_Fuse * max(1, len(rules)))(*rules), len(rules)
        source.dtype = None if dtype is None else _text("dtype", dtype.encode())
        if device is not None:
            source.device, source.device_number = device[0].encode(), device[1]
        if is_text:
            source.text = manifest.encode()
            source.length = len(manifest.encode())
        else:
            source.manifest = _text("manifest", os.fsencode(manifest))
        raised, kept = [], []

        def renamed(_, stored):
            try:
                name = None if raised else rename(stored.decode())
                if name is not None and not isinstance(name, str):
                    reason = f"returns {type(name).__name__} for `{printable(stored.decode())}`"
                    raise ManifestError("`rename`", reason, "return a name, or None to skip the tensor")
                kept[:] = [] if name is None else [ctypes.create_string_buffer(_text("rename", name.encode()))]
            except BaseException as error:
                raised.append(error)
            return ctypes.addressof(kept[0]) if kept and not raised else None

        if rename is not None:
            source.rename = _RENAME(renamed)
        status = self._call["open"](ctypes.byref(source), ctypes.byref(self._load))
        try:
            if raised:
                raise raised[0]
            self._check(status)
            self.warnings = self._call["warnings"](self._load).decode(errors="replace")
            self.tensors = {}
            for number in range(self._call["count"](self._load)):
                told = _Tensor()
                self._check(self._call["describe"](self._load, number, ctypes.byref(told)))
                self.tensors[told.path.decode()] = Tensor(number, told)
        except BaseException:
            self.close()
            raise

    def _check(self, status):
        if status:
            raise LoadError(self._call["error"](self._load).decode(errors="replace").rstrip(), status)

    def read(self, targets, on_tensor=None, on_progress=None, threads=0, staging=0, checksums=None):
        """Fills `targets`: (Tensor, address, bytes). Returns the bytes that were read, needed and compared with
        checksums. on_tensor(number) and on_progress(done, total) are called on this thread; their exceptions end
        the read and are raised again."""
        raised = []

        def calls(function):
            def guarded(_, *arguments):
                try:
                    function(*arguments)
                except BaseException as error:
                    raised.append(error)
                return len(raised)

            return guarded

        array = _array_of(targets)
        options = _Options(
            ctypes.sizeof(_Options),
            check_number("threads", threads, MAX_INT),
            check_number("staging", staging, MAX_SIZE),
            None if checksums is None else _text("checksums", os.fsencode(checksums)),
        )
        if on_tensor is not None:
            options.on_tensor = _ON_TENSOR(calls(on_tensor))
        if on_progress is not None:
            options.on_progress = _ON_PROGRESS(calls(on_progress))
        result = _Result()
        status = self._call["read"](self._load, array, len(targets), ctypes.byref(options), ctypes.byref(result))
        if raised:
            raise raised[0]
        self._check(status)
        return result.read_bytes, result.needed_bytes, result.checked_bytes

    def save(self, folder, sources):
        """Writes this rank's files into an existing folder, from all tensors: (Tensor, address, bytes)."""
        name = _text("folder", os.fsencode(folder))
        self._check(self._call["save"](self._load, name, _array_of(sources), len(sources)))

    def close(self):
        self._call["close"](self._load)
        self._load = ctypes.c_void_p()


def check_number(name, value, most):
    """Returns the number. Raises ManifestError if the library's type cannot hold it: ctypes would pass its lower bits."""
    if not hasattr(value, "__index__") or not 0 <= value <= most:
        raise ManifestError(f"`{name}`", f"is {printable(repr(value))}", f"give a number from 0 to {most}")
    return int(value)


def _text(name, text):
    """Returns the text. Raises ManifestError if it has a zero byte: the library would read only what is before it."""
    if b"\0" in text:
        raise ManifestError(f"`{name}`", f"{printable(repr(text))} has a zero byte", "use a name without a zero byte")
    return text


def _array_of(targets):
    return (_Target * max(1, len(targets)))(*((tensor.number, address, size) for tensor, address, size in targets))
