"""Outputs that are there whole or not at all, and objects that are named on a command line."""

import importlib
import json
import os
import sys
import tempfile


class InputError(Exception):
    """Something that a user gave and that cannot be used: printed without a traceback. `status` is the exit status:
    1 for wrong content, 2 for usage and for inputs that cannot be read."""

    def __init__(self, message, remedy, status=2):
        self.remedy, self.status = remedy, status
        super().__init__(message)


def printable(text, limit=200):
    """A text as a message may show it: without control characters, and not too long."""
    text = str(text)
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text[:limit])
    return shown if max(len(text), len(shown)) <= limit else shown[:limit] + "..."


def run_command(main, arguments):
    """Runs main(arguments) for its exit status, with errors as tpplan prints them."""
    try:
        return main(arguments) or 0
    except InputError as error:
        print(f"error: {error}\n  = help: {error.remedy}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2


def write_output(path, text, inputs=()):
    """Writes a file by way of a temporary one beside it; None or `-` is standard output, a pipe or device is written
    directly. Raises InputError for a path that cannot be written or is one of `inputs`."""
    if path is None or path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        for other in inputs:
            if os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other):
                raise InputError(f"the output {printable(path)} is one of the inputs", "name another file")
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        folder, name = os.path.split(os.path.realpath(path))
        handle, temporary = tempfile.mkstemp(prefix=".tpplan-", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                umask = os.umask(0)
                os.umask(umask)
                os.fchmod(file.fileno(), 0o666 & ~umask)
                os.fsync(file.fileno())
            os.replace(temporary, os.path.join(folder, name))
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise InputError(
            f"cannot write {printable(path)}: {error.strerror}", "name a file that can be written"
        ) from None


def find_object(name):
    """The object that `package.module:NAME` names. Imports the module. Raises InputError."""
    remedy = "name it as package.module:NAME, and run where the package can be imported"
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise InputError(f"`{printable(name)}` does not name an object", remedy)
    try:
        found = importlib.import_module(module_name)
    except Exception as error:  # whatever the module raises
        raise InputError(
            f"`{printable(module_name)}` cannot be imported: {type(error).__name__}: {printable(error)}", remedy
        ) from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InputError(f"`{printable(module_name)}` has no `{printable(attribute)}`", remedy)
        found = getattr(found, part)
    return found


def read_json(text, what):
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{what} is not JSON: {printable(error)}", 'write an object such as {"hidden_size": 512}'
        ) from None


def read_kwargs(text):
    """The object of --kwargs."""
    kwargs = read_json(text, "--kwargs")
    if not isinstance(kwargs, dict):
        raise InputError("--kwargs is not an object", 'write an object such as {"hidden_size": 512}')
    return kwargs
