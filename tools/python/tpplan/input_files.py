"""Opens input files with the rules of the programs (lib/base/input_file.h): only regular files of limited size. It
does not wait for a FIFO and does not read a device. A file that an index or a folder lists must be inside that
folder."""

import errno
import os
import stat

MAX_MANIFEST = 4 << 30  # bytes, as lib/manifest/read_manifest.h
MAX_INDEX = 32 << 20  # bytes, as lib/weights/weight_files.h


def open_regular(path, folder=None):
    """Opens a regular file in binary mode. With `folder` the file must be inside it after links are resolved. Raises
    OSError."""
    if "\0" in os.fsdecode(path):
        raise OSError(errno.EINVAL, "its path has a zero byte")
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    if folder is not None:
        path, flags = _inside(path, folder), flags | os.O_NOFOLLOW
    handle = os.open(path, flags)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is a directory" if stat.S_ISDIR(mode) else "is not a regular file")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_text(path, limit=MAX_MANIFEST):
    """Returns the text of a regular file of at most `limit` bytes. Raises OSError, and ValueError if it is not UTF-8."""
    with open_regular(path) as file:
        text = b"" if os.fstat(file.fileno()).st_size > limit else file.read(limit + 1)
        if os.fstat(file.fileno()).st_size > limit or len(text) > limit:
            raise OSError(errno.EFBIG, f"is larger than {limit >> 20} MiB")
    return text.decode("utf-8")


def _inside(path, folder):
    """Returns the path with links resolved. Raises OSError if it is outside `folder`."""
    home, target = os.path.realpath(folder), os.path.realpath(path)
    homes = [home]
    if os.path.basename(os.path.dirname(home)) == "snapshots":  # the cache of huggingface_hub links to ../../blobs
        homes.append(os.path.join(os.path.dirname(os.path.dirname(home)), "blobs"))
    if not any(os.path.commonpath([target, one]) == one for one in homes):
        raise OSError(errno.EINVAL, "is a link to a file outside its folder")
    return target
