"""The bridge between tpplan and the frameworks: model graphs and plans out of them, sharding manifests into them.

Pure Python; a framework is imported only by the function that needs it.
"""

from .compiled import PlanError, PlanWarning
from .load_library import LoadError, LoadWarning
from .loading import load_safetensors
from .manifest import Manifest, ManifestError, load_manifest
from .reading import Checkpoint, Loaded, load

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
