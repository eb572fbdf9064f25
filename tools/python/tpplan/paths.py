"""Paths of modules and parameters: names joined by dots; the path of the model itself is empty."""


def join(path, name):
    return f"{path}.{name}" if path else name
