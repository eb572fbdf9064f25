"""A folder that many processes write together, and that has its name when all have succeeded. One process begins and ends it, and
holds a lock on it (flock), by which one that a killed job has left is known: the next job of the same name removes it."""

import fcntl
import glob
import os
import shutil
import tempfile

from .files import printable
from .manifest import ManifestError


_locks = {}  # by folder that was begun here: what it is open by


def begin_folder(path):
    """A new folder beside `path`, which is not there, or is an empty folder. Raises ManifestError."""
    path = os.path.abspath(path)
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        raise ManifestError(printable(path), "is there already", "name a folder that is not")
    parent, prefix = os.path.dirname(path), f".{os.path.basename(path)}.tpplan-"
    try:
        for left in glob.glob(os.path.join(glob.escape(parent), f"{glob.escape(prefix)}*")):
            _remove_if_left(left)
        made = tempfile.mkdtemp(prefix=prefix, dir=parent)
        _locks[made] = os.open(made, os.O_RDONLY)
        fcntl.flock(_locks[made], fcntl.LOCK_EX | fcntl.LOCK_NB)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(made, 0o777 & ~umask)
    except OSError as error:
        raise ManifestError(printable(path), f"cannot be made: {error.strerror}", "name another folder") from None
    return made


def finish_folder(made, path):
    """Gives it its name."""
    path = os.path.abspath(path)
    _sync(made)
    os.rename(made, path)
    _sync(os.path.dirname(path))
    os.close(_locks.pop(made))


def drop_folder(made):
    shutil.rmtree(made, ignore_errors=True)
    os.close(_locks.pop(made))


def _sync(folder):
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_if_left(folder):
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # another has removed it
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # somebody writes it
        pass
    finally:
        os.close(handle)
