#include "ranks/rank_source.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "diagnostics/fault.h"

namespace tpplan {
namespace {

// How one launcher calls its variables; empty: it has none for that.
struct SourceRow {
  std::string_view name;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
  const char* only_with;     // without this variable the others are somebody else's
  bool may_start_launchers;  // one a node, each of which starts ranks of its own
};

constexpr SourceRow kSources[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "", false},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "", false},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "", false},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", "SLURM_STEP_ID", true},
};

// What launchers call a job, the same on all of its ranks.
constexpr const char* kJobVariables[] = {"TPPLAN_JOB_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"};
constexpr const char* kNodeVariables[] = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"};
constexpr const char* kAddressVariables[] = {"MASTER_ADDR", "MASTER_PORT", "TPPLAN_EXEC_PORT"};

struct Found {
  const SourceRow* row = nullptr;
  RankIdentity identity;
};

constexpr int64_t kMostRanks = int64_t{1} << 31;

Fault unusable(std::string message, std::string help) {
  return {.code = Code::TP8004, .message = std::move(message), .help = std::move(help)};
}

bool is_set(const Environment& environment, const char* name) { return *name != '\0' && environment(name) != nullptr; }

// Reads a variable that holds a number below `limit`; `value` untouched where it is not set.
void read_number(const Environment& environment, const char* name, int64_t limit, int& value) {
  if (!is_set(environment, name)) return;
  const std::string text = environment(name);
  int64_t number = 0;
  if (!parse_decimal(text, number) || number >= limit)
    throw unusable(
        fmt::format("{} is \"{}\", which is no number below {}", name, escape_for_terminal(text.substr(0, 80)), limit),
        "start the ranks with torchrun, mpirun or srun, or unset it");
  value = static_cast<int>(number);
}

void check_below(const char* name, int value, const char* limit_name, int limit) {
  if (value < limit) return;
  throw unusable(fmt::format("{}={} is not below {}={}", name, value, limit_name, limit), "ranks count from 0");
}

RankIdentity read_source(const Environment& environment, const SourceRow& row) {
  const bool has_rank = is_set(environment, row.rank), has_world = is_set(environment, row.world);
  if (!has_rank || !has_world)
    throw unusable(fmt::format("{} is set and {} is not: {} sets both", has_rank ? row.rank : row.world,
                               has_rank ? row.world : row.rank, row.name),
                   "set the other too, or unset it");
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

// True when `outer` started one launcher a node, which then started `inner`.
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
                   "unset the ones that do not belong to this job");
  };
  compare(first.row->world, first.identity.world, other.row->world, other.identity.world);
  compare(first.row->rank, first.identity.rank, other.row->rank, other.identity.rank);
  compare(first.row->local_rank, first.identity.local_rank, other.row->local_rank, other.identity.local_rank);
}

// "gpu-[003-007,9],login" begins with gpu-003; empty where that cannot be said.
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

// Where srun runs rank 0, when nobody says where it listens. On one node it is found without a name.
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
      throw unusable("MASTER_ADDR is no host name or address", "set it to the host of rank 0");
  }
  const bool chosen = is_set(environment, "TPPLAN_EXEC_PORT");
  const char* name = chosen ? "TPPLAN_EXEC_PORT" : "MASTER_PORT";
  identity.has_address = identity.has_address || is_set(environment, name);
  read_number(environment, name, 65536, identity.port);
  if (identity.port == 0)
    throw unusable(fmt::format("{} is 0, and all ranks have to know the port before rank 0 listens", name),
                   "choose one from 1024 to 65535");
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
  for (const Found& found : all) {  // what the first does not say, another that is about the same ranks may
    if (found.identity.world != identity.world) continue;
    if (identity.local_rank < 0) identity.local_rank = found.identity.local_rank;
    if (identity.local_world < 0) identity.local_world = found.identity.local_world;
  }
  read_address(environment, identity);
  read_nodes(environment, identity);
  for (const char* name : kJobVariables) {
    if (identity.job.empty() && is_set(environment, name)) identity.job = std::string(environment(name)).substr(0, 255);
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
  return join(parts, " ");
}

}  // namespace tpplan
