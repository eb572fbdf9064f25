"""Fields of JSON objects, checked against the kinds in the schema.

All functions raise ManifestError for other kinds.
"""

from ..files import printable
from .manifest import COMPILE_AGAIN, WRITTEN_BY, ManifestError


def no_duplicates(pairs):
    """Returns the object for json.loads. Raises ValueError for a duplicate key, of which json.loads would use the
    last."""
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"duplicate key `{printable(next(k for k in keys if keys.count(k) > 1))}` in an object")
    return members


def no_constants(name):
    raise ValueError(f"`{name}` is not JSON")


def take(where, members, key, kinds, default=...):
    """Returns a field of an object, which must be of one of these kinds; `default` if the field is missing."""
    if not isinstance(members, dict):
        raise ManifestError(where, "is not an object", WRITTEN_BY)
    value = members.get(key, default)
    if value is ...:
        raise ManifestError(where, f"`{key}` is missing", WRITTEN_BY)
    if value is not default and (
        not isinstance(value, kinds) or (isinstance(value, bool) and bool not in _tuple(kinds))
    ):
        raise ManifestError(where, f"`{key}` has the wrong type: {_kind(value)}", WRITTEN_BY)
    return value


def _tuple(kinds):
    return kinds if isinstance(kinds, tuple) else (kinds,)


def _kind(value):
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "null")


def take_list(where, value, kind):
    """Returns a list whose items are all of one kind."""
    if not isinstance(value, list) or any(not isinstance(v, kind) or isinstance(v, bool) for v in value):
        raise ManifestError(where, "is not a list, or has an item of the wrong type", WRITTEN_BY)
    return value


def take_sizes(where, value):
    """Returns a list of sizes as a tuple."""
    if any(size < 0 for size in take_list(where, value, int)):
        raise ManifestError(where, "has a negative size", COMPILE_AGAIN)
    return tuple(value)


def take_axes(where, value, mesh):
    """Returns a list of mesh axes as a tuple."""
    names = {name for name, _ in mesh}
    for axis in take_list(where, value, str):
        if axis not in names:
            raise ManifestError(where, f"`{printable(axis)}` is not an axis of the mesh", COMPILE_AGAIN)
    return tuple(value)
