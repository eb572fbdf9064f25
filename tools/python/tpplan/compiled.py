"""Plans compiled from Python: the program judges a plan for a model that is there, and writes the manifest.

What the bridges take for a manifest may be a plan, too. `manifest_of` tells them apart, and compiles plans; from there on
there are manifests alone."""

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

FORMAT = re.compile(r"(?:^|[{,])\s*[\"']?format[\"']?\s*:\s*[\"']?tpplan\.(plan|manifest)/", re.M)
NEITHER = "is neither a plan (`format: tpplan.plan/1`) nor a manifest (`format: tpplan.manifest/1`)"
GIVE_ONE = "give a plan or a manifest: its path, its text, or a dict"
# A model file without parameters: what a plan says by itself does not depend on the model.
NO_MODEL = '{"format": "tpplan.model/1", "name": "", "framework": "torch", "modules": [{"path": "", "type": "Model"}]}'


class PlanError(ValueError):
    """A plan that the program finds wrong; the text is what it prints. `findings` says the same as data: the `diagnostics` of
    `tpplan check --format json` (schemas/diagnostics.schema.json)."""

    def __init__(self, text, findings=()):
        self.findings = list(findings)
        super().__init__(text)


class PlanWarning(UserWarning):
    """What the program warns of in a plan that it compiles, in the same two forms."""

    def __init__(self, text, findings=()):
        self.findings = list(findings)
        super().__init__(text)


def warn_user(warning):
    """Warns at the line that called this package."""
    here = os.path.dirname(os.path.abspath(__file__)) + os.sep
    frame, level = sys._getframe(0), 1
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(here):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


def find_program():
    """The path of `tpplan`: the environment's TPPLAN, beside this package, among the scripts of this Python, or on PATH.
    Raises ManifestError where there is none."""
    here = [os.environ.get("TPPLAN"), pathlib.Path(__file__).with_name("bin") / "tpplan"]
    here.append(os.path.join(sysconfig.get_path("scripts"), "tpplan"))
    found = next((shutil.which(path) for path in [*here, "tpplan"] if path and shutil.which(path)), None)
    if found is None:
        raise ManifestError(
            "tpplan",
            "the program is not there, and a plan is compiled by it",
            "install it (pip install tpplan-*.whl), or build it (tools/quickstart) and name it in the environment's TPPLAN",
        )
    return found


def is_plan(source):
    """Whether `source` is a plan, and not a manifest: by its `format`, which a dict that is a plan may lack. A path is what
    exists, other strings are text. Raises ManifestError for what cannot be read, and for what is neither."""
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
    """Whether a string is no path: paths exist, or look like nothing else."""
    return isinstance(source, str) and any(sign in source for sign in ("\n", "{", ": ")) and not os.path.exists(source)


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ManifestError(printable(path), f"cannot be read: {error.strerror}", GIVE_ONE) from None
    except ValueError as error:
        raise ManifestError(printable(path), f"cannot be read: {error}", GIVE_ONE) from None


def compile_plan(model, plan, mesh=None, flags=()):
    """The manifest, as text, of a plan (path, text, or a dict, which needs no format) for the model file whose text is `model`,
    on `mesh`: (name, size), major to minor, or None for the plan's own. A plan that has no mesh takes this one. Warns
    with PlanWarning. Raises PlanError with the program's findings, and ManifestError for a plan of other axes."""
    if isinstance(plan, dict):
        plan = json.dumps({"format": "tpplan.plan/1", **plan}, indent=1)
    text = plan if _is_text(plan) else ""
    plan = "-" if text else os.fspath(plan)
    with tempfile.TemporaryDirectory(prefix="tpplan-") as folder:
        file = os.path.join(folder, "model.json")

        def run(*arguments, given=text, cwd=None):
            """Exit status, output and what is said."""
            command = [find_program(), *arguments, "--color", "never"]
            done = subprocess.run(
                command, input=given, cwd=cwd, capture_output=True, text=True, encoding="utf-8", check=False
            )
            return done.returncode, done.stdout, done.stderr.strip()

        def check(form):
            """The findings, in which the model is called model.json wherever it stands: its file is gone when they are read."""
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
        raise PlanError(said or f"tpplan ended with status {status}", findings)
    if said:
        warn_user(PlanWarning(said, findings))
    return manifest


def _check_plans_mesh(ran, mesh):
    """Holds the axes of a plan, as `tpplan compile --print plan` ran and printed it, against those that are there; their sizes
    are the device mesh's, as --mesh says them. Of a plan that has none, or that is wrong in other ways, the compiler says so."""
    status, printed, _ = ran
    written = re.search(r"^mesh (\[.*\])$", printed, re.M)
    found = "[" + ", ".join(f"{name}={size}" for name, size in mesh) + "]"
    if not status and written is not None and _without_sizes(written[1]) != _without_sizes(found):
        raise ManifestError(
            "`mesh`",
            f"the plan is for {written[1]}, the device mesh is {found}",
            "name the axes of the device mesh so, in this order, or leave `mesh` out of the plan, which then takes any",
        )


def _without_sizes(mesh):
    return re.sub(r"=\d+", "", mesh)


def _findings_in(document):
    try:
        return json.loads(document)["diagnostics"]
    except (ValueError, KeyError):
        return []  # not one command line: the text says why


def compiled_text(plan, export, mesh=None, keep=None, flags=()):
    """The manifest, as text, of a plan for the model whose file `export()` gives as text; `keep` is a path where it is written,
    too. Raises PlanError, and ManifestError for a model that cannot be exported."""
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
    """The manifest that `source` is, or that the plan in its place becomes (compiled_text). `said(make)` is what make() returned
    on the first of several processes, a JSON value, on all of them: there alone the plan is read and compiled, so that all
    get one manifest, and all raise what the program finds wrong."""

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
        raise ManifestError(f"`manifest={printable(keep)}`", "is for what is compiled", "give a plan, or leave it out")
    return read_manifest_text(source, "the text") if _is_text(source) else load_manifest(source)


def said_by_first(make, is_first, send):
    """What make() returned on the first process, a JSON value, on all: it is called there alone. send(data) gives all of them the
    first one's bytes. Where make() raises, all do: the others what the first one was told."""
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
