"""A folder that many processes write together, and that has its name when all have succeeded."""

import os
import shutil
import tempfile

from .files import printable
from .manifest import ManifestError


def begin_folder(path):
    """A new folder beside `path`, which is not there, or is an empty folder. Raises ManifestError."""
    path = os.path.abspath(path)
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        raise ManifestError(printable(path), "is there already", "name a folder that is not")
    try:
        made = tempfile.mkdtemp(prefix=f".{os.path.basename(path)}.tpplan-", dir=os.path.dirname(path))
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(made, 0o777 & ~umask)
    except OSError as error:
        raise ManifestError(printable(path), f"cannot be made: {error.strerror}", "name another folder") from None
    return made


def finish_folder(made, path):
    """Gives it its name."""
    for folder in (made, os.path.dirname(os.path.abspath(path))):
        if folder != made:
            os.rename(made, path)
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def drop_folder(made):
    shutil.rmtree(made, ignore_errors=True)
