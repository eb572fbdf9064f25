"""Connects tpplan with the frameworks: exports their model graphs and plans, and applies sharding manifests to their
models.

Pure Python; only the function that needs a framework imports it.
"""

from .compiled import PlanError, PlanWarning
from .load_library import LoadError, LoadWarning
from .safetensors_shards import load_safetensors
from .manifest import Manifest, ManifestError, load_manifest
from .load_weights import Checkpoint, Loaded, load

__all__ = [
    "Checkpoint",
    "LoadError",
    "LoadWarning",
    "Loaded",
    "Manifest",
    "ManifestError",
    "PlanError",
    "PlanWarning",
    "load",
    "load_manifest",
    "load_safetensors",
]
