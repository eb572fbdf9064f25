#include "exec/ranks/rank_source.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "diagnostics/fault.h"

namespace tpplan {
namespace {

// Names of a launcher's environment variables; empty if it has no such variable.
struct SourceRow {
  std::string_view name;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
  const char* only_with;     // ignore the other variables if this one is unset
  bool may_start_launchers;  // starts one launcher per node, each of which starts the ranks
};

constexpr SourceRow kSources[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "", false},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "", false},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", false},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", "SLURM_STEP_ID", true},
};

// Names of the job, equal on all of its ranks.
constexpr const char* kJobVariables[] = {"TPPLAN_JOB_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"};
// Secrets of the ranks of a job: other users cannot read the environment of these processes.
constexpr const char* kSecretVariables[] = {"TPPLAN_EXEC_SECRET", "OMPI_MCA_orte_precondition_transports"};
constexpr const char* kNodeVariables[] = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"};
constexpr const char* kAddressVariables[] = {"MASTER_ADDR", "MASTER_PORT", "TPPLAN_EXEC_PORT"};

struct Found {
  const SourceRow* row = nullptr;
  RankIdentity identity;
};

constexpr int64_t kMostRanks = int64_t{1} << 31;

Fault unusable(std::string message, std::string help) {
  return {.code = Code::InvalidLauncherEnvironment, .message = std::move(message), .help = std::move(help)};
}

bool is_set(const Environment& environment, const char* name) { return *name != '\0' && environment(name) != nullptr; }

// Reads a variable with a number below `limit`. Does not change `value` if the variable is unset. Throws TP8004 if it
// is malformed.
void read_number(const Environment& environment, const char* name, int64_t limit, int& value) {
  if (!is_set(environment, name)) return;
  const std::string text = environment(name);
  int64_t number = 0;
  if (!parse_decimal(text, number) || number >= limit)
    throw unusable(fmt::format("{} is \"{}\", which is not a number below {}", name,
                               escape_for_terminal(text.substr(0, 80)), limit),
                   "start the ranks with torchrun, mpirun or srun, or unset the variable");
  value = static_cast<int>(number);
}

void check_below(const char* name, int value, const char* limit_name, int limit) {
  if (value < limit) return;
  throw unusable(fmt::format("{}={} is not below {}={}", name, value, limit_name, limit), "number the ranks from 0");
}

RankIdentity read_source(const Environment& environment, const SourceRow& row) {
  const bool has_rank = is_set(environment, row.rank), has_world = is_set(environment, row.world);
  if (!has_rank || !has_world)
    throw unusable(fmt::format("{} is set, but {} is not: {} sets both", has_rank ? row.rank : row.world,
                               has_rank ? row.world : row.rank, row.name),
                   "set both variables, or none");
  RankIdentity identity{.source = std::string(row.name)};
  read_number(environment, row.world, kMostRanks, identity.world);
  read_number(environment, row.rank, kMostRanks, identity.rank);
  read_number(environment, row.local_rank, kMostRanks, identity.local_rank);
  read_number(environment, row.local_world, kMostRanks, identity.local_world);
  check_below(row.rank, identity.rank, row.world, identity.world);
  if (identity.local_world >= 0)
    check_below(row.local_rank, identity.local_rank, row.local_world, identity.local_world);
  return identity;
}

// True if `outer` started one launcher per node, which then started `inner`.
bool started_launchers(const Found& outer, const RankIdentity& inner) {
  if (!outer.row->may_start_launchers || inner.local_world <= 0 || inner.local_rank < 0) return false;
  return int64_t{outer.identity.world} * inner.local_world == inner.world &&
         int64_t{outer.identity.rank} * inner.local_world + inner.local_rank == inner.rank;
}

void check_agreement(const Found& first, const Found& other) {
  if (started_launchers(other, first.identity)) return;
  const auto compare = [&](const char* a, int left, const char* b, int right) {
    if (left == right || left < 0 || right < 0) return;
    throw unusable(fmt::format("{} and {} disagree: {}={}, {}={}", first.row->name, other.row->name, a, left, b, right),
                   "unset the variables that do not belong to this job");
  };
  compare(first.row->world, first.identity.world, other.row->world, other.identity.world);
  compare(first.row->rank, first.identity.rank, other.row->rank, other.identity.rank);
  compare(first.row->local_rank, first.identity.local_rank, other.row->local_rank, other.identity.local_rank);
}

// Returns the first node of a Slurm node list: gpu-003 for "gpu-[003-007,9],login". Empty if the list is malformed.
std::string first_node(std::string_view list) {
  std::string node;
  while (!list.empty() && list[0] != ',') {
    const size_t plain = list[0] == '[' ? 0 : std::min(list.find_first_of("[,"), list.size());
    node += list.substr(0, plain);
    list.remove_prefix(plain);
    if (plain != 0) continue;
    const size_t close = list.find(']');
    if (close == std::string_view::npos) return "";
    node += list.substr(1, list.find_first_of("-,]") - 1);
    list.remove_prefix(close + 1);
  }
  return node;
}

// Sets the address to the first node of the srun step, on which rank 0 runs, if MASTER_ADDR is unset. A job on one node
// does not need it.
void read_nodes(const Environment& environment, RankIdentity& identity) {
  if (is_set(environment, "MASTER_ADDR") || !is_set(environment, "SLURM_STEP_ID")) return;
  for (const char* name : kNodeVariables) {
    if (!is_set(environment, name)) continue;
    const std::string nodes = environment(name);
    if (const std::string first = first_node(nodes); first != nodes && !first.empty() && first.size() <= 255)
      identity.address = first;
    return;
  }
}

void read_address(const Environment& environment, RankIdentity& identity) {
  if (is_set(environment, "MASTER_ADDR")) {
    identity.address = environment("MASTER_ADDR");
    identity.has_address = true;
    if (identity.address.empty() || identity.address.size() > 255)
      throw unusable("MASTER_ADDR is not a host name or address", "set it to the host of rank 0");
  }
  const bool chosen = is_set(environment, "TPPLAN_EXEC_PORT");
  const char* name = chosen ? "TPPLAN_EXEC_PORT" : "MASTER_PORT";
  identity.has_address = identity.has_address || is_set(environment, name);
  read_number(environment, name, 65536, identity.port);
  if (identity.port == 0)
    throw unusable(fmt::format("{} is 0, but all ranks must know the port before rank 0 listens", name),
                   "choose a port from 1024 to 65535");
  const char* agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  if (!chosen && agent != nullptr && std::string_view(agent) == "True") identity.port += identity.port < 65535 ? 1 : -1;
}

}  // namespace

RankIdentity find_rank(const Environment& environment) {
  std::vector<Found> all;
  for (const SourceRow& row : kSources) {
    if (*row.only_with != '\0' && (!is_set(environment, row.only_with) || !is_set(environment, row.rank))) continue;
    if (!is_set(environment, row.rank) && !is_set(environment, row.world)) continue;
    all.push_back({.row = &row, .identity = read_source(environment, row)});
    check_agreement(all.front(), all.back());
  }
  RankIdentity identity = all.empty() ? RankIdentity{} : all.front().identity;
  // Another source with the same world size may have the fields that are missing in the first.
  for (const Found& found : all) {
    if (found.identity.world != identity.world) continue;
    if (identity.local_rank < 0) identity.local_rank = found.identity.local_rank;
    if (identity.local_world < 0) identity.local_world = found.identity.local_world;
  }
  read_address(environment, identity);
  read_nodes(environment, identity);
  for (const char* name : kJobVariables) {
    if (identity.job.empty() && is_set(environment, name)) identity.job = std::string(environment(name)).substr(0, 255);
  }
  for (const char* name : kSecretVariables) {
    if (!identity.secret.empty() || !is_set(environment, name)) continue;
    identity.secret = environment(name);
    if (identity.secret.empty())
      throw unusable(fmt::format("{} is empty", name), "set it to the same random text on every rank, or unset it");
  }
  return identity;
}

std::string describe_rank_variables(const Environment& environment) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name) {
    if (is_set(environment, name))
      parts.push_back(fmt::format("{}={}", name, escape_for_terminal(std::string(environment(name)).substr(0, 80))));
  };
  for (const SourceRow& row : kSources) {
    for (const char* name : {row.rank, row.world, row.local_rank, row.local_world, row.only_with}) add(name);
  }
  for (const char* name : kAddressVariables) add(name);
  for (const char* name : kNodeVariables) add(name);
  for (const char* name : kSecretVariables) {
    if (is_set(environment, name)) parts.push_back(fmt::format("{}=(hidden)", name));
  }
  return join(parts, " ");
}

}  // namespace tpplan
