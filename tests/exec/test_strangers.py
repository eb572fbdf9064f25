"""Any connection to rank 0's port before the rendezvous leaves the job unaffected, and the reason for its end is reported."""

import contextlib
import hashlib
import re
import socket
import struct
import threading
import time

import pytest
from executor import EXECUTOR, execute
from ranks import free_port, mpirun, needs_mpi
from weights import compile_manifest

SHAPES = {"m.a": ("float32", (8, 6))}
NO_SECRET = hashlib.sha256(b"tpplan hello\n").hexdigest().encode()  # the proof of a rank without a secret


def frame(kind, numbers, texts):
    """A message as lib's frames.cc encodes it."""
    body = struct.pack("<3Q", kind, len(numbers), len(texts)) + struct.pack(f"<{len(numbers)}Q", *numbers)
    body += b"".join(struct.pack("<Q", len(text)) + text for text in texts)
    check = 0xCBF29CE484222325
    for byte in body:
        check = (check ^ byte) * 0x100000001B3 % (1 << 64)
    return struct.pack("<2Q", len(body) + 8, check) + body


def hello(magic, rank, world, texts):
    return frame(1, [int.from_bytes(magic, "little"), rank, world, 7], texts)


STRANGERS = {
    "111 bytes": hello(b"tpprank4", 1, 9, [b"tpplan", b"", b"x", b""]),
    "false rank": hello(b"tpprank5", 1, 2, [b"tpplan 0.1.0", b"", b"host boot", b"", NO_SECRET]),
    "other world": hello(b"tpprank5", 1, 9, [b"", b"", b"", b"", NO_SECRET]),
    "wrong proof": hello(b"tpprank5", 1, 9, [b"", b"", b"", b"", b"0" * 64]),
    "fault": frame(6, [], [b"x"]),
    "huge": struct.pack("<Q", 1 << 62) + b"x" * 4096,
    "half": hello(b"tpprank5", 1, 2, [b"", b"", b"", b"", NO_SECRET])[:-3],
    "silent": b"",
}


@pytest.fixture
def manifest(tmp_path):
    return compile_manifest(tmp_path, SHAPES, {"m.a": ["tp", None]}, {"tp": 2})


@contextlib.contextmanager
def strangers(port):
    """Each stranger connects to rank 0 as soon as it listens, and stays connected. Yields the growing list of connections."""
    called, stop = [], threading.Event()

    def call_all():
        while not stop.is_set() and len(called) < len(STRANGERS):
            try:
                called.append(socket.create_connection(("127.0.0.1", port), timeout=1))
                called[-1].sendall(list(STRANGERS.values())[len(called) - 1])
            except OSError:
                time.sleep(0.005)

    thread = threading.Thread(target=call_all)
    thread.start()
    try:
        yield called
    finally:
        stop.set()
        thread.join()
        for connection in called:
            connection.close()


def flat(said):
    return " ".join(said.split())


SECRETS = {
    "chosen": ({"TPPLAN_EXEC_SECRET": "0123456789abcdef"}, ""),
    "of mpirun": ({}, ""),
    "none": ({}, "unset OMPI_MCA_orte_precondition_transports; "),
}


@needs_mpi
@pytest.mark.parametrize("secret", SECRETS)
def test_strangers_end_no_job_and_are_reported_once(manifest, secret):
    port, (variables, unset) = free_port(), SECRETS[secret]
    late = f'{unset}[ "$OMPI_COMM_WORLD_RANK" = 0 ] || sleep 3; exec "$0" "$@"'
    command = [EXECUTOR, "run", manifest, "--backend", "mpi", "--iterations", "1", "--warmup", "0"]
    with strangers(port) as called:
        result = mpirun(2, "sh", "-c", late, *command, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, **variables)
        assert len(called) == len(STRANGERS)
    assert result.returncode == 0, result.stderr
    said = flat(result.stderr)
    assert said.count("TP8017") == 1
    assert f"warning[TP8017]: {len(STRANGERS)} connections to rank 0 were not from a rank of this job" in said, said
    assert ("set TPPLAN_EXEC_SECRET to" in said) == (secret == "none")


def rank(manifest, number, port, deadline=4, world=2, **more):
    """One rank without a launcher, which must end before MPI_Init."""
    env = {"RANK": number, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} | more
    arguments = ["run", manifest, "--backend", "mpi", "--deadline", deadline]
    return execute(*arguments, env={name: str(value) for name, value in env.items()})


def start(function, *arguments, **more):
    """Starts a call on a thread; returns a function for its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*arguments, **more)))
    thread.start()

    def result():
        thread.join()
        return results[0]

    return result


@needs_mpi
def test_rank_0_reports_the_reason_for_the_end_of_a_job(manifest):
    """Without a secret a caller with other settings could be a rank: it is the reason if a rank is missing at the deadline."""
    port = free_port()
    zero = start(rank, manifest, 0, port)
    with strangers(port):
        result = zero()
    assert result.returncode == 2
    said = flat(result.stderr)
    assert re.search(
        r"error\[TP800[56]\]: rank 1 of 2 has not connected to rank 0 within 4 s; \d connections to rank 0", said
    )


@needs_mpi
def test_ranks_with_different_secrets_both_report_it(manifest):
    """Rank 1 tries again after rank 0 has ended, and must not report only that the connection is refused."""
    port = free_port()
    one = start(rank, manifest, 1, port, 10, TPPLAN_EXEC_SECRET="secret 1")
    zero = start(rank, manifest, 0, port, TPPLAN_EXEC_SECRET="secret 0")
    zero, one = (flat(result().stderr) for result in (zero, one))
    assert "error[TP8005]: rank 1 of 2 has not connected to rank 0 within 4 s; " in zero
    assert "MASTER_PORT and the same TPPLAN_EXEC_SECRET" in zero
    assert "error[TP8005]: rank 1 " in one and "its TPPLAN_EXEC_SECRET differs" in one


@needs_mpi
def test_unresolvable_address_is_reported(manifest):
    manifest = compile_manifest(manifest.parent, SHAPES, {"m.a": ["tp", None]}, {"tp": 4})
    result = rank(manifest, 2, free_port(), 2, 4, LOCAL_RANK=2, LOCAL_WORLD_SIZE=4, MASTER_ADDR="no-such-host.invalid")
    assert result.returncode == 2
    assert re.search(r"cannot reach rank 0 at no-such-host\.invalid:\d+ within 2 s: \w", flat(result.stderr)), result
