"""Reads sharding manifests (schemas/manifest.schema.json), proves them, and holds them against a model's parameters.

Nothing here needs a framework. What is proven is what `read_manifest` proves (lib/manifest): placements, local shapes and
replicas follow from the spec, specs are legal, totals are the sums. A manifest that was edited after it was written fails.
"""

from .check_model import check_buffers, check_mesh, check_parameters, refuse_sent_dtypes
from .dtypes import DTYPE_BITS, SAFETENSORS_DTYPES
from .manifest import (
    COMPILE_AGAIN,
    EXPORT_AGAIN,
    LAYOUT,
    WRITTEN_BY,
    Boundary,
    Loss,
    Manifest,
    ManifestError,
    ParamStep,
    Step,
    Tensor,
    Value,
    device_count,
    local_shape,
    local_slice,
    shard_dim,
)
from .prove import MAX_LOCAL_SHAPES
from .read_manifest import FORMAT, digest_of, load_manifest, read_manifest_text
from .totals import MAX_LISTED_RANKS, TOTALS, sum_totals

__all__ = [
    "COMPILE_AGAIN",
    "DTYPE_BITS",
    "EXPORT_AGAIN",
    "FORMAT",
    "LAYOUT",
    "MAX_LISTED_RANKS",
    "MAX_LOCAL_SHAPES",
    "SAFETENSORS_DTYPES",
    "TOTALS",
    "WRITTEN_BY",
    "Boundary",
    "Loss",
    "Manifest",
    "ManifestError",
    "ParamStep",
    "Step",
    "Tensor",
    "Value",
    "check_buffers",
    "check_mesh",
    "check_parameters",
    "device_count",
    "digest_of",
    "load_manifest",
    "local_shape",
    "local_slice",
    "read_manifest_text",
    "refuse_sent_dtypes",
    "shard_dim",
    "sum_totals",
]
