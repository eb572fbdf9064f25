"""Compiles plans from Python: the program checks a plan for a live model, and writes the manifest.

The framework bridges accept a plan or a manifest. `manifest_of` tells them apart and compiles plans, so that the
other code handles manifests only.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import warnings

from .files import InputError, printable, write_output
from .manifest import Manifest, ManifestError, load_manifest, read_manifest_text
from .input_files import read_text

FORMAT = re.compile(r"(?:^|[{,])\s*[\"']?format[\"']?\s*:\s*[\"']?tpplan\.(plan|manifest)/", re.M)
NEITHER = "is neither a plan (`format: tpplan.plan/1`) nor a manifest (`format: tpplan.manifest/1`)"
GIVE_ONE = "give a plan or a manifest: its path, its text, or a dict"
# A model file without parameters, for errors of a plan that do not depend on the model.
NO_MODEL = '{"format": "tpplan.model/1", "name": "", "framework": "torch", "modules": [{"path": "", "type": "Model"}]}'


class PlanError(ValueError):
    """A plan that the program rejects; the text is its output. `findings` holds the same as data: the `diagnostics`
    of `tpplan check --format json` (schemas/diagnostics.schema.json)."""

    def __init__(self, text, findings=()):
        self.findings = list(findings)
        super().__init__(text)


class PlanWarning(UserWarning):
    """Warnings of the program about a plan that it compiles: as text, and in `findings` as data."""

    def __init__(self, text, findings=()):
        self.findings = list(findings)
        super().__init__(text)


def warn_user(warning):
    """Issues a warning for the line that called this package."""
    here = os.path.dirname(os.path.abspath(__file__)) + os.sep
    frame, level = sys._getframe(0), 1
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(here):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


def find_program():
    """Returns the path of `tpplan`: $TPPLAN, next to this package, among the scripts of this Python, or on PATH.
    Raises ManifestError if there is none."""
    here = [os.environ.get("TPPLAN"), pathlib.Path(__file__).with_name("bin") / "tpplan"]
    here.append(os.path.join(sysconfig.get_path("scripts"), "tpplan"))
    found = next((shutil.which(path) for path in [*here, "tpplan"] if path and shutil.which(path)), None)
    if found is None:
        raise ManifestError(
            "tpplan",
            "the program is not found, but it is needed to compile a plan",
            "install it (pip install tpplan-*.whl), or build it (tools/quickstart) and set the "
            "environment variable TPPLAN to its path",
        )
    return found


def is_plan(source):
    """Returns True if `source` is a plan, False if it is a manifest, by its `format`; a dict without one is a plan. A
    string is a path if it exists or does not look like text. Raises ManifestError if it cannot be read or is neither.
    """
    if isinstance(source, Manifest):
        return False
    if isinstance(source, dict):
        name, text = "the dict", f"format: {source.get('format', 'tpplan.plan/')}"
    elif _is_text(source):
        name, text = "the text", source
    elif isinstance(source, (str, os.PathLike)):
        name, text = printable(os.fspath(source)), _read(source)
    else:
        raise ManifestError(f"`{type(source).__name__}`", NEITHER, GIVE_ONE)
    found = FORMAT.search(text)
    if found is None:
        raise ManifestError(name, NEITHER, GIVE_ONE)
    return found[1] == "plan"


def _is_text(source):
    """Returns True if a string is text: it does not exist as a path, and has a newline, a brace or a colon with a
    space."""
    return isinstance(source, str) and any(sign in source for sign in ("\n", "{", ": ")) and not os.path.exists(source)


def _read(path):
    try:
        return read_text(path)
    except OSError as error:
        raise ManifestError(printable(path), f"cannot be read: {error.strerror}", GIVE_ONE) from None
    except ValueError as error:
        raise ManifestError(printable(path), f"cannot be read: {error}", GIVE_ONE) from None


def compile_plan(model, plan, mesh=None, flags=()):
    """Returns the manifest, as text, of a plan for the model file with the text `model`.

    `plan` is a path, a text, or a dict, which needs no `format`. `mesh` lists (name, size), major to minor (default:
    the plan's mesh); a plan without a mesh uses it. `flags` are further arguments of `tpplan compile`.

    Issues PlanWarning. Raises PlanError with the program's diagnostics, and ManifestError if the plan has other axes
    than `mesh`.
    """
    if isinstance(plan, dict):
        plan = json.dumps({"format": "tpplan.plan/1", **plan}, indent=1)
    text = plan if _is_text(plan) else ""
    plan = "-" if text else os.fspath(plan)
    with tempfile.TemporaryDirectory(prefix="tpplan-") as folder:
        file = os.path.join(folder, "model.json")

        def run(*arguments, given=text, cwd=None):
            """Runs the program. Returns its exit status, its output and its error output."""
            command = [find_program(), *arguments, "--color", "never"]
            done = subprocess.run(
                command, input=given, cwd=cwd, capture_output=True, text=True, encoding="utf-8", check=False
            )
            return done.returncode, done.stdout, done.stderr.strip()

        def check(form):
            """Returns the diagnostics in this format. They name the model `model.json`, because its temporary file is
            gone when they are read."""
            tail = ("-q", "--format", form, *flags)
            if text:
                return run("check", "model.json", "-", *tail, cwd=folder)
            return run("check", "-", plan, "--stdin-filename", "model.json", *tail, given=model)

        if mesh is not None:
            write_output(file, NO_MODEL)
            _check_plans_mesh(run("compile", file, plan, "-q", "--print", "plan"), mesh)
            flags = (*flags, "--mesh", ",".join(f"{name}={size}" for name, size in mesh))
        write_output(file, model)
        status, manifest, said = run("compile", file, plan, "-q", *flags)
        findings = []
        if said:
            _, document, _ = check("json")
            findings = _findings_in(document)
            _, printed, wrong = check("human")
            said = (printed.strip() or wrong) if findings else said.replace(file, "model.json")
    if status:
        raise PlanError(said or f"tpplan exited with status {status}", findings)
    if said:
        warn_user(PlanWarning(said, findings))
    return manifest


def _check_plans_mesh(ran, mesh):
    """Raises ManifestError if a plan's axes, in the output of `tpplan compile --print plan`, differ from those of
    `mesh`. Sizes may differ, because `--mesh` overrides them. The compiler reports a plan without a mesh, or with
    other errors."""
    status, printed, _ = ran
    written = re.search(r"^mesh (\[.*\])$", printed, re.M)
    found = "[" + ", ".join(f"{name}={size}" for name, size in mesh) + "]"
    if not status and written is not None and _without_sizes(written[1]) != _without_sizes(found):
        raise ManifestError(
            "`mesh`",
            f"the plan is for mesh {written[1]}, but the device mesh is {found}",
            "use the plan's axis names and order in the device mesh, or remove `mesh` from the plan to allow any mesh",
        )


def _without_sizes(mesh):
    return re.sub(r"=\d+", "", mesh)


def _findings_in(document):
    try:
        return json.loads(document)["diagnostics"]
    except (ValueError, KeyError):
        return []  # a usage error has no JSON; the text explains it


def compiled_text(plan, export, mesh=None, keep=None, flags=()):
    """Returns the manifest, as text, of a plan for the model whose file `export()` returns as text. The manifest is
    also written to the path `keep`, if given. Raises PlanError; raises ManifestError if the model cannot be exported.
    """
    try:
        model = export()
    except InputError as error:
        raise ManifestError("model", str(error), error.remedy) from None
    text = compile_plan(model, plan, mesh, flags)
    if keep is not None:
        try:
            inputs = [] if isinstance(plan, dict) or _is_text(plan) else [os.fspath(plan)]
            write_output(os.fspath(keep), text, inputs)
        except InputError as error:
            raise ManifestError("`manifest`", str(error), error.remedy) from None
    return text


def manifest_of(source, export, mesh=None, keep=None, flags=(), said=lambda make: make()):
    """Returns the Manifest: `source` itself if it is one, else the plan `source` compiled (compiled_text).

    `said(make)` calls make() in the first of several processes and returns its result, a JSON value, in all of them.
    Only the first process reads and compiles the plan, so all processes get the same manifest or raise the same
    errors.
    """

    def judge():
        try:
            return {"manifest": compiled_text(source, export, mesh, keep, flags)} if is_plan(source) else {}
        except PlanError as error:
            return {"findings": [str(error), error.findings]}
        except ManifestError as error:
            return {"refused": [error.place, error.reason, error.remedy]}

    is_read = isinstance(source, Manifest) or (isinstance(source, dict) and not is_plan(source))
    answer = {} if is_read else said(judge)
    if "findings" in answer:
        raise PlanError(*answer["findings"])
    if "refused" in answer:
        raise ManifestError(*answer["refused"])
    if "manifest" in answer:
        return read_manifest_text(answer["manifest"], "manifest")
    if keep is not None:
        raise ManifestError(
            f"`manifest={printable(keep)}`",
            "stores a compiled plan, but the source is already a manifest",
            "pass a plan, or omit `manifest`",
        )
    return read_manifest_text(source, "the text") if _is_text(source) else load_manifest(source)


def said_by_first(make, is_first, send):
    """Calls make() in the first process only, and returns its result, a JSON value, in all processes.

    `send(data)` broadcasts the first process's bytes. If make() raises, all processes raise: the first its own error,
    the others RuntimeError with its text.
    """
    said, failure = {}, None
    if is_first:
        try:
            said = {"value": make()}
        except Exception as error:  # the others wait
            said, failure = {"failure": f"{type(error).__name__}: {error}"}, error
    said = json.loads(send(json.dumps(said).encode() if is_first else b""))
    if failure is not None:
        raise failure
    if "failure" in said:
        raise RuntimeError(f"the first process failed: {said['failure']}")
    return said["value"]
