"""Processes, devices and meshes: Keras' device `kind:r` is rank r."""

import os

import numpy as np
import torch
from keras.distribution import DeviceMesh
from keras.src.backend.torch import core

from ..manifest import ManifestError


def list_devices(device_type=None):
    kind = device_type or core.get_device().partition(":")[0]
    return [f"{kind}:{rank}" for rank in range(num_processes())]


def get_device_count(device_type=None):
    return len(list_devices(device_type))


def num_processes():
    return (
        torch.distributed.get_world_size()
        if torch.distributed.is_initialized()
        else int(os.environ.get("WORLD_SIZE", 1))
    )


def process_id():
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else int(os.environ.get("RANK", 0))


def initialize(job_addresses=None, num_processes=None, process_id=None):
    """Initializes the default process group from torchrun's environment variables, or from the first of
    `job_addresses`. Does nothing if it exists."""
    if torch.distributed.is_initialized():
        return
    given = {}
    if job_addresses:
        given = {"init_method": "tcp://" + job_addresses.split(",")[0], "world_size": num_processes, "rank": process_id}
    torch.distributed.init_process_group("nccl" if core.get_device().startswith("cuda") else "gloo", **given)


def _to_backend_mesh(device_mesh):
    """Returns torch's DeviceMesh of a Keras mesh, whose device `kind:r` is rank r."""
    initialize()
    ranks = [int(str(device).partition(":")[2] or 0) for device in device_mesh.devices.flatten()]
    kind = str(device_mesh.devices.flatten()[0]).partition(":")[0].replace("gpu", "cuda")
    return torch.distributed.DeviceMesh(
        kind, torch.tensor(ranks).reshape(device_mesh.devices.shape), mesh_dim_names=tuple(device_mesh.axis_names)
    )


def all_processes():
    """Returns torch's DeviceMesh of all processes, with one axis."""
    devices = np.array(list_devices())
    return _to_backend_mesh(DeviceMesh(devices.shape, ["process"], devices))


def keras_mesh(mesh):
    """Returns Keras' DeviceMesh of a torch one; other values unchanged. Raises ManifestError if the mesh has no axis
    names."""
    if not isinstance(mesh, torch.distributed.DeviceMesh):
        return mesh
    if not mesh.mesh_dim_names:
        raise ManifestError("`mesh`", "the device mesh has no axis names", "pass mesh_dim_names to init_device_mesh")
    devices = [f"{mesh.device_type}:{rank}" for rank in mesh.mesh.flatten().tolist()]
    made = DeviceMesh(tuple(mesh.shape), list(mesh.mesh_dim_names), devices)
    made._backend_mesh = mesh
    return made


def mesh_info(device_mesh):
    """Returns shape, axis names and devices of a mesh."""
    return {
        "shape": tuple(device_mesh.shape),
        "axis_names": tuple(device_mesh.axis_names),
        "devices": [str(d) for d in device_mesh.devices.flatten()],
    }
