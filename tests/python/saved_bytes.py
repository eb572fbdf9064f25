"""Bytes that autograd saves for the backward pass, each storage once."""

import torch
from torch.distributed.tensor import DTensor


class Saved:
    """Context manager that counts the bytes that autograd saves."""

    def __init__(self, model, inputs):
        given = [*model.parameters(), *model.buffers(), *(t for t in inputs.values() if isinstance(t, torch.Tensor))]
        self.known = {self.storage(t).data_ptr() for t in given}
        self.bytes, self.alive = {}, []

    @staticmethod
    def storage(tensor):
        return (tensor._local_tensor if isinstance(tensor, DTensor) else tensor).untyped_storage()

    def see(self, tensor):
        storage = self.storage(tensor)
        if storage.data_ptr() not in self.known:
            self.bytes[storage.data_ptr()] = storage.nbytes()
            self.alive.append(storage)  # so that its address is not reused
        return tensor

    def of(self, run):
        with torch.autograd.graph.saved_tensors_hooks(self.see, lambda tensor: tensor):
            run()
        return sum(self.bytes.values())
