"""Paths of modules and parameters: names joined by dots; the model itself has the empty one."""


def join(path, name):
    return f"{path}.{name}" if path else name
