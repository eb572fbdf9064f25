"""Output files that are written atomically, and Python objects that a command line names."""

import importlib
import json
import os
import secrets
import sys


class InputError(Exception):
    """Unusable input from the user, which is printed without a traceback. `status` is the exit status: 1 for wrong
    content, 2 for wrong usage and unreadable inputs."""

    def __init__(self, message, remedy, status=2):
        self.remedy, self.status = remedy, status
        super().__init__(message)


def printable(text, limit=200):
    """Returns the text for messages: control characters are escaped and it is truncated to `limit` characters."""
    text = str(text)
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text[:limit])
    return shown if max(len(text), len(shown)) <= limit else shown[:limit] + "..."


def run_command(main, arguments):
    """Calls main(arguments) and returns the exit status. Prints errors in tpplan's format."""
    try:
        return main(arguments) or 0
    except InputError as error:
        print(f"error: {error}\n  = help: {error.remedy}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2


def write_output(path, text, inputs=()):
    """Writes a file atomically: to a temporary file in the same folder, which is then renamed. None or `-` is standard
    output; pipes and devices are written directly. Raises InputError if the path is not writable or is one of
    `inputs`."""
    if path is None or path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        for other in inputs:
            if os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other):
                raise InputError(f"the output {printable(path)} is one of the inputs", "name another output file")
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        folder, name = os.path.split(os.path.realpath(path))
        temporary = os.path.join(folder, f".tpplan-{secrets.token_hex(8)}")
        file = open(temporary, "x", encoding="utf-8")  # open applies the umask
        try:
            with file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, os.path.join(folder, name))
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise InputError(f"cannot write {printable(path)}: {error.strerror}", "name a writable file") from None


def loaded_sources():
    """Returns the files of the imported modules. They are inputs of an export, because they define its model."""
    named = [getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values())]
    return [file for file in named if isinstance(file, str)]


def find_object(name):
    """Imports the module of `package.module:NAME` and returns the object. Raises InputError."""
    remedy = "name it as package.module:NAME, and run where the package can be imported"
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise InputError(f"`{printable(name)}` does not name an object", remedy)
    try:
        found = importlib.import_module(module_name)
    except Exception as error:  # the module's code can raise anything
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
    """Parses the JSON object of --kwargs."""
    kwargs = read_json(text, "--kwargs")
    if not isinstance(kwargs, dict):
        raise InputError("--kwargs is not an object", 'write an object such as {"hidden_size": 512}')
    return kwargs
