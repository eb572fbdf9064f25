"""The two sides of a difference: manifests of two sets of rules."""

from conftest import plan_text, run, write

RULES = {"embed": "colwise", "layers.*.a": "colwise", "layers.*.b": "rowwise"}


def compile_sides(folder, old, new, model, new_model=None, **settings):
    """Compiles the old and the new rules and returns the paths of both manifests. `settings` are arguments of plan_text
    for the new side.
    """
    paths = []
    for name, rules, of, more in (("old", old, model, {}), ("new", new, new_model or model, settings)):
        (folder / name).mkdir()
        paths.append(folder / name / "manifest.json")
        files = write(folder / name, of, plan_text(rules, **more))
        result = run("compile", *files, "-q", "-o", paths[-1], "--allow", "TP4006")
        assert result.returncode == 0, result.stderr.decode()
    return paths
