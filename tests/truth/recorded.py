"""Reads the recorded data (data/README.md) and compares manifests with it."""

import json
import lzma
import pathlib

from conftest import run, write

DATA = pathlib.Path(__file__).resolve().parent / "data"


def load(name):
    return json.loads(lzma.decompress((DATA / f"{name}.json.xz").read_bytes()))


def model_of(modules, framework="torch"):
    return {"format": "tpplan.model/1", "name": "Recorded", "framework": framework, "modules": modules}


def shapes_of(modules):
    """Returns the shape by parameter path."""
    return {
        f"{module['path']}.{name}" if module["path"] else name: parameter["shape"]
        for module in modules
        for name, parameter in module.get("parameters", {}).items()
    }


def compile_files(folder, model, plan, *flags):
    """Returns (exit status, manifest or None, standard error)."""
    result = run("compile", *write(folder, model, plan), *flags)
    manifest = json.loads(result.stdout) if result.returncode == 0 else None
    return result.returncode, manifest, result.stderr.decode(errors="replace")


def local_shapes(entry):
    """Returns one shape if all ranks have the same, else one for each coordinate of the axes in the spec."""
    return [entry["local_shape"]] if entry["local_shape"] is not None else entry["local_shapes"]


def differences(manifest, shapes, placements, locals_):
    """Returns the parameters whose placements or local shapes differ from the recorded ones. Parameters that were not
    recorded are replicated.
    """
    entries = {entry["path"]: entry for entry in manifest["parameters"]}
    assert list(entries) == list(shapes), "the manifest has other parameters than the model, or another order"
    wrong = []
    for path, shape in shapes.items():
        got = entries[path]["placements"], local_shapes(entries[path])
        expected = placements.get(path, ["Replicate"]), locals_.get(path, [shape])
        if got != expected:
            wrong.append(f"{path} {shape}: {got}, recorded {expected}")
    return wrong


def slices_of_ranks(folder, manifest, ranks):
    """Returns, for each rank, the output of `tpplan show`: {path: intervals of each dim}."""
    file = folder / "shown.json"
    file.write_text(json.dumps(manifest))
    slices = []
    for rank in range(ranks):
        result = run("show", file, "--rank", rank, "--format", "json")
        assert result.returncode == 0, result.stderr
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        slices.append({line["path"]: line["intervals"] for line in lines})
    return slices
