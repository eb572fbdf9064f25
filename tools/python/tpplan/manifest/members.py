"""Members of JSON documents, each of the kind that the schema says. Raises ManifestError for others."""

from ..files import printable
from .manifest import COMPILE_AGAIN, WRITTEN_BY, ManifestError


def no_duplicates(pairs):
    """An object of json.loads, which takes the last of two members of one name without a word."""
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"`{printable(next(k for k in keys if keys.count(k) > 1))}` stands twice in an object")
    return members


def no_constants(name):
    raise ValueError(f"`{name}` is not JSON")


def take(where, members, key, kinds, default=...):
    """The member of an object, of one of these kinds; `default` where it may be absent."""
    if not isinstance(members, dict):
        raise ManifestError(where, "is not an object", WRITTEN_BY)
    value = members.get(key, default)
    if value is ...:
        raise ManifestError(where, f"`{key}` is missing", WRITTEN_BY)
    if value is not default and (
        not isinstance(value, kinds) or (isinstance(value, bool) and bool not in _tuple(kinds))
    ):
        raise ManifestError(where, f"`{key}` is {_kind(value)}", WRITTEN_BY)
    return value


def _tuple(kinds):
    return kinds if isinstance(kinds, tuple) else (kinds,)


def _kind(value):
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), "null")


def take_list(where, value, kind):
    """A list of values of one kind."""
    if not isinstance(value, list) or any(not isinstance(v, kind) or isinstance(v, bool) for v in value):
        raise ManifestError(where, "is not a list of the right kind", WRITTEN_BY)
    return value


def take_sizes(where, value):
    """A list of sizes, as a tuple."""
    if any(size < 0 for size in take_list(where, value, int)):
        raise ManifestError(where, "a size is negative", COMPILE_AGAIN)
    return tuple(value)


def take_axes(where, value, mesh):
    """A list of axes of the mesh, as a tuple."""
    names = {name for name, _ in mesh}
    for axis in take_list(where, value, str):
        if axis not in names:
            raise ManifestError(where, f"`{printable(axis)}` is not an axis of the mesh", COMPILE_AGAIN)
    return tuple(value)
