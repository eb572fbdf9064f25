"""The installed torchtitan shards as recorded, and tpplan reads the same plan from it; with the ShardingConfigs that tpplan writes it
shards as with its own."""

import pytest
from recorded import compile_files, load


def test_torchtitan_matches_the_recording():
    pytest.importorskip("torchtitan")
    import record_torchtitan

    assert record_torchtitan.record_all() == load("torchtitan")


@pytest.mark.parametrize("name", ["llama3:debugmodel", "qwen3:debugmodel_non_fused_qkv"])
@pytest.mark.parametrize("sequence", [True, False])
def test_configs_of_a_manifest_shard_as_torchtitans_own(tmp_path, name, sequence):
    pytest.importorskip("torchtitan")
    import record_torchtitan
    from tpplan import titan_config, titan_plan

    record_torchtitan.begin()
    case = next(c for c in load("torchtitan") if (c["name"], c["tp"], c["sequence"]) == (name, 2, sequence))
    status, manifest, said = compile_files(tmp_path, case["model"], case["plan"])
    assert status == 0, said
    model = titan_plan.build(name, 2, {"enable_sequence_parallel": sequence})
    own = {path: m._sharding_config for path, m in model.named_modules() if getattr(m, "_sharding_config", None)}
    made = titan_config.sharding_configs(model, manifest)
    kinds = lambda configs: {  # noqa: E731
        f"{path}.{state}": titan_plan._type(layout)
        for path, config in configs.items()
        for state, layout in config.state_shardings.items()
    }
    assert {path: kinds(made)[path] for path in case["truth"] if path in kinds(own)} == {
        path: kinds(own)[path] for path in case["truth"] if path in kinds(own)
    }
    # The written configs are read back as the same manifest, and torchtitan shards with them as with its own.
    for path, config in made.items():
        if getattr(own.get(path), "local_map", None) is None:
            model.get_submodule(path)._sharding_config = config
    status, again, said = compile_files(tmp_path, case["model"], titan_plan.titan_plan(model, {"tp": 2}))
    assert status == 0, said
    for one, other in zip(manifest["parameters"], again["parameters"]):
        assert (one["spec"], one["grad_reduce"]) == (other["spec"], other["grad_reduce"]), one["path"]
    found = record_torchtitan.parallelized(model, 2)
    assert {p: (t["placements"], t["local"]) for p, t in found.items()} == {
        p: (t["placements"], t["local"]) for p, t in case["truth"].items()
    }
