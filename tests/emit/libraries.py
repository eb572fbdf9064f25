"""Reads exports with the real libraries. `python libraries.py LIBRARY < requests` prints the results as JSON, in the
order of the requests; exit status 77 with a reason if the library is not installed. A request has an export's text and
the shapes of its parameters.

Slices are {path: [for each rank the sorted indices, flattened row-major]}.
"""

import base64
import itertools
import json
import math
import os
import sys

RANKS = 8


def flat_indices(shape, slices):
    """Returns the row-major indices that a tuple of slices selects."""
    ranges = [range(*s.indices(size)) for s, size in zip(slices, shape)]
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return sorted(sum(i * s for i, s in zip(index, strides)) for index in itertools.product(*ranges))


def sharding_slices(sharding, shape):
    placed = sharding.devices_indices_map(tuple(shape))
    devices = sorted(placed, key=lambda device: device.id)
    return [flat_indices(shape, placed[device]) for device in devices]


def jax_on_eight_devices():
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={RANKS}"
    import jax

    return jax


def ask_jax(export, shapes):
    jax = jax_on_eight_devices()
    document = json.loads(export)
    mesh = jax.make_mesh(**document["mesh"])
    specs = {path: jax.sharding.PartitionSpec(*entries) for path, entries in document["specs"].items()}
    return {path: sharding_slices(jax.sharding.NamedSharding(mesh, spec), shapes[path]) for path, spec in specs.items()}


def ask_keras(export, shapes):
    os.environ["KERAS_BACKEND"] = "jax"
    jax_on_eight_devices()
    import keras

    document = json.loads(export)
    layouts = keras.distribution.LayoutMap(keras.distribution.DeviceMesh(**document["mesh"]))
    for key, axes in document["layout_map"].items():
        layouts[key] = tuple(axes)
    return {path: sharding_slices(layouts[path].backend_layout, shape) for path, shape in shapes.items()}


def ask_mlir(export, shapes):
    """Parses, verifies and prints the export with the MLIR of jaxlib. Returns the text, and the dims of each
    parameter.
    """
    jax_on_eight_devices()
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    with mlir.make_ir_context():
        module = ir.Module.parse(export)
        module.operation.verify()
        declared, function = module.body.operations
        mesh = [
            [sdy.MeshAxisAttr(axis).name, sdy.MeshAxisAttr(axis).size]
            for axis in sdy.MeshAttr(declared.attributes["mesh"]).axes
        ]
        types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs
        parameters = {}
        for attributes, type_ in zip(function.attributes["arg_attrs"], types):
            dims = sdy.TensorShardingAttr(attributes["sdy.sharding"]).dimension_shardings
            axes = [[sdy.AxisRefAttr(axis).name for axis in sdy.DimensionShardingAttr(dim).axes] for dim in dims]
            tensor = ir.RankedTensorType(type_)
            parameters[ir.StringAttr(attributes["tpplan.path"]).value] = [
                list(tensor.shape),
                str(tensor.element_type),
                axes,
            ]
        return {"mesh": mesh, "parameters": parameters, "text": str(module)}


def ask_orbax(export, shapes):
    jax_on_eight_devices()
    from orbax.checkpoint._src.metadata import sharding

    named = {
        base64.urlsafe_b64decode(key).decode(): sharding.from_serialized_string(text)
        for key, text in json.loads(export).items()
    }
    return {path: sharding_slices(metadata.to_jax_sharding(), shapes[path]) for path, metadata in named.items()}


def ask_torch(export, shapes):
    """Calls distribute_tensor on every rank of a fake process group. The export is the JSON or the Python form."""
    import torch
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
    from torch.distributed.tensor.placement_types import _StridedShard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    names = {"Replicate": Replicate, "Shard": Shard, "_StridedShard": _StridedShard}
    if export.startswith("{"):
        document = json.loads(export)
        mesh = document["mesh"]
        placements = {path: [eval(text, names) for text in texts] for path, texts in document["parameters"].items()}
    else:
        module = {}
        exec(export, module)
        mesh = {"mesh_shape": module["mesh_shape"], "mesh_dim_names": module["mesh_dim_names"]}
        placements = module["placements"]
    answer = {path: [] for path in placements}
    for rank in range(math.prod(mesh["mesh_shape"])):
        torch.distributed.init_process_group(
            "fake", rank=rank, world_size=math.prod(mesh["mesh_shape"]), store=FakeStore()
        )
        device_mesh = init_device_mesh("cpu", tuple(mesh["mesh_shape"]), mesh_dim_names=tuple(mesh["mesh_dim_names"]))
        for path, wanted in placements.items():
            whole = torch.arange(math.prod(shapes[path])).reshape(shapes[path])
            local = distribute_tensor(whole, device_mesh, wanted, src_data_rank=None).to_local()
            answer[path].append(sorted(local.flatten().tolist()))
        torch.distributed.destroy_process_group()
    return answer


def ask_onnx(export, shapes):
    """Parses the export with protobuf, checks it with onnx in a model that reads every parameter, and computes the
    shards by the ONNX proposal.
    """
    import onnx
    from google.protobuf import json_format

    document = json.loads(export)
    model = json_format.ParseDict(document["model"], onnx.ModelProto())
    specs = json_format.ParseDict(document["device_configuration"], onnx.NodeDeviceConfigurationProto())
    assert specs.configuration_id == model.configuration[0].name
    values = [onnx.helper.make_tensor_value_info(path, onnx.TensorProto.FLOAT, shape) for path, shape in shapes.items()]
    nodes = [onnx.helper.make_node("Identity", [value.name], [f"{value.name}/out"]) for value in values]
    for node in nodes:
        own = node.device_configurations.add(configuration_id=specs.configuration_id)
        own.sharding_spec.extend(spec for spec in specs.sharding_spec if spec.tensor_name == node.input[0])
        assert len(own.sharding_spec) == 1
    model.graph.CopyFrom(onnx.helper.make_graph(nodes, "parameters", values, []))
    model.opset_import.add(version=21)
    model.ir_version = 11
    onnx.checker.check_model(model)
    return {
        spec.tensor_name: onnx_pieces(spec, shapes[spec.tensor_name], model.configuration[0].num_devices)
        for spec in specs.sharding_spec
    }


def onnx_pieces(spec, shape, devices):
    groups = {entry.key: list(entry.value) for entry in spec.index_to_device_group_map}
    shards = {dim.axis: dim.simple_sharding[0].num_shards for dim in spec.sharded_dim}
    assert all(dim.simple_sharding[0].dim_value == shape[dim.axis] for dim in spec.sharded_dim)
    held = [None] * devices
    for key, index in zip(spec.device, itertools.product(*(range(n) for n in shards.values())), strict=True):
        slices = [slice(None)] * len(shape)
        for (axis, count), i in zip(shards.items(), index):
            width = shape[axis] // count
            slices[axis] = slice(i * width, (i + 1) * width)
        for rank in groups.get(key, [key]):
            assert held[rank] is None
            held[rank] = flat_indices(shape, slices)
    return held


LIBRARIES = {
    "jax": ask_jax,
    "keras": ask_keras,
    "mlir": ask_mlir,
    "orbax": ask_orbax,
    "torch": ask_torch,
    "onnx": ask_onnx,
}

if __name__ == "__main__":
    ask = LIBRARIES[sys.argv[1]]
    try:
        print(json.dumps([ask(request["export"], request["shapes"]) for request in json.load(sys.stdin)]))
    except ModuleNotFoundError as error:
        print(error)
        sys.exit(77)
