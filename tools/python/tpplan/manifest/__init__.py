"""Reads sharding manifests (schemas/manifest.schema.json), and checks them against a model's parameters.

No framework is needed. The form and the digest are checked, so a manifest that was edited is rejected. The consistency
of a manifest is checked by `tpplan show --verify`, and by `tpplan-exec` for its input.
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
    Tensor,
    Value,
    device_count,
    local_shape,
    local_slice,
    shard_dim,
)
from .read_manifest import FORMAT, digest_of, load_manifest, read_manifest_text
from .totals import sum_totals

__all__ = [
    "COMPILE_AGAIN",
    "DTYPE_BITS",
    "EXPORT_AGAIN",
    "FORMAT",
    "LAYOUT",
    "SAFETENSORS_DTYPES",
    "WRITTEN_BY",
    "Boundary",
    "Loss",
    "Manifest",
    "ManifestError",
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
