"""Steps of tpplan.torch for each style, in addition to the layouts in the manifest.

tools/generate/write-schemas writes this file from the column `tpplan` of lib/styles/style_table.cc.
"""

# runs_locally: the module computes on local shards as plain tensors. dispatches_experts: it dispatches tokens to
# experts. input, output: steps of the first argument and of the result.
STYLES = {
    "all_reduce": {"runs_locally": True},
    "ep_dispatch_experts": {"runs_locally": True, "dispatches_experts": True},
    "local_params": {"runs_locally": True},
    "mla_kv_a_proj": {"runs_locally": True, "output": ["sum_tail_gradient"]},
    "moe_identity_expert": {"runs_locally": True, "input": ["divide"]},
    "moe_tp_experts": {"runs_locally": True},
    "packed_colwise": {"runs_locally": True},
    "packed_rowwise": {"runs_locally": True},
}
