#include "exec/ranks/rank_source.h"

#include <doctest/doctest.h>

#include <map>

#include "diagnostics/fault.h"

using namespace tpplan;

namespace {

using Variables = std::map<std::string, std::string>;

struct Found {
  bool fine = false;
  RankIdentity identity;
  std::string fault;
};

Found find(const Variables& variables) {
  Found found;
  try {
    found.identity = find_rank([&](const char* name) {
      const auto at = variables.find(name);
      return at == variables.end() ? nullptr : at->second.c_str();
    });
    found.fine = true;
  } catch (const Fault& fault) {
    CHECK(fault.code == Code::InvalidLauncherEnvironment);
    found.fault = to_text(fault);
  }
  return found;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("every launcher's variables give rank and world size") {
  struct Row {
    Variables variables;
    const char* source;
    int rank, world, local_rank, local_world;
  };
  const Row rows[] = {
      {{}, "", 0, 1, -1, -1},
      {{{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}}, "torchrun", 3, 8, 1, 2},
      {{{"RANK", "3"}, {"WORLD_SIZE", "8"}}, "torchrun", 3, 8, -1, -1},
      {{{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}},
       "Open MPI",
       1,
       4,
       1,
       4},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "PMI", 0, 2, -1, -1},
      {{{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}, {"SLURM_LOCALID", "2"}, {"SLURM_STEP_ID", "0"}},
       "Slurm",
       5,
       6,
       2,
       -1},
      {{{"SLURM_NTASKS", "6"}}, "", 0, 1, -1, -1},  // an allocation
      {{{"SLURM_NTASKS", "6"}, {"SLURM_STEP_ID", "0"}}, "", 0, 1, -1, -1},
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "6"}}, "", 0, 1, -1, -1},  // a batch script
      // Two consistent launchers, each with a part of the variables.
      {{{"PMI_RANK", "1"},
        {"PMI_SIZE", "2"},
        {"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_STEP_ID", "0"}},
       "PMI",
       1,
       2,
       1,
       -1},
      // srun starts one torchrun per node.
      {{{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_STEP_ID", "0"}},
       "torchrun",
       5,
       8,
       1,
       4},
  };
  for (const Row& row : rows) {
    const Found found = find(row.variables);
    CHECK_MESSAGE(found.fine, found.fault);
    CHECK(found.identity.source == row.source);
    CHECK(found.identity.rank == row.rank);
    CHECK(found.identity.world == row.world);
    CHECK(found.identity.local_rank == row.local_rank);
    CHECK(found.identity.local_world == row.local_world);
  }
}

TEST_CASE("incomplete, malformed or conflicting variables are named") {
  struct Row {
    Variables variables;
    const char* expected;
  };
  const Row rows[] = {
      {{{"RANK", "3"}}, "RANK is set, but WORLD_SIZE is not"},
      {{{"WORLD_SIZE", "3"}}, "WORLD_SIZE is set, but RANK is not"},
      {{{"OMPI_COMM_WORLD_SIZE", "3"}}, "OMPI_COMM_WORLD_RANK is not"},
      {{{"SLURM_PROCID", "3"}, {"SLURM_STEP_ID", "0"}}, "SLURM_PROCID is set, but SLURM_NTASKS is not"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "RANK is \"-1\""},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "RANK=0 is not below WORLD_SIZE=0"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2 is not below WORLD_SIZE=2"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "99999999999999999999"}}, "WORLD_SIZE is \"99999999999999999999\""},
      {{{"RANK", "0"}, {"WORLD_SIZE", "4294967296"}}, "WORLD_SIZE is \"4294967296\""},
      {{{"RANK", ""}, {"WORLD_SIZE", "2"}}, "RANK is \"\""},
      {{{"RANK", "1\x1b[2J"}, {"WORLD_SIZE", "2"}}, "RANK is \"1\\x1b[2J\""},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "4"}, {"LOCAL_WORLD_SIZE", "2"}},
       "LOCAL_RANK=4 is not below LOCAL_WORLD_SIZE=2"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
       "torchrun and Open MPI disagree: RANK=0, OMPI_COMM_WORLD_RANK=1"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
       "WORLD_SIZE=2, OMPI_COMM_WORLD_SIZE=4"},
      {{{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_STEP_ID", "0"}},
       "WORLD_SIZE=8, SLURM_NTASKS=2"},
      {{{"MASTER_PORT", "0"}}, "MASTER_PORT is 0"},
      {{{"MASTER_PORT", "65536"}}, "MASTER_PORT is \"65536\""},
      {{{"MASTER_ADDR", ""}}, "MASTER_ADDR is not a host name"},
  };
  for (const Row& row : rows) {
    const Found found = find(row.variables);
    CHECK(!found.fine);
    CHECK_MESSAGE(contains(found.fault, row.expected), found.fault);
  }
}

TEST_CASE("rank 0 listens at MASTER_ADDR next to torchrun's agent") {
  struct Row {
    Variables variables;
    const char* address;
    int port;
    bool chosen;
  };
  const Row rows[] = {
      {{}, "127.0.0.1", 29500, false},
      {{{"MASTER_ADDR", "fe80::1"}, {"MASTER_PORT", "1234"}}, "fe80::1", 1234, true},
      {{{"MASTER_PORT", "1234"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}, "127.0.0.1", 1235, true},
      {{{"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}, "127.0.0.1", 65534, true},
      {{{"MASTER_PORT", "1234"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}}, "127.0.0.1", 1234, true},
      {{{"MASTER_PORT", "1234"}, {"TPPLAN_EXEC_PORT", "77"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
       "127.0.0.1",
       77,
       true},
  };
  for (const Row& row : rows) {
    const Found found = find(row.variables);
    CHECK_MESSAGE(found.fine, found.fault);
    CHECK(found.identity.address == row.address);
    CHECK(found.identity.port == row.port);
    CHECK(found.identity.has_address == row.chosen);
  }
}

TEST_CASE("without MASTER_ADDR the ranks of srun use the first node") {
  const auto address = [](const char* nodes, Variables more = {}) {
    more.insert({{"SLURM_PROCID", "9"}, {"SLURM_NTASKS", "16"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", nodes}});
    const Found found = find(more);
    CHECK(found.fine);
    return found.identity.address;
  };
  CHECK(address("gpu-[003-007,9],login") == "gpu-003");
  CHECK(address("gpu[12,14]") == "gpu12");
  CHECK(address("a1,b[2-3]") == "a1");
  CHECK(address("r[1-2]n[01-04],r3n01") == "r1n01");
  CHECK(address("one") == "127.0.0.1");  // all ranks on one node
  CHECK(address("broken[") == "127.0.0.1");
  CHECK(address("a1,a2", {{"SLURM_STEP_NODELIST", "a2,a3"}}) == "a2");
  CHECK(address("a1,a2", {{"MASTER_ADDR", "head"}}) == "head");
  CHECK(address("a1,a2", {{"MASTER_PORT", "1234"}}) == "a1");
}

TEST_CASE("the job's secret precedes that of mpirun and is not printed") {
  const Variables mpirun = {{"OMPI_MCA_orte_precondition_transports", "0596a2e6d0bd6d09-b78ed04a437f1dbf"}};
  CHECK(find({}).identity.secret.empty());
  CHECK(find(mpirun).identity.secret == "0596a2e6d0bd6d09-b78ed04a437f1dbf");
  Variables both = mpirun;
  both["TPPLAN_EXEC_SECRET"] = "chosen";
  CHECK(find(both).identity.secret == "chosen");
  both["TPPLAN_EXEC_SECRET"] = "";
  CHECK(contains(find(both).fault, "TPPLAN_EXEC_SECRET is empty: set it to the same random text on every rank"));
  const std::string shown = describe_rank_variables(
      [](const char* name) { return std::string_view(name) == "TPPLAN_EXEC_SECRET" ? "chosen" : nullptr; });
  CHECK(shown == "TPPLAN_EXEC_SECRET=(hidden)");
}
