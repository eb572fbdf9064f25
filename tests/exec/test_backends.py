"""Every backend computes the same bytes: `local`, which is tested against the definition, and ranks in processes."""

import pytest

from ranks import RANKS, mpirun, needs_mpi, run

MESHES = ["1", "2", "3", "4", "5", "6", "7", "8", "2x2", "2x3", "3x2"]


def ranks_of(mesh):
    sizes = [int(size) for size in mesh.split("x")]
    return sizes[0] * (sizes[1] if len(sizes) > 1 else 1)


@needs_mpi
@pytest.mark.parametrize("mesh", MESHES)
def test_mpi_matches_local_for_all_redistributions(mesh):
    local = run(RANKS, "local", mesh, "cases")
    assert local.returncode == 0, local.stderr
    assert len(local.stdout.splitlines()) == ranks_of(mesh)
    mpi = mpirun(ranks_of(mesh), RANKS, "mpi", mesh, "cases", "30")
    assert mpi.returncode == 0, mpi.stderr
    assert mpi.stdout == local.stdout


@needs_mpi
def test_mpi_matches_local_on_uneven_megabyte_shards():
    local = run(RANKS, "local", "5", "sizes")
    mpi = mpirun(5, RANKS, "mpi", "5", "sizes", "30")
    assert (local.returncode, mpi.returncode) == (0, 0), mpi.stderr
    assert mpi.stdout == local.stdout != ""


@needs_mpi
def test_ranks_rendezvous_at_a_chosen_address():
    from ranks import free_port

    local = run(RANKS, "local", "3", "steps")
    mpi = mpirun(3, RANKS, "mpi", "3", "steps", MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    assert mpi.returncode == 0, mpi.stderr
    assert mpi.stdout == local.stdout != ""
