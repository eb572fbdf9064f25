"""Proofs of what rules say of all their modules and parameters together, which these say each for itself."""

import re
from collections import Counter

from ..files import printable
from .manifest import COMPILE_AGAIN, ManifestError

KINDS = ("linear", "embedding", "norm", "other")


def prove_values(manifest, is_signed):
    """Modules do with their values what their rule says, over its axis alone, and rules hold what they say. `is_signed`: the
    manifest has a digest, so that rules say it."""
    held = Counter((tensor.rule, _kind_of(tensor)) for tensor in manifest.parameters.values())
    bare = _bare_modules(manifest)
    for number, rule in enumerate(manifest.rules):
        where = f"rule `{printable(rule.key)}`"
        if None in (rule.holds, rule.modules):
            if is_signed:
                raise ManifestError(
                    where, "does not say what it holds, or at how many modules it stands", COMPILE_AGAIN
                )
            continue
        found = {kind: held[number, kind] for kind in KINDS if held[number, kind]}
        if rule.holds != found:
            raise ManifestError(
                where, f"holds {rule.holds} by its own word, and {found} by its parameters", COMPILE_AGAIN
            )
        if rule.axis is not None and rule.bare != bare[number]:
            raise ManifestError(
                where,
                f"{bare[number]} of its modules have no parameter in or below them, not {rule.bare}",
                COMPILE_AGAIN,
            )
    for module in manifest.modules:
        _prove_module(manifest, module, is_signed)


def _kind_of(tensor):
    """A product whose dims do not say which is which counts among the others."""
    is_named = {"out", "in"} <= {*tensor.dims, *(["in"] if len(tensor.shape) < 2 else [])}
    return tensor.kind if tensor.kind == "norm" or (tensor.kind in KINDS and is_named) else "other"


def _bare_modules(manifest):
    """By rule: its modules that have no parameter in or below them."""
    full = {""} if manifest.parameters else set()
    for path in manifest.parameters:
        full.update(path[: found.start()] for found in re.finditer(r"[./]", path))
    return Counter(module.rule for module in manifest.modules if module.path not in full)


def _prove_module(manifest, module, is_signed):
    rule, where = manifest.rules[module.rule], f"module `{printable(module.path)}`"
    if rule.axis is None:  # of a style that leaves all whole: its modules touch nothing
        if is_signed and (module.inputs or module.outputs):
            raise ManifestError(where, "its rule does not say what it does to values", COMPILE_AGAIN)
        return
    for side in ("inputs", "outputs"):
        values = getattr(module, side)
        found = tuple((value.arg, value.kwarg, value.use_local) for value in values)
        if found != getattr(rule, side):
            raise ManifestError(
                where,
                f"its {side} are {found}, and its rule says {getattr(rule, side)} (arg, kwarg, use_local)",
                COMPILE_AGAIN,
            )
        for value in values:
            for layout in (value.source, value.target, *(value.gradient or ())):
                _prove_axes(manifest, where, rule, layout)


def _prove_axes(manifest, where, rule, layout):
    """Over other axes than its rule's a value is as the batch is cut."""
    for (axis, _), text in zip(manifest.mesh, layout or ()):
        expected = f"Shard({manifest.data_dim})" if axis in manifest.data_axes else "Replicate"
        if axis != rule.axis and text != expected:
            raise ManifestError(
                where,
                f"a value is {text} over `{axis}`, where the batch is {expected}, and its rule acts over `{rule.axis}`",
                COMPILE_AGAIN,
            )
