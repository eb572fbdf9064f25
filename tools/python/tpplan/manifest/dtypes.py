"""Dtypes of tensors: their bits, and their names in safetensors files."""

# Bits of a stored element and the name in safetensors headers, by torch's name of the dtype. Tests compare this table
# with lib/sharding/dtype.cc.
_TYPES = {
    "bfloat16": (16, "BF16"),
    "float32": (32, "F32"),
    "float16": (16, "F16"),
    "float64": (64, "F64"),
    "float8_e4m3fn": (8, "F8_E4M3"),
    "float8_e5m2": (8, "F8_E5M2"),
    "float8_e4m3fnuz": (8, "F8_E4M3FNUZ"),
    "float8_e5m2fnuz": (8, "F8_E5M2FNUZ"),
    "float8_e8m0fnu": (8, "F8_E8M0"),
    "float8_e4m3": (8, None),
    "float8_e3m4": (8, None),
    "float8_e4m3b11fnuz": (8, None),
    "float4_e2m1fn_x2": (8, None),
    "float4_e2m1fn": (4, "F4"),
    "int8": (8, "I8"),
    "uint8": (8, "U8"),
    "int16": (16, "I16"),
    "uint16": (16, "U16"),
    "int32": (32, "I32"),
    "uint32": (32, "U32"),
    "int64": (64, "I64"),
    "uint64": (64, "U64"),
    "int4": (4, None),
    "uint4": (4, None),
    "int2": (2, None),
    "uint2": (2, None),
    "bool": (8, "BOOL"),
    "complex32": (32, None),
    "complex64": (64, "C64"),
    "complex128": (128, None),
    "qint8": (8, None),
    "quint8": (8, None),
    "qint32": (32, None),
    "float6_e2m3fn": (6, "F6_E2M3"),
    "float6_e3m2fn": (6, "F6_E3M2"),
}
# Dtypes in which boundaries may send values: is_compute_dtype of lib/sharding/dtype.h.
SENT_DTYPES = ("bfloat16", "float16", "float32", "float64")
DTYPE_BITS = {name: bits for name, (bits, _) in _TYPES.items()}
SAFETENSORS_DTYPES = {name: stored for name, (_, stored) in _TYPES.items() if stored}
