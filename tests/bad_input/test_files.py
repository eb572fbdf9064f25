"""Unusable files, streams and arguments: every failure has a message and an exit status, and an existing output remains."""

import concurrent.futures
import json
import os
import pathlib
import resource
import socket
import subprocess
import sys
import threading

import pytest
from conftest import PROGRAM, codes, linear_model, run, write
from promise import DIAGNOSTIC, MODEL, PLAN, printable

MANY = linear_model(**{f"layers__{i}__wq": [16, 8] for i in range(3000)})  # a manifest larger than a pipe's buffer
MANY_PLAN = PLAN.replace("wq:", "'*.wq':")
root = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
sanitized = pytest.mark.skipif(os.environ.get("TPPLAN_SANITIZED") == "1", reason="sanitizers reserve terabytes")


@pytest.fixture
def inputs(tmp_path):
    """model.json and plan.yaml, which compile."""
    return write(tmp_path, MODEL, PLAN)


def refused(result, status, *expected, file=None):
    """Checks a failure: its exit status, its codes, and that its first line is a diagnostic, of `file` when given."""
    text = printable(result.stderr)
    assert result.returncode == status, f"exit status {result.returncode}, promised {status}\n{text}"
    assert codes(result) == list(expected), text
    assert result.stdout == b""
    if file is not None:
        found = DIAGNOSTIC.match(text.splitlines()[0])
        assert found and found["file"] == str(file), text
    return text


def usage(result):
    """Checks a usage error: exit status 2 and a human-readable message."""
    text = printable(result.stderr)
    assert result.returncode == 2, f"exit status {result.returncode}\n{text}"
    assert text.strip() and result.stdout == b""
    return text


def leftovers(folder):
    return [p.name for p in pathlib.Path(folder).iterdir() if p.name.startswith(".tpplan-")]


def limited(*arguments, limits=(), cwd=None, **more):
    """Runs the program under resource limits: [(resource, soft and hard limit)]."""

    def set_limits():
        for name, value in limits:
            resource.setrlimit(name, (value, value))

    return subprocess.run(
        [PROGRAM, *map(str, arguments)], preexec_fn=set_limits, capture_output=True, cwd=cwd, timeout=60, **more
    )


# ---- inputs ----


@pytest.mark.parametrize("which", [0, 1], ids=["model", "plan"])
@pytest.mark.parametrize(
    "make, says",
    {
        "missing": (lambda path: None, "No such file or directory"),
        "directory": (lambda path: path.mkdir(), "is a directory"),
        "dangling-link": (lambda path: path.symlink_to("nowhere"), "No such file or directory"),
        "link-to-itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
        "device": (lambda path: path.symlink_to("/dev/zero"), "is a device"),
        "null-device": (lambda path: path.symlink_to("/dev/null"), "is a device"),
        "link-to-a-directory": (lambda path: path.symlink_to("/"), "is a directory"),
        "unreadable": (lambda path: (path.write_text("{}"), path.chmod(0)), "Permission denied"),
    }.items(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_79_unreadable_input_is_named(tmp_path, inputs, which, make, says):
    make, says = says
    if says == "Permission denied" and os.geteuid() == 0:
        pytest.skip("root may read everything")
    bad = tmp_path / "bad"
    make(bad)
    arguments = list(inputs)
    arguments[which] = bad
    text = refused(run("compile", *arguments, "-o", tmp_path / "out.json"), 2, "TP1001", file=bad)
    assert says in text
    assert not (tmp_path / "out.json").exists()


def test_79_two_missing_inputs_are_both_named(tmp_path):
    text = refused(run("compile", "a.json", "b.yaml", cwd=tmp_path), 2, "TP1001", "TP1001")
    assert "a.json:1:1" in text and "b.yaml:1:1" in text


@pytest.mark.parametrize("name", ["x" * 300, "model.json/x", ""], ids=["name-too-long", "through-a-file", "empty"])
def test_79_path_without_a_file_is_an_unreadable_input(tmp_path, inputs, name):
    refused(run("compile", name, "plan.yaml", cwd=tmp_path), 2, "TP1001")


def test_79_socket_is_an_unreadable_input(tmp_path, inputs):
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        try:
            os.chdir(tmp_path)  # the path of a socket is limited
            server.bind("s")
        finally:
            os.chdir(here)
        refused(run("compile", "s", "plan.yaml", cwd=tmp_path), 2, "TP1001", file="s")


def test_79_named_pipe_is_read_to_its_end(tmp_path, inputs):
    os.mkfifo(tmp_path / "pipe")
    feeder = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(inputs[0].read_bytes()))
    feeder.start()
    result = run("compile", tmp_path / "pipe", inputs[1])
    feeder.join()
    assert result.returncode == 0 and json.loads(result.stdout)["parameters"]


def test_79_standard_input_can_be_either_file(inputs):
    from_files = run("compile", *inputs)
    assert run("compile", "-", inputs[1], stdin=inputs[0].read_bytes()).stdout == from_files.stdout
    assert run("compile", inputs[0], "-", stdin=inputs[1].read_bytes()).stdout == from_files.stdout


def test_79_standard_input_is_named_in_messages(inputs):
    refused(run("compile", "-", inputs[1], stdin=b"{"), 2, "TP1003", file="<stdin>")
    refused(run("compile", inputs[0], "-", stdin=b"\xff"), 2, "TP1005", file="<stdin>")
    refused(run("compile", inputs[0], "-", stdin=b""), 2, "TP1008", file="<stdin>")


def test_79_standard_input_cannot_be_both_files(inputs):
    assert "standard input" in usage(run("compile", "-", "-", stdin=inputs[0].read_bytes()))


def test_79_standard_input_above_the_limit_is_rejected(inputs):
    refused(run("compile", inputs[0], "-", stdin=b" " * ((8 << 20) + 1)), 2, "TP1002", file="<stdin>")


def test_22_sparse_gigabyte_is_rejected_before_it_is_read(tmp_path, inputs):
    with open(tmp_path / "huge.yaml", "wb") as file:
        file.truncate(1 << 30)
    refused(run("compile", inputs[0], tmp_path / "huge.yaml", timeout=5), 2, "TP1002", file=tmp_path / "huge.yaml")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_79_closed_standard_streams_do_not_reach_the_manifest(tmp_path, inputs, closed):
    """A file that is opened while a stream is closed gets the stream's descriptor."""
    plan = PLAN.replace(
        "{tp: 4}", "{tp: 4, dp: 2}"
    )  # dp is unused: a warning, which must not be written into the manifest
    inputs[1].write_text(plan)
    wanted = run("compile", *inputs).stdout
    command = f'exec "$0" compile model.json plan.yaml -v -o out.json {closed}'
    result = subprocess.run(["sh", "-c", command, PROGRAM], cwd=tmp_path, capture_output=True, timeout=60)
    assert result.returncode == 0
    assert (tmp_path / "out.json").read_bytes() == wanted


def test_79_closed_standard_input_is_an_unreadable_input(tmp_path, inputs):
    command = 'exec "$0" compile - plan.yaml <&-'
    result = subprocess.run(["sh", "-c", command, PROGRAM], cwd=tmp_path, capture_output=True, timeout=60)
    refused(result, 2, "TP1001", file="<stdin>")


def test_79_closed_standard_output_is_a_failed_write(tmp_path, inputs):
    command = 'exec "$0" compile model.json plan.yaml >&-'
    result = subprocess.run(["sh", "-c", command, PROGRAM], cwd=tmp_path, capture_output=True, timeout=60)
    refused(result, 2, "TP1009")


# ---- output ----


@pytest.mark.parametrize("which", [0, 1], ids=["model", "plan"])
@pytest.mark.parametrize("alias", ["same", "other-spelling", "symbolic-link", "hard-link", "link-to-a-link"])
def test_79_output_over_an_input_is_rejected(tmp_path, inputs, which, alias):
    before = [path.read_bytes() for path in inputs]
    output = tmp_path / "out.json"
    if alias == "same":
        output = inputs[which]
    elif alias == "other-spelling":
        output = tmp_path / ".." / tmp_path.name / "." / inputs[which].name
    elif alias == "symbolic-link":
        output.symlink_to(inputs[which].name)
    elif alias == "hard-link":
        output.hardlink_to(inputs[which])
    else:
        (tmp_path / "link").symlink_to(inputs[which])
        output.symlink_to("link")
    refused(run("compile", *inputs, "-o", output), 2, "TP1010")
    assert [path.read_bytes() for path in inputs] == before


@pytest.mark.parametrize("which", [0, 1], ids=["model", "plan"])
def test_79_output_over_redirected_standard_input_is_rejected(tmp_path, inputs, which):
    before = inputs[which].read_bytes()
    arguments = ["-" if i == which else str(path) for i, path in enumerate(inputs)]
    with open(inputs[which], "rb") as stdin:
        result = subprocess.run(
            [PROGRAM, "compile", *arguments, "-o", str(inputs[which])], stdin=stdin, capture_output=True, timeout=60
        )
    refused(result, 2, "TP1010")
    assert inputs[which].read_bytes() == before


def test_79_directory_as_output_is_rejected(tmp_path, inputs):
    (tmp_path / "out").mkdir()
    for name in ("out", "out/", "."):
        refused(run("compile", *inputs, "-o", name, cwd=tmp_path), 2, "TP1009")
    assert not leftovers(tmp_path) and not leftovers(tmp_path / "out")


@pytest.mark.parametrize("output", ["nowhere/out.json", "model.json/out.json", "", "x" * 300])
def test_79_output_that_cannot_be_created_is_rejected(tmp_path, inputs, output):
    result = run("compile", *inputs, "-o", output, cwd=tmp_path)
    assert result.returncode == 2, result
    assert printable(result.stderr).strip()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.json", "plan.yaml"]


@root
def test_79_output_in_a_read_only_directory_is_rejected(tmp_path, inputs):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    assert "Permission denied" in refused(run("compile", *inputs, "-o", folder / "out.json"), 2, "TP1009")


def test_79_full_device_is_a_failed_write(tmp_path, inputs):
    assert "No space left on device" in refused(run("compile", *inputs, "-o", "/dev/full"), 2, "TP1009")
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [PROGRAM, "compile", *map(str, inputs)], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert result.returncode == 2 and b"TP1009" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["check"], ["check", "--format", "json"], ["explain"], ["compile", "--print", "matches"]]
)
def test_79_lost_output_is_no_success_of_any_command(inputs, arguments):
    words = [arguments[0], *map(str, inputs), *arguments[1:]] + (["wq.weight"] if arguments == ["explain"] else [])
    with open("/dev/full", "wb") as full:
        result = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert result.returncode == 2


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["compile", "--help"], ["schema", "plan"], ["explain", "TP4001"]]
)
def test_79_lost_help_is_no_success(words):
    good = run(*words)
    if good.returncode != 0:
        pytest.skip("this text is not in the program yet")
    with open("/dev/full", "wb") as full:
        assert subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, timeout=60).returncode == 2


def test_79_named_pipe_as_output_is_written_directly(tmp_path, inputs):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    result = run("compile", *inputs, "-o", pipe)
    reader.join()
    assert result.returncode == 0 and read == [run("compile", *inputs).stdout]
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "-"])
def test_79_output_may_name_standard_output(inputs, name):
    result = run("compile", *inputs, "-o", name)
    assert result.returncode == 0 and result.stdout == run("compile", *inputs).stdout


def test_79_null_device_as_output_remains_a_device(inputs):
    assert run("compile", *inputs, "-o", "/dev/null").returncode == 0
    assert pathlib.Path("/dev/null").is_char_device()


@pytest.mark.parametrize("plan, status", [(PLAN.replace("colwise", "colwize"), 1), (PLAN + "mesh: {}\n", 2)])
def test_79_existing_output_survives_a_wrong_plan(tmp_path, inputs, plan, status):
    output = tmp_path / "out.json"
    output.write_text("old")
    inputs[1].write_text(plan)
    assert run("compile", *inputs, "-o", output).returncode == status
    assert output.read_text() == "old" and not leftovers(tmp_path)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002, 0o027, 0o000])
def test_79_output_permissions_follow_the_umask(tmp_path, inputs, mask):
    subprocess.run(
        [PROGRAM, "compile", *map(str, inputs), "-o", str(tmp_path / "out.json")],
        umask=mask,
        check=True,
        capture_output=True,
    )
    assert (tmp_path / "out.json").stat().st_mode & 0o777 == 0o666 & ~mask


def test_79_output_link_is_followed_and_remains_a_link(tmp_path, inputs):
    (tmp_path / "there").mkdir()
    for target, old in (("there/full.json", "old"), ("there/new.json", None)):
        if old is not None:
            (tmp_path / target).write_text(old)
        link = tmp_path / "out.json"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert run("compile", *inputs, "-o", link).returncode == 0
        assert link.is_symlink() and json.loads((tmp_path / target).read_bytes())["parameters"]
    assert not leftovers(tmp_path) and not leftovers(tmp_path / "there")


def test_79_output_link_to_itself_is_rejected(tmp_path, inputs):
    (tmp_path / "loop").symlink_to("loop")
    refused(run("compile", *inputs, "-o", tmp_path / "loop"), 2, "TP1009")
    assert (tmp_path / "loop").is_symlink()


def test_79_broken_pipe_is_a_failed_write_and_no_signal(tmp_path):
    model, plan = write(tmp_path, MANY, MANY_PLAN)
    process = subprocess.Popen(
        [PROGRAM, "compile", str(model), str(plan)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.read(10)
    process.stdout.close()
    text = printable(process.stderr.read())
    assert process.wait(60) == 2, text
    assert "TP1009" in text and "Broken pipe" in text


def test_79_broken_pipe_of_check_is_no_signal(inputs):
    process = subprocess.Popen([PROGRAM, "check", *map(str, inputs)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    process.stderr.close()
    assert process.wait(60) in (0, 2)


@pytest.mark.parametrize("bytes_", [0, 1, 1000, 100_000])
def test_79_file_size_limit_preserves_the_old_output(tmp_path, bytes_):
    model, plan = write(tmp_path, MANY, MANY_PLAN)
    output = tmp_path / "out.json"
    for old in (None, "old"):
        if old:
            output.write_text(old)
        result = limited("compile", model, plan, "-o", output, limits=[(resource.RLIMIT_FSIZE, bytes_)])
        assert "File too large" in refused(result, 2, "TP1009")
        assert (output.read_text() if output.exists() else None) == old
        assert not leftovers(tmp_path)


@sanitized
@pytest.mark.parametrize("megabytes", [12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64])
def test_79_too_little_memory_is_a_limit_and_no_signal(tmp_path, megabytes):
    model = linear_model(**{f"layers__{i}__wq": [16, 8] for i in range(60_000)})
    rules = "".join(f"  'layers.{i}.w*': colwise\n" for i in range(200))
    model, plan = write(tmp_path, model, MANY_PLAN + rules)
    result = limited(
        "compile", model, plan, "-o", tmp_path / "out.json", limits=[(resource.RLIMIT_AS, megabytes << 20)]
    )
    assert result.returncode in (0, 2, 3), result
    if result.returncode != 0:
        assert b"error" in result.stderr
        assert not (tmp_path / "out.json").exists()
    assert not leftovers(tmp_path)


@sanitized
def test_79_too_few_file_descriptors_are_no_signal(tmp_path, inputs):
    for count in range(3, 7):
        result = limited("compile", *inputs, "-o", tmp_path / "out.json", limits=[(resource.RLIMIT_NOFILE, count)])
        assert result.returncode in (0, 2)
        assert (tmp_path / "out.json").exists() == (result.returncode == 0)
        (tmp_path / "out.json").unlink(missing_ok=True)


def test_79_concurrent_writers_leave_one_complete_manifest(tmp_path):
    model, plan = write(tmp_path, MANY, MANY_PLAN)
    (tmp_path / "other.yaml").write_text(MANY_PLAN.replace("tp: 4", "tp: 8"))
    output = tmp_path / "out.json"
    wanted = {run("compile", model, plan).stdout, run("compile", model, tmp_path / "other.yaml").stdout}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        runs = [
            pool.submit(run, "compile", model, tmp_path / name, "-o", output)
            for name in ("plan.yaml", "other.yaml") * 8
        ]
        assert {r.result().returncode for r in runs} == {0}
    assert output.read_bytes() in wanted
    assert not leftovers(tmp_path)


# ---- locale and names ----


@pytest.mark.parametrize("locale", ["C", "POSIX", "de_DE.ISO-8859-1", "tr_TR.UTF-8", "ja_JP.SJIS", "nonsense"])
def test_79_locale_changes_no_output(tmp_path, locale):
    model, plan = write(tmp_path, linear_model(wqé=[16, 8]), PLAN.replace("wq:", "wqé:"))
    environment = {"LC_ALL": locale, "LANG": locale, "LC_NUMERIC": locale}
    for arguments in (["compile"], ["check"], ["check", "--format", "json"]):
        plain = run(arguments[0], model, plan, *arguments[1:])
        other = run(arguments[0], model, plan, *arguments[1:], env=environment)
        assert (other.returncode, other.stdout, other.stderr) == (plain.returncode, plain.stdout, plain.stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux")
def test_79_file_name_without_utf8_works_and_is_escaped(tmp_path, inputs):
    name = os.fsencode(tmp_path) + b"/p\xff\x1b[2J\n.yaml"
    with open(name, "wb") as file:
        file.write(PLAN.encode())
    assert subprocess.run([PROGRAM, "compile", inputs[0], name], capture_output=True).returncode == 0
    with open(name, "ab") as file:
        file.write(b"wq: colwise\n")
    result = subprocess.run([PROGRAM, "compile", inputs[0], name], capture_output=True)
    assert result.returncode == 1 and r"\x1b[2J\n.yaml:5:1: error[TP3004]" in printable(result.stderr)
    report = subprocess.run([PROGRAM, "check", inputs[0], name, "--format", "json"], capture_output=True)
    assert report.returncode == 1 and json.loads(report.stdout.decode())["errors"] == 1


def test_79_missing_file_with_a_hostile_name_is_escaped(tmp_path):
    for name in ("\x1b[2J\n\x07", "\u202egnp.exe", b"\xff\xfe"):
        for arguments in (["compile", name, name], ["show", name], ["compile", name, name, "-o", name]):
            result = subprocess.run([PROGRAM, *arguments], capture_output=True, cwd=tmp_path)
            assert result.returncode == 2
            printable(result.stderr)


def test_79_hostile_output_name_is_escaped(tmp_path, inputs):
    result = run("compile", *inputs, "-o", "nowhere/\x1b[2J\n", cwd=tmp_path)
    assert r"nowhere/\x1b[2J\n" in refused(result, 2, "TP1009")


def test_79_relative_paths_use_the_working_directory(tmp_path, inputs):
    (tmp_path / "deep").mkdir()
    result = run("compile", "../model.json", "../plan.yaml", "-o", "../out.json", cwd=tmp_path / "deep")
    assert result.returncode == 0 and (tmp_path / "out.json").exists() and not list((tmp_path / "deep").iterdir())


# ---- arguments ----


@pytest.mark.parametrize(
    "mesh",
    [
        "tp=0",
        "tp=-1",
        "tp=1.5",
        "tp=",
        "=4",
        "tp",
        "tp=4x",
        "tp= 4",
        "tp=+4",
        "tp=04",
        "tp=0x4",
        "tp=2147483648",
        "tp=" + "9" * 30,
        "",
        ",",
        "tp=4,",
        "tp=4,,tp=2",
        "tp:4",
        "tp=4=4",
        "pp=2",
        "TP=4",
        "\x1b[2J=4",
        "tp=\x1b[2J",
        "tp=4;rm",
    ],
)
def test_wrong_mesh_argument_is_a_usage_error(inputs, mesh):
    for arguments in (
        ["compile", *inputs, "--mesh", mesh],
        ["check", *inputs, f"--mesh={mesh}"],
        ["explain", *inputs, "wq.weight", "--mesh", mesh],
    ):
        assert "--mesh" in usage(run(*arguments))


@pytest.mark.parametrize(
    "flags", [["--mesh", "tp=2,tp=4"], ["--mesh", "tp=2", "--mesh", "tp=4"], ["--mesh", "tp=2", "--mesh", "tp=2"]]
)
def test_repeated_axis_is_a_usage_error(inputs, flags):
    assert "tp" in usage(run("compile", *inputs, *flags))


def test_too_large_mesh_argument_is_rejected(tmp_path):
    model, plan = write(tmp_path, MODEL, PLAN.replace("{tp: 4}", "{tp: 4, dp: 2}"))
    result = run("compile", model, plan, "--mesh", "tp=2147483647,dp=2147483647")
    assert result.returncode == 2 and printable(result.stderr)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["frobnicate"],
        ["compil"],
        ["--frobnicate"],
        ["compile"],
        ["compile", "model.json"],
        ["check"],
        ["check", "model.json"],
        ["compile", "model.json", "plan.yaml", "extra"],
        ["compile", "model.json", "plan.yaml", "--frobnicate"],
        ["compile", "model.json", "plan.yaml", "-o"],
        ["compile", "model.json", "plan.yaml", "--mesh"],
        ["compile", "model.json", "plan.yaml", "-x"],
        ["compile", "model.json", "plan.yaml", "--print", "everything"],
        ["compile", "model.json", "plan.yaml", "--deny", "TP9999"],
        ["compile", "model.json", "plan.yaml", "--allow", "4001"],
        ["compile", "model.json", "plan.yaml", "--color", "sometimes"],
        ["check", "model.json", "plan.yaml", "--format", "xml"],
        ["check", "model.json", "plan.yaml", "-o", "x"],
        ["explain"],
        ["explain", "TP9999"],
        ["explain", "nonsense"],
        ["explain", "model.json", "plan.yaml"],
        ["explain", "model.json", "plan.yaml", "wk.weight"],
        ["explain", "model.json", "plan.yaml", "wq.weight", "extra"],
        ["show"],
        ["show", "manifest.json", "--rank", "one"],
        ["show", "manifest.json", "--rank", "4"],
        ["show", "manifest.json", "--rank", "-1"],
        ["show", "manifest.json", "--rank", "9" * 30],
        ["show", "manifest.json", "--parameter", "wk.weight"],
        ["show", "manifest.json", "--format", "xml"],
        ["show", "missing.json"],
        ["schema"],
        ["schema", "nonsense"],
        ["schema", "plan", "model"],
        ["compile", "check"],
        ["\x1b[2J"],
        ["--\x1b[2J"],
        ["compile", "--\x1b[2J\n"],
        ["compile", "model.json", "plan.yaml", "\x1b[2J"],
        ["check", "model.json", "plan.yaml", "--format", "\x1b[2J"],
        ["explain", "\x1b[2J"],
        ["schema", "\x1b[2J"],
        ["compile", "model.json", "plan.yaml", "--deny", "\x1b[2J"],
        ["compile", "model.json", "plan.yaml", "--print", "\x1b[2J"],
        ["explain", "model.json", "plan.yaml", "\x1b[2J"],
        ["show", "manifest.json", "--parameter", "\x1b[2J"],
        ["show", "manifest.json", "--rank", "\x1b[2J"],
    ],
    ids=lambda words: " ".join(words).encode("unicode_escape").decode() or "nothing",
)
def test_wrong_arguments_are_a_usage_error(tmp_path, inputs, words):
    assert run("compile", *inputs, "-o", tmp_path / "manifest.json").returncode == 0
    usage(run(*words, cwd=tmp_path))


def test_usage_errors_precede_reading_files(tmp_path):
    text = usage(run("compile", "missing.json", "missing.yaml", "--mesh", "tp=0", cwd=tmp_path))
    assert "TP1001" not in text


@pytest.mark.parametrize("form", [[], ["--format", "json"]])
def test_swapped_model_and_plan_are_reported(inputs, form):
    model, plan = inputs
    result = run("check", plan, model, *form)
    assert (result.returncode, codes(result) if not form else []) == (2, ["TP1003"] if not form else [])
    assert b"the order is MODEL PLAN" in result.stdout


def test_manifest_as_model_is_one_diagnostic(inputs, tmp_path):
    (tmp_path / "manifest.json").write_bytes(run("compile", *inputs).stdout)
    result = run("check", tmp_path / "manifest.json", inputs[1])
    assert (result.returncode, codes(result)) == (2, ["TP2001"])
    assert b"format `tpplan.manifest/1` is not `tpplan.model/1`" in result.stdout
