"""tpplan check --topology with measurements in place of figures: the table of nccl-tests, and tpplan-exec run --json."""

import json

import jsonschema
import pytest
from conftest import EXECUTOR, ROOT, run, run_program

SCHEMA = json.loads((ROOT / "schemas/diagnostics.schema.json").read_text())
CASE = ROOT / "tests/golden/manifest/saved-activations-under-tp"
MODEL = CASE / "model.json"
PLAN = "format: tpplan.plan/1\nmesh: {%s}\n" + "\n".join(
    line for line in (CASE / "plan.yaml").read_text().splitlines() if not line.startswith(("mesh:", "format:"))
)
LATENCY, BANDWIDTH = 3e-6, 200e9
SIZES = [2**power for power in range(10, 31, 2)]
PASSES = {"all_reduce_perf": 2, "all_gather_perf": 1, "reduce_scatter_perf": 1, "alltoall_perf": 1}
NEW_HEAD = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong"
OLD_HEAD = "#       size         count      type     time   algbw   busbw    error     time   algbw   busbw    error"


def table(test="all_reduce_perf", ranks=2, device="NVIDIA H100 80GB HBM3", old=False, sizes=SIZES):
    """The output of nccl-tests for a ring with this latency and bandwidth; in-place calls take twice the time."""
    lines = (
        []
        if old
        else [
            "# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807",
            f"# Collective test starting: {test}",
        ]
    )
    lines += [
        "# nThread 1 nGpus 1 minBytes 1024 maxBytes 1073741824 step: 4(factor) warmup iters: 1 iters: 20",
        "#",
        "# Using devices",
    ]
    lines += [
        f"#  Rank {rank:2} Group  0 Pid {100 + rank:6} on node{rank // 8} device {rank % 8:2} [0000:{rank:02x}:00] {device}"
        for rank in range(ranks)
    ]
    lines += [
        "NCCL version 2.28.7+cuda13.0",
        "#",
        "#                          out-of-place                       in-place",
        OLD_HEAD if old else NEW_HEAD,
    ]
    lines.append(
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"
    )
    share = PASSES.get(test, 1) * (ranks - 1) / ranks
    how = "" if old else f" {'sum' if 'reduce' in test else 'none':>7} {'0' if test not in PASSES else '-1':>7}"
    for size in sizes:
        seconds = PASSES.get(test, 1) * (ranks - 1) * LATENCY + share * size / BANDWIDTH
        half = [
            f"{t * 1e6:8.2f} {size / t / 1e9:7.2f} {share * size / t / 1e9:7.2f} {0:7}" for t in (seconds, 2 * seconds)
        ]
        lines.append(f"{size:12} {size // 4:13} {'float':>9}{how} {' '.join(half)}")
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 100.0", "#"]) + "\n"


def check(folder, *files, mesh="tp: 2"):
    """Each file is its text, or (axis, text)."""
    (folder / "plan.yaml").write_text(PLAN % mesh)
    flags = []
    for number, given in enumerate(files):
        axis, text = given if isinstance(given, tuple) else ("", given)
        (folder / f"speeds{number}").write_text(text)
        flags += ["--topology", (f"{axis}=" if axis else "") + str(folder / f"speeds{number}")]
    result = run("check", MODEL, folder / "plan.yaml", "--format", "json", *flags)
    document = json.loads(result.stdout)
    jsonschema.Draft7Validator(SCHEMA).validate(document)
    return result.returncode, document


def time_of(folder, *files, **more):
    status, document = check(folder, *files, **more)
    assert status == 0, document["diagnostics"]
    return document["costs"]["time"]


def finding(folder, *files, **more):
    status, document = check(folder, *files, **more)
    errors = [d for d in document["diagnostics"] if d["severity"] == "error"]
    assert status == 2 and len(errors) == 1 and errors[0]["help"] and "time" not in document["costs"]
    assert errors[0]["place"]["file"].startswith(str(folder / "speeds"))
    return errors[0]


TOPOLOGY = {
    "format": "tpplan.topology/1",
    "device": "H100",
    "peak_flops": {"float32": 1e12},
    "links": [{"bandwidth": 1e6, "latency": 1}],
}
FIGURES = json.dumps(TOPOLOGY | {"links": [{"bandwidth": BANDWIDTH, "latency": LATENCY}]})


@pytest.mark.parametrize("test", PASSES)
def test_nccl_tests_table_matches_its_figures(tmp_path, test):
    [axis] = time_of(tmp_path, table(test))["axes"]
    assert axis["latency"] == pytest.approx(LATENCY, rel=0.02) and axis["bandwidth"] == pytest.approx(
        BANDWIDTH, rel=0.02
    )
    assert axis["timings"] == len(SIZES)
    [wanted] = time_of(tmp_path, FIGURES)["axes"]
    assert axis["seconds"] == pytest.approx(wanted["seconds"], rel=0.02) and wanted["timings"] == 0


def test_old_nccl_tests_and_mpi_lines_are_read(tmp_path):
    [old] = time_of(tmp_path, table("all_gather_perf", old=True))["axes"]
    [mpi] = time_of(tmp_path, "".join(f"[1,0]<stdout>:{line}\n" for line in table("all_gather_perf").splitlines()))[
        "axes"
    ]
    assert old == mpi and old["bandwidth"] == pytest.approx(BANDWIDTH, rel=0.02)


def test_single_size_gives_a_bandwidth_without_latency(tmp_path):
    [axis] = time_of(tmp_path, table(sizes=[2**20]))["axes"]
    assert axis["latency"] == 0 and axis["bandwidth"] == pytest.approx(
        2**20 / (2 * LATENCY + 2**20 / BANDWIDTH), rel=0.01
    )


def test_timings_replace_links_and_leave_matmul_speed(tmp_path):
    alone, both = time_of(tmp_path, table()), time_of(tmp_path, json.dumps(TOPOLOGY), table())
    assert both["axes"] == alone["axes"]
    assert alone["products"] is False and alone["forward"] == 0 and both["products"] and both["forward"] > 0


def test_executor_measurements_replace_figures_by_axis(tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN % "tp: 2")
    manifest = tmp_path / "manifest.json"
    manifest.write_bytes(run("compile", MODEL, tmp_path / "plan.yaml").stdout)
    ran = run_program(EXECUTOR, "run", manifest, "--json", "--tokens", 64)
    assert ran.returncode == 0, ran.stderr
    calls = [c for entry in json.loads(ran.stdout)["redistributions"] for c in entry["collectives"]]
    [axis] = time_of(tmp_path, ran.stdout.decode())["axes"]
    assert axis["axis"] == "tp" and axis["timings"] == sum(c["kind"] != "slice" for c in calls) > 0
    assert axis["seconds"] > 0


def test_screen_prints_measured_timings(tmp_path):
    (tmp_path / "table").write_text(table())
    (tmp_path / "plan.yaml").write_text(PLAN % "tp: 2")
    text = run("check", MODEL, tmp_path / "plan.yaml", "--topology", tmp_path / "table").stdout.decode()
    assert "measured" in text and "11 timings" in text and "matmuls are not timed" in text


ONE = table(sizes=[2**20])
RUN = {
    "device": "cpu",
    "redistributions": [
        {"wrong": 0, "collectives": [{"kind": "all_reduce", "axis": "tp", "ranks": 2, "bytes": 1024, "seconds": 1e-3}]}
    ],
}


def of_run(**more):
    return json.dumps(
        RUN | {"redistributions": [{"wrong": 0, "collectives": [RUN["redistributions"][0]["collectives"][0] | more]}]}
    )


def without(text, start):
    return "\n".join(line for line in text.splitlines() if not line.startswith(start)) + "\n"


BAD = {
    "no rows": (without(ONE, "     1048576"), "TP9104"),
    "no ranks": (without(ONE, "#  Rank"), "TP9104"),
    "a time that is no number": (ONE.replace(ONE.splitlines()[-4].split()[5], "N/A", 1), "TP9104"),
    "a time of zero": (ONE.replace(ONE.splitlines()[-4].split()[5], "0.00", 1), "TP9104"),
    "a negative time": (ONE.replace(ONE.splitlines()[-4].split()[5], "-8.24", 1), "TP9104"),
    "a line that ends early": ("\n".join(line[:50] if line.startswith("     1048576") else line for line in ONE.splitlines()), "TP9104"),
    "wrong results": (ONE.replace("      0 ", "     17 ", 1), "TP9104"),
    "a collective with a root": (table("broadcast_perf"), "TP9104"),
    "another number of ranks": (table(ranks=4), "TP9105"),
    "an axis that is not there": (("data", table()), "TP9102"),
    "a topology for one axis": (("tp", FIGURES), "TP9104"),
    "a run that took no time": (of_run(seconds=0), "TP9104"),
    "a run with a negative time": (of_run(seconds=-1.5), "TP9104"),
    "a run without bytes": (of_run(bytes=None), "TP9104"),
    "a run that came out wrong": (json.dumps(RUN).replace('"wrong": 0', '"wrong": 3'), "TP9104"),
    "a run without collectives": (json.dumps(RUN | {"redistributions": []}), "TP9104"),
    "a run of other ranks": (of_run(ranks=4), "TP9105"),
    "a run on another mesh": (of_run(axis="model"), "TP9102"),
    "a run that is cut off": (json.dumps(RUN)[:-20], "TP1003"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_unusable_timings_are_a_diagnostic_with_a_place(tmp_path, name):
    given, code = BAD[name]
    assert finding(tmp_path, given)["code"] == code


def test_figures_of_another_machine_are_rejected(tmp_path):
    other = finding(tmp_path, json.dumps(TOPOLOGY), table(device="NVIDIA A100-SXM4-80GB"))
    assert other["code"] == "TP9106" and "A100" in other["message"]
    mixed = table().replace("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", 1)
    assert finding(tmp_path, mixed)["code"] == "TP9106"


def test_axes_of_equal_size_need_a_name(tmp_path):
    mesh = "tp: 2, sp: 2"
    assert finding(tmp_path, table(), mesh=mesh)["code"] == "TP9105"
    assert finding(tmp_path, ("tp", table()), mesh=mesh)["code"] == "TP9103"  # and no timings of the other axis
    axes = time_of(tmp_path, ("tp", table()), ("sp", table(sizes=[2**20])), mesh=mesh)["axes"]
    assert [axis["axis"] for axis in axes] == ["tp"]
