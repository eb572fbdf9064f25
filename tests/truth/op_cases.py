"""One or more calls of every operation with a row in lib/ops, small enough to try every layout of its operands."""

import torch

from op_calls import ELLIPSIS, Size, T, call

X, Y = T(4, 6), T(4, 6)
CUBE = T(2, 4, 6)
PICTURE = T(2, 4, 4, 4)
INTS = T(4, 6, kind="int")
BOOLS = T(4, 6, kind="bool")
ALL = slice(None)


def along(name, *args, **kwargs):
    """A call for each dim of a cube."""
    return [call(name, CUBE, *[a(dim) if callable(a) else a for a in args], **{k: v(dim) if callable(v) else v for k, v in kwargs.items()})
            for dim in (0, 1, -1)]  # fmt: skip


UNARY = """neg clone contiguous float double half bfloat16 detach data positive real rsqrt sqrt square exp exp2 expm1 log
 log1p log2 logsigmoid log_sigmoid sigmoid tanh relu relu6 silu gelu softplus leaky_relu elu selu hardswish hardsigmoid mish
 cos sin tan acos asin atan cosh sinh erf erfinv erfc abs floor ceil round trunc sign sgn reciprocal isnan isinf isfinite
 nan_to_num softsign frac celu bool int long short byte conj cpu hardtanh hardshrink softshrink tanhshrink logit sinc log10 asinh acosh
 atanh""".split()
BINARY = "atan2 maximum minimum fmax fmin logaddexp fmod remainder floor_divide eq ne lt le gt ge hypot xlogy isclose heaviside".split()
BITS = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()
LOGIC = "logical_and logical_or logical_xor".split()

CASES = [
    *[call(name, X) for name in UNARY],
    *[call(name, X, Y) for name in BINARY],
    *[call(name, X, T(6)) for name in ("add", "sub", "mul", "div", "maximum")],
    *[call(name, X, T(4, 1)) for name in ("add", "mul", "div", "pow")],
    *[call(name, X, Y) for name in ("add", "sub", "mul", "div", "pow", "add_", "mul_", "copy_", "type_as")],
    *[call(name, X, 2.0) for name in ("add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max", "fmod", "remainder", "add_", "mul_")],
    call("add", X, 0), call("sub", 1.0, X), call("div", 2.0, X), call("mul", T(), X), call("add", CUBE, T(4, 1)), call("div", X, T()),
    call("dropout", X, 0.0, False), call("to", X, torch.float32), call("type", X, torch.float32),
    call("clamp", X, 0.1, 0.5), call("clip", X, 0.1, 0.5), call("clamp", X, Y, T(6)),
    *[call(name, INTS, T(4, 6, kind="int")) for name in BITS], call("bitwise_not", INTS),
    *[call(name, BOOLS, T(4, 6, kind="bool")) for name in LOGIC], call("logical_not", BOOLS),
    call("where", BOOLS, X, Y), call("where", T(6, kind="bool"), X, T(4, 1)), call("where", BOOLS, X, 0.0),
    call("where", BOOLS, X, 1.0), call("where", BOOLS, 0.0, X),
    call("masked_fill", X, BOOLS, 0.0), call("masked_fill", X, BOOLS, 1.0),
    call("masked_fill", X, T(6, kind="bool"), float("-inf")), call("masked_fill_", X, BOOLS, 0.0),
    call("threshold", X, 0.5, 0.0), call("lerp", X, Y, 0.3), call("addcmul", X, Y, T(6)), call("addcdiv", X, Y, T(6)),
    call("polar", X, Y), call("imag", T(4, 6, kind="complex")),
    # Along dims.
    *along("sum", lambda d: d), *along("sum", lambda d: d, keepdim=True), call("sum", X), call("sum", CUBE, (0, 2)),
    call("sum", CUBE, (1, 2), True),
    *along("mean", lambda d: d), call("mean", X), call("mean", CUBE, (1, 2), keepdim=True),
    *[c for name in ("softmax", "log_softmax", "softmin") for c in along(name, lambda d: d)], *along("normalize", 2.0, lambda d: d),
    *[c for name in ("cumsum", "cumprod", "logcumsumexp", "sort", "argsort", "argmax", "argmin", "max", "min", "amax",
                     "amin", "std", "var", "prod", "all", "any", "logsumexp") for c in along(name, lambda d: d)],
    *[call(name, X) for name in ("max", "min", "argmax", "argmin", "std", "var", "prod", "count_nonzero", "norm", "all", "any", "amax")],
    call("max", X, Y), call("min", X, T(6)), call("max", X, -1, True), call("std", X, -1, keepdim=True), call("count_nonzero", X, 1),
    call("flip", CUBE, (1,)), call("flip", CUBE, (0, 2)), *along("roll", 1, lambda d: d), call("roll", X, 1),
    *along("diff", 1, lambda d: d),
    *along("topk", 2, lambda d: d), *along("kthvalue", 2, lambda d: d), *along("norm", 2.0, lambda d: d),
    *along("linalg_vector_norm", 2.0, lambda d: d),
    call("one_hot", T(4, 6, kind="int"), 6), *along("unfold", lambda d: d, 2, 1), call("glu", CUBE), call("glu", CUBE, 1),
    # Matmuls.
    call("linear", T(2, 4, 6), T(5, 6)), call("linear", T(4, 6), T(5, 6), T(5)), call("linear", T(6), T(5, 6)),
    call("bmm", T(4, 5, 6), T(4, 6, 3)), call("mm", T(4, 6), T(6, 5)), call("mv", T(4, 6), T(6)), call("addmm", T(5), T(4, 6), T(6, 5)),
    call("addmm", T(4, 5), T(4, 6), T(6, 5)), call("baddbmm", T(2, 4, 5), T(2, 4, 6), T(2, 6, 5)), call("outer", T(4), T(6)),
    call("matmul", T(4, 6), T(6, 5)), call("matmul", T(2, 4, 6), T(6, 5)), call("matmul", T(2, 4, 6), T(2, 6, 5)),
    call("matmul", T(6), T(6)),
    call("matmul", T(4, 6), T(6)), call("matmul", T(6), T(6, 5)), call("matmul", T(1, 4, 6), T(5, 6, 3)),
    call("einsum", "bij,bjk->bik", T(2, 4, 6), T(2, 6, 5)), call("einsum", "ij,ij->", T(4, 6), T(4, 6)),
    call("einsum", "...i,oi->...o", T(2, 4, 6), T(5, 6)),
    call("embedding", T(4, 5, kind="index", high=6), T(6, 4)),
    call("layer_norm", X, (6,), T(6), T(6)), call("layer_norm", X, (6,)), call("layer_norm", CUBE, (4, 6), T(4, 6)),
    call("rms_norm", X, (6,), T(6)),
    call("conv1d", T(2, 6, 6), T(5, 6, 3), T(5)), call("conv1d", T(2, 4, 6), T(4, 1, 3), T(4), padding=1, groups=Size(0, 1)),
    call("conv1d", T(2, 4, 6), T(6, 2, 3), T(6), groups=2), call("conv1d", T(4, 6), T(5, 4, 3), T(5)),
    call("conv1d", T(2, 4, 6), T(8, 1, 3), groups=4),
    call("conv2d", PICTURE, T(3, 4, 3, 3), T(3), padding=1), call("conv2d", PICTURE, T(4, 1, 3, 3), T(4), 2, 1, 1, 4),
    call("conv2d", PICTURE, T(4, 1, 3, 3), groups=Size(0, 1)),
    call("conv2d", PICTURE, T(6, 2, 2, 2), None, (2, 2), (0, 0), (1, 1), 2),
    call("conv3d", T(2, 4, 2, 2, 4), T(2, 4, 2, 1, 2), T(2)),
    call("conv_transpose1d", T(2, 4, 3), T(4, 6, 2), T(6), 2),
    call("conv_transpose1d", T(2, 4, 3), T(4, 1, 2), T(4), 1, 0, 0, 4),
    call("conv_transpose2d", PICTURE, T(4, 3, 2, 2), T(3), (2, 2)),
    call("conv_transpose2d", PICTURE, T(4, 3, 2, 2), T(6), 2, 0, 0, 2),
    call("conv_transpose3d", T(2, 4, 2, 2, 2), T(4, 2, 1, 2, 1), T(2)),
    call("dot", T(6), T(6)), call("bilinear", X, T(4, 5), T(3, 6, 5), T(3)),
    # Norms of channels.
    *[call("group_norm", x, groups, T(4), T(4)) for x in (PICTURE, T(2, 4, 6)) for groups in (1, 2)], call("group_norm", PICTURE, 4),
    call("batch_norm", PICTURE, T(4, kind="whole"), T(4, kind="whole"), T(4), T(4), True),
    call("batch_norm", T(6, 4), T(4), T(4), T(4)),
    call("batch_norm", PICTURE, T(4), T(4), T(4, kind="whole"), T(4, kind="whole"), False),
    call("batch_norm", PICTURE, None, None, training=True),
    call("instance_norm", PICTURE), call("instance_norm", PICTURE, None, None, T(4), T(4)),
    call("instance_norm", PICTURE, T(4, kind="whole"), T(4, kind="whole"), T(4), T(4), False),
    # Windows.
    *[call(name, T(2, 4, 6), 2) for name in ("max_pool1d", "avg_pool1d", "adaptive_avg_pool1d", "adaptive_max_pool1d")],
    *[call(name, PICTURE, 2) for name in ("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d")],
    *[call(name, T(2, 2, 4, 4, 2), 2) for name in ("max_pool3d", "avg_pool3d", "adaptive_avg_pool3d", "adaptive_max_pool3d")],
    call("max_pool2d", PICTURE, 3, 2, 1), call("avg_pool2d", PICTURE, (2, 1), ceil_mode=True),
    call("adaptive_avg_pool2d", PICTURE, (1, None)),
    call("interpolate", PICTURE, scale_factor=2, mode="nearest"), call("interpolate", PICTURE, size=(6, 5), mode="bilinear"),
    call("interpolate", T(2, 4, 6), 4), call("dropout1d", T(2, 4, 6), 0.0), call("dropout2d", PICTURE, 0.0),
    call("dropout3d", T(2, 4, 2, 2, 2), 0.0),
    # Losses.
    *[call("cross_entropy", X, T(4, kind="index", high=6), reduction=r) for r in ("none", "mean", "sum")],
    call("cross_entropy", T(2, 6, 4), T(2, 4, kind="index", high=6)), call("cross_entropy", X, Y),
    call("cross_entropy", T(6), T(kind="index", high=6)),
    *[call("nll_loss", X, T(4, kind="index", high=6), reduction=r) for r in ("none", "mean", "sum")],
    *[call(name, X, Y, reduction=r) for r in ("none", "mean", "sum") for name in (
        "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy", "binary_cross_entropy_with_logits")],
    # Steps.
    call("lstm", T(4, 2, 6), (T(1, 4, 4), T(1, 4, 4)), (T(16, 6), T(16, 4, kind="whole")), False, 1, 0.0, False, False, True),
    call("gru", T(4, 2, 6), T(1, 2, 4), (T(12, 6), T(12, 4)), False, 1, 0.0, False, False, False),
    *[call(name, T(4, 2, 6), T(1, 4, 4), (T(4, 6, kind="whole"), T(4, 4, kind="whole")), False, 1, 0.0, False, False, True)
      for name in ("rnn_tanh", "rnn_relu")],
    call("scaled_dot_product_attention", T(2, 4, 5, 3), T(2, 4, 5, 3), T(2, 4, 5, 3)),
    call("scaled_dot_product_attention", T(2, 4, 5, 3), T(2, 4, 5, 3), T(2, 4, 5, 3), attn_mask=T(1, 4, 5, 5)),
    call("scaled_dot_product_attention", T(2, 4, 3), T(2, 5, 3), T(2, 5, 3), attn_mask=T(4, 5)),
    call("multi_head_attention_forward", T(3, 2, 4), T(3, 2, 4), T(3, 2, 4), 4, 2, T(12, 4), T(12), None, None, False, 0.0, T(4, 4), T(4)),
    call("scaled_dot_product_attention", T(1, 4, 3, 2), T(1, 2, 3, 2), T(1, 2, 3, 2), enable_gqa=True),
    call("linalg_solve_triangular", T(2, 3, 3, kind="triangular"), T(2, 3, 4), upper=False),
    call("tril", X), call("triu", CUBE, 1), call("pad", X, (1, 2)), call("pad", CUBE, (0, 0, 1, 1)), call("pad", X, (1, 1), value=1.0),
    call("view_as_complex", T(4, 6, 2)), call("view_as_real", T(4, 6, kind="complex")),
    *[call(name, T(6, 48, kind="bfloat"), T(2, 48, 48, kind="bfloat"), offs=T(2, kind="offsets", high=6))
      for name in ("_grouped_mm", "grouped_mm")],
    # By index.
    *[c for d in (0, 1) for c in (call("gather", X, d, T(4, 6, kind="index", high=4)),
                                  call("take_along_dim", X, T(4, 6, kind="index", high=4), d),
                                  call("index_select", X, d, T(4, kind="index", high=4)),
                                  call("scatter", T(4, 6, kind="zeros"), d, T(4, 6, kind="places", high=d), Y),
                                  call("scatter", X, d, T(4, 6, kind="places", high=d), 0.0),
                                  call("scatter_add", T(4, 6, kind="zeros"), d, T(4, 6, kind="index", high=4), Y),
                                  call("scatter_add", X, d, T(4, 6, kind="index", high=4), Y),
                                  call("index_copy", X, d, T(4, kind="order"), T(*((4, 6) if d == 0 else (4, 4)))),
                                  call("index_copy", X, d, T(4, kind="order"), source=T(*((4, 6) if d == 0 else (4, 4)))),
                                  call("index_add", T(4, 6, kind="zeros"), d, T(3, kind="index", high=4),
                                       T(*((3, 6) if d == 0 else (4, 3)))),
                                  call("index_add_", X, d, T(3, kind="index", high=4), T(*((3, 6) if d == 0 else (4, 3)))))],
    call("gather", X, 1, T(4, 2, kind="index", high=6)), call("scatter", X, 1, T(4, 2, kind="index", high=6), 1.0),
    # Views.
    *[call(name, T(4, 6), shape) for name in ("view", "reshape")
      for shape in ((24,), (4, 2, 3), (Size(0, 0), -1), (Size(0, 0), -1, 2), (2, 2, 6), (-1, 3), (4, 1, 6))],
    call("view", CUBE, (Size(0, 0), Size(0, 1), -1, 3)), call("view", CUBE, (-1, Size(0, 2))),
    call("reshape", CUBE, (2, -1)), call("reshape", CUBE, (Size(0, 0), Size(0, 1), 3, 2)),
    call("flatten", CUBE), call("flatten", CUBE, 1), call("flatten", CUBE, 0, 1), call("unflatten", CUBE, -1, (3, 2)),
    call("unflatten", CUBE, 1, (-1, 2)),
    call("view_as", T(4, 6), T(2, 2, 6)), call("reshape_as", T(4, 6), T(4, 2, 3)),
    call("expand", T(4, 1), (4, 6)), call("expand", T(4, 1), (Size(0, 0), 6)), call("expand", T(6), (4, Size(0, 0))),
    call("expand", T(6), (4, -1)), call("expand", T(1, 6), (4, 6)),
    call("expand_as", T(4, 1), T(4, 6)), call("expand_as", T(6), T(4, 6)), call("broadcast_to", T(6), (4, 6)),
    call("permute", CUBE, (2, 0, 1)), call("permute", CUBE, (0, -1, 1)), call("transpose", CUBE, 1, 2),
    call("transpose", CUBE, -1, 0), call("T", X), call("t", X), call("mT", CUBE), call("mH", CUBE),
    call("adjoint", CUBE), call("swapaxes", CUBE, 0, 1), call("swapdims", CUBE, 0, 2), call("movedim", CUBE, 0, 2),
    call("movedim", CUBE, (0, 1), (1, 2)), call("moveaxis", CUBE, 2, 0),
    *[call("unsqueeze", X, d) for d in (0, 1, -1)], call("squeeze", T(4, 1, 6)), call("squeeze", T(4, 1, 6), 1),
    call("squeeze", X, 0), call("squeeze", T(2, 1, 4), -1),
    # Parts.
    *[call("__getitem__", CUBE, index) for index in (
        (0,), (ALL, -1), (ELLIPSIS, 1), (ALL, slice(1, None)), (ALL, slice(None, 2)), (ELLIPSIS, slice(None, 3)),
        (ELLIPSIS, slice(3, None)), (ELLIPSIS, slice(None, None, 2)), (None,), (ALL, None, ELLIPSIS),
        (ELLIPSIS, None), (ELLIPSIS, slice(-2, None)),
        (ELLIPSIS, slice(None, Size(0, 2, "floordiv", 2))), (ELLIPSIS, slice(Size(0, 2, "floordiv", 2), None)),
        (0, ALL, slice(1, 5)), (slice(0, 0),), ((0, 1),), (ALL, (0, 2)))],
    call("__getitem__", CUBE, (T(3, kind="index", high=2),)),
    call("__getitem__", CUBE, (ALL, T(3, kind="index", high=4))), call("__getitem__", CUBE, (T(kind="index", high=2),)),
    call("__getitem__", CUBE, (ALL, T(5, 1, kind="index", high=4), T(3, kind="index", high=6))),
    call("__getitem__", CUBE, (T(2, kind="index", high=2), ALL, T(2, kind="index", high=6))),
    call("__getitem__", X, (T(4, kind="bool"),)), call("__getitem__", X, (BOOLS,)),
    call("__setitem__", CUBE, (0,), T(4, 6)), call("__setitem__", CUBE, (ELLIPSIS, slice(None, 3)), T(2, 4, 3)),
    call("__setitem__", CUBE, (ALL, slice(1, 3)), T(2, 2, 6)),
    call("__setitem__", CUBE, (ALL,), T(2, 4, 6)),
    call("__setitem__", CUBE, (ELLIPSIS, slice(None, Size(0, 2, "floordiv", 2))), T(2, 4, 3)),
    call("__setitem__", X, (BOOLS,), 0.0), call("__setitem__", X, (BOOLS,), 1.0),
    call("__setitem__", X, (ALL, 0), 0.0), call("__setitem__", X, (ALL, slice(0, 3)), 7.0),
    call("__setitem__", T(4, 6, kind="zeros"), (ALL, slice(0, 3)), T(4, 3)),
    call("__setitem__", X, (T(2, kind="order"),), T(2, 6)), call("__setitem__", X, (T(2, kind="order"),), T(6)),
    call("__setitem__", X, (ALL, slice(0, 3)), T(3)), call("__setitem__", X, (ALL, slice(0, 3)), T(4, 1)),
    call("__setitem__", X, (slice(0, 2), slice(0, 3)), T(2, 3)),
    *along("split", 2, lambda d: d), call("split", CUBE, (2, 4), dim=-1),
    call("split", CUBE, (Size(0, 2, "floordiv", 2), Size(0, 2, "floordiv", 2)), -1),
    call("split", CUBE, Size(0, 2, "floordiv", 2), -1),
    call("split_with_sizes", CUBE, (1, 3), 1), *along("chunk", 2, lambda d: d), call("chunk", CUBE, 3, -1),
    call("chunk", T(4, 5), 3, -1), *[call("unbind", CUBE, d) for d in (0, 1, -1)], call("tensor_split", T(4, 5), 2, 1),
    call("tensor_split", CUBE, 2, 2), *along("narrow", lambda d: d, 0, 2), call("narrow", CUBE, -1, 3, 3),
    call("narrow", CUBE, -1, 0, Size(0, 2)), call("narrow", CUBE, 1, 1, 2), *along("select", lambda d: d, 0),
    *along("select", lambda d: d, -1),
    *[call(name, (CUBE, T(2, 4, 6)), d) for name in ("cat", "stack", "concat", "concatenate") for d in (0, -1)],
    call("cat", (T(4, 6), T(4, 2)), dim=1), call("cat", (T(4, 6), T(4, 6, kind="zeros")), 0),
    call("stack", (X, Y), dim=1), call("cat", (T(4, 6), T(4, 2)), axis=1), call("sum", CUBE, axis=1, keepdims=True),
    call("repeat", X, (2, 1)), call("repeat", X, (1, 2)), call("repeat", X, (2, 1, 1)),
    call("repeat", T(4, 1), (1, Size(0, 0))), call("repeat", T(1, 6), (Size(0, 1), 1)), call("tile", X, (2,)),
    call("tile", X, (2, 2)),
    call("repeat_interleave", X, 2, 0), call("repeat_interleave", X, 3, dim=1),
    call("repeat_interleave", X, T(6, kind="counts"), 1, output_size=9), call("repeat_interleave", X, 2),
    # Constants.
    *[call(name, (2, 3)) for name in ("zeros", "ones", "empty")], call("full", (2, 3), 5.0), call("arange", 4),
    call("arange", 2, 8, 3), call("linspace", 0.0, 1.0, 4), call("eye", 3), call("tensor", 3.0),
    call("scalar_tensor", 3.0), call("rand", (2, 3)), call("randn", (2, 3)),
    *[call(name, X, (Size(0, 0), 3)) for name in ("new_zeros", "new_ones", "new_empty")],
    call("new_full", X, (3, Size(0, 1)), 4.0), call("new_full", X, (Size(0, 0), Size(0, 1)), 4.0),
    *[call(name, X) for name in ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")], call("full_like", X, 4.0),
    call("prelu", X, T(1)),
    *[call(name, X, *value) for name, value in (("fill_", (0.0,)), ("fill_", (2.0,)), ("zero_", ()), ("fill_", (T(),)))],
    # Pictures and sound.
    call("pixel_shuffle", T(2, 8, 2, 2), 2), call("pixel_shuffle", T(12, 2, 3), 2), call("pixel_unshuffle", T(1, 2, 4, 6), 2),
    call("pixel_unshuffle", T(2, 12, 6), 3), call("channel_shuffle", T(2, 12, 2), 2), call("channel_shuffle", T(1, 12, 2, 2), 3),
    call("channel_shuffle", T(4, 8, 2), Size(0, 0)),
    call("im2col", PICTURE, 2), call("im2col", T(4, 4, 6), (2, 3), stride=(2, 3)), call("im2col", PICTURE, 3, padding=1, stride=2),
    call("col2im", T(2, 16, 9), (4, 4), 2), call("col2im", T(12, 4), (4, 6), (2, 3), stride=(2, 3)),
    *[call("meshgrid", (T(4), T(6)), indexing=way) for way in ("ij", "xy")], call("meshgrid", (T(2), T(4), T(6)), indexing="xy"),
    call("_weight_norm", T(4, 6, 3), T(4, 1, 1)), call("_weight_norm", T(4, 6, 3), T(1, 1, 3), 2),
    call("_weight_norm", T(4, 6), T(1, 6), 1),
    call("_weight_norm", X, T(), -1),
    call("grid_sample", PICTURE, T(2, 4, 6, 2), align_corners=False),
    call("grid_sample", T(2, 4, 2, 2, 4), T(2, 2, 4, 2, 3), align_corners=True),
    *along("fft_fft", None, lambda d: d), *along("fft_rfft", None, lambda d: d), call("fft_rfft", X, 4),
    call("stft", T(2, 16), 8, 2, window=T(8), return_complex=True), call("stft", T(16), 4, return_complex=True),
    call("istft", T(2, 5, 9, kind="complex"), 8, 2, window=T(8)),
    call("fft_ifft", T(4, 6, kind="complex")), call("fft_irfft", T(4, 6, kind="complex"), dim=0),
    # By order and distance.
    *[c for name in ("cummax", "cummin") for c in along(name, lambda d: d)], *along("linalg_norm", 2, lambda d: d), call("linalg_norm", X),
    call("cdist", X, T(5, 6)), call("cdist", T(2, 4, 6), T(2, 5, 6), 1.0), call("bucketize", X, T(6, kind="sorted")),
    call("searchsorted", T(6, kind="sorted"), X), call("searchsorted", T(4, 6, kind="sorted"), T(4, 3)),
    call("isin", INTS, T(4, kind="int")),
    call("masked_scatter", X, BOOLS, T(24)), call("masked_scatter", CUBE, T(2, 4, 1, kind="bool"), T(8, 6)),
    call("einsum", "bij,bjk", T(2, 4, 6), T(2, 6, 5)), call("einsum", "...ij,...jk", T(2, 4, 6), T(2, 6, 5)),
    call("einsum", "ij,j", X, T(6)),
    call("einsum", "ii->i", T(4, 4)), call("einsum", "ii", T(4, 4)), call("einsum", "bii,bi->b", T(2, 4, 4), T(2, 4)),
    call("einsum", "bij,bjk->bik", T(1, 4, 6), T(4, 6, 5)), call("einsum", "ba...,a...c->b...c", T(2, 4, 3), T(4, 3, 6)),
    call("einsum", "z y -> y z", X),
    # After all others, so that their random values do not change.
    *along("cosine_similarity", T(2, 4, 6), lambda d: d), call("cosine_similarity", X, Y), call("cosine_similarity", CUBE, T(4, 1), dim=-1),
    call("pairwise_distance", X, Y), call("pairwise_distance", CUBE, T(4, 6)), call("pairwise_distance", X, T(6), 1.0, 1e-6, True),
    *[call("scatter_reduce", X, d, T(4, 6, kind="index", high=4), Y, reduce, include_self=own) for d in (0, 1)
      for reduce, own in (("sum", True), ("sum", False), ("mean", False), ("prod", True), ("amax", False))],
]  # fmt: skip

# Operations that cannot be called here, with the reason.
UNCALLABLE = {"cuda": "needs a GPU"}

# Number of operand layouts that a rule rejects although torch computes the right value. Most are coincidences: all
# elements are equal, or every index is in the shard. Scatter and scatter_add accept a smaller index; in convolutions
# and pools no window crosses a shard boundary, or a rank has none of the channels; orders and distances happen to be
# sums over the sharded dim.
CAUTIOUS = {
    "__getitem__": 5, "__setitem__": 8, "acosh": 2, "adaptive_avg_pool1d": 1, "adaptive_avg_pool2d": 3, "addcdiv": 2,
    "addcmul": 4, "all": 22, "any": 19, "avg_pool1d": 1, "avg_pool2d": 4, "avg_pool3d": 2, "bitwise_left_shift": 2,
    "bitwise_right_shift": 1, "bool": 2, "bucketize": 3, "cat": 3, "cdist": 3, "conv1d": 17, "conv2d": 14,
    "conv3d": 4, "conv_transpose1d": 2, "conv_transpose2d": 5, "conv_transpose3d": 2, "copy_": 2,
    "cosine_similarity": 1, "count_nonzero": 13,
    "cross_entropy": 5, "eq": 10, "fill_": 4, "flatten": 1, "floor_divide": 1, "gather": 18, "glu": 2,
    "group_norm": 8, "gru": 8, "heaviside": 6, "im2col": 1, "index_add": 14, "index_add_": 4, "index_copy": 10,
    "instance_norm": 4, "interpolate": 2, "isclose": 10, "isfinite": 2, "isinf": 2, "isnan": 2, "layer_norm": 4,
    "lerp": 2, "masked_fill": 2, "masked_scatter": 7, "max_pool1d": 1, "max_pool2d": 2, "max_pool3d": 2,
    "multi_head_attention_forward": 322, "nan_to_num": 2, "ne": 10, "nll_loss": 6, "pairwise_distance": 3, "polar": 2, "prelu": 6,
    "repeat_interleave": 6, "rms_norm": 2, "scaled_dot_product_attention": 132, "scatter": 166, "scatter_add": 240, "scatter_reduce": 450,
    "searchsorted": 6, "unflatten": 1, "xlogy": 2,
}  # fmt: skip
