"""A folder that several processes write, and that gets its name once all have succeeded.

One process begins and finishes it. Until then it is in a work folder next to its path, with the name, the mark and the
lock (flock) of new_folder.cc in lib. The next job that writes the same path removes marked work folders that no
process locks, and reports it.
"""

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
import warnings

from .files import printable
from .manifest import ManifestError

_MARK = "tpplan-unfinished"
_MARK_TEXT = b"tpplan: unfinished output\n"
_locks = {}  # lock descriptors of this process, by work folder


def begin_folder(path):
    """Returns a new folder to write into. It will become `path`, which must not exist or be an empty folder. Raises
    ManifestError."""
    path = os.path.realpath(path)
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        raise ManifestError(printable(path), "already exists", "name a folder that does not exist")
    parent, prefix = os.path.dirname(path), f".{os.path.basename(path)}.tpplan-"
    try:
        _remove_leftovers(parent, prefix)
        work = os.path.join(parent, prefix + secrets.token_hex(4))
        os.mkdir(work)
        made = os.path.join(work, "content")
        try:
            _locks[work] = os.open(work, os.O_RDONLY)
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(_locks[work], fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(os.path.join(work, _MARK), "xb") as mark:
                mark.write(_MARK_TEXT)
            os.mkdir(made)
        except BaseException:
            drop_folder(made)
            raise
    except OSError as error:
        raise ManifestError(printable(path), f"cannot be created: {error.strerror}", "name another folder") from None
    return made


def finish_folder(made, path):
    """Renames the folder of `begin_folder` to `path`."""
    path = os.path.realpath(path)
    _sync(made)
    os.rename(made, path)
    _sync(os.path.dirname(path))
    drop_folder(made)


def drop_folder(made):
    """Removes the work folder and its contents."""
    work = os.path.dirname(made)
    shutil.rmtree(work, ignore_errors=True)
    if work in _locks:
        os.close(_locks.pop(work))


def _sync(folder):
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_leftovers(parent, prefix):
    name = re.compile(re.escape(prefix) + "[0-9a-f]{8}(-removed)?", re.DOTALL)
    for entry in os.listdir(parent):
        folder = os.path.join(parent, entry)
        if name.fullmatch(entry) and _is_marked(folder) and _remove_if_unlocked(folder):
            text = f"{printable(folder)}: removed the unfinished output of an earlier job that was killed [TP8034]"
            warnings.warn(text, stacklevel=2)


def _is_marked(folder):
    """True if this user created it as a work folder. The name could be a coincidence, but not the mark inside."""
    try:
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return False
        handle = os.open(os.path.join(folder, _MARK), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(handle, "rb") as mark:
        return stat.S_ISREG(os.fstat(handle).st_mode) and mark.read(len(_MARK_TEXT) + 1) == _MARK_TEXT


def _remove_if_unlocked(folder):
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # another process has removed it
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
        return True
    except OSError:  # a job is writing it
        return False
    finally:
        os.close(handle)
