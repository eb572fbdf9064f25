#include "exec/ranks/node_ranks.h"

#include <pthread.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "base/text.h"
#include "diagnostics/fault.h"
#include "exec/ranks/rank_source.h"
#include "exec/ranks/roster.h"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kThreadNameBytes = 16;  // including the terminating zero (PR_SET_NAME)
constexpr size_t kMostDescribed = 8;     // ranks that a message lists individually

// Environment variables that are equal on all ranks of a job and differ between jobs.
constexpr const char* kJobMarks[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID",   "SLURM_JOB_ID",
                                     "SLURM_STEP_ID",  "TORCHELASTIC_RUN_ID",     "MASTER_ADDR", "MASTER_PORT",
                                     "TPPLAN_JOB_ID"};

constexpr auto kMoment = std::chrono::milliseconds(300);

using Variables = std::map<std::string, std::string>;

// Returns the contents of a file in /proc; empty if it is unreadable.
std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Variables variables_of(const std::string& environ) {
  Variables found;
  for (const std::string_view entry : split(environ, '\0')) {
    const size_t equal = entry.find('=');
    if (equal != std::string_view::npos) found.emplace(entry.substr(0, equal), entry.substr(equal + 1));
  }
  return found;
}

bool is_of_this_job(const Variables& theirs) {
  bool is_named = false;
  for (const char* name : kJobMarks) {
    const char* mine = std::getenv(name);
    if (mine == nullptr) continue;
    const auto there = theirs.find(name);
    if (there == theirs.end() || there->second != mine) return false;
    is_named = true;
  }
  return is_named;
}

// Reads the rank of a process. Returns false if it is not a rank of this job.
bool read_process(const fs::path& folder, const std::string& stage, NodeRank& found) {
  const Variables variables = variables_of(text_of(folder / "environ"));
  if (!is_of_this_job(variables)) return false;
  try {
    const RankIdentity identity = find_rank([&](const char* name) {
      const auto value = variables.find(name);
      return value == variables.end() ? nullptr : value->second.c_str();
    });
    if (identity.source.empty()) return false;
    found.rank = identity.rank;
  } catch (const Fault&) {  // malformed launcher variables
    return false;
  }
  std::string name = text_of(folder / "comm");
  if (name.ends_with('\n')) name.pop_back();
  found.is_inside = name == stage;
  std::error_code error;
  found.program = fs::read_symlink(folder / "exe", error).filename().string();
  if (error) found.program = name;
  found.place = text_of(folder / "wchan");
  if (found.place == "0") found.place.clear();
  return true;
}

// Returns the CPU time of a process from /proc/PID/stat; empty if the process has ended.
std::string used_time(int process) {
  const std::string stat = text_of(fs::path("/proc") / std::to_string(process) / "stat");
  const std::vector<std::string_view> words = split(std::string_view(stat).substr(stat.rfind(')') + 1), ' ');
  return words.size() > 13 ? fmt::format("{} {}", words[12], words[13]) : "";  // utime and stime, fields 14 and 15
}

std::string waits_in(const NodeRank& rank) {
  return rank.place.empty() || !rank.is_still
             ? "runs"
             : fmt::format("waits in kernel function {}", escape_for_terminal(rank.place));
}

std::string list_outside(const std::vector<NodeRank>& ranks) {
  std::string text;
  size_t shown = 0, count = 0;
  for (const NodeRank& rank : ranks) {
    if (rank.is_inside || ++count > kMostDescribed) continue;
    text += fmt::format("{}rank {} (process {}, `{}`, {})", shown++ == 0 ? "" : ", ", rank.rank, rank.process,
                        escape_for_terminal(rank.program), waits_in(rank));
  }
  return count > kMostDescribed ? fmt::format("{} and {} more", text, count - kMostDescribed) : text;
}

// Describes the ranks that wait in another kernel function than the majority; empty if there is no majority or no
// exception. Ranks that wait for a missing rank all wait in the same function, or all spin, as in most libraries.
std::string list_odd(const std::vector<NodeRank>& ranks) {
  const auto way_of = [&](const NodeRank& rank) { return rank.is_still ? std::string_view(rank.place) : "running"; };
  std::map<std::string_view, size_t> ways;
  for (const NodeRank& rank : ranks) ++ways[way_of(rank)];
  const auto most = std::ranges::max_element(ways, {}, &std::pair<const std::string_view, size_t>::second);
  if (most->second <= ranks.size() / 2 || most->second == ranks.size()) return "";
  std::string text;
  for (const NodeRank& rank : ranks) {
    if (way_of(rank) != most->first)
      text +=
          fmt::format("{}rank {} (process {}) {}", text.empty() ? "; " : ", ", rank.rank, rank.process, waits_in(rank));
  }
  return text + fmt::format(", the others {}",
                            most->first == "running" ? "run" : fmt::format("wait in kernel function {}", most->first));
}

}  // namespace

std::string name_thread(const std::string& name) {
  std::array<char, kThreadNameBytes> before{};
  pthread_getname_np(pthread_self(), before.data(), before.size());
  pthread_setname_np(pthread_self(), name.substr(0, kThreadNameBytes - 1).c_str());
  return before.data();
}

// Several processes may have the variables of a rank: the rank and its child processes. Prefers the one in the stage,
// then the one with the highest process id.
std::vector<NodeRank> find_node_ranks(const std::string& stage) {
  std::map<int, NodeRank> by_rank;
  std::error_code error;
  for (auto entry = fs::directory_iterator("/proc", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    int64_t process = 0;
    NodeRank found;
    if (!parse_decimal(entry->path().filename().string(), process)) continue;
    found.process = static_cast<int>(process);
    if (!read_process(entry->path(), stage, found)) continue;
    NodeRank& known = by_rank.try_emplace(found.rank, found).first->second;
    const bool is_better = std::pair(found.is_inside, found.process) > std::pair(known.is_inside, known.process);
    if (is_better) known = found;
  }
  std::vector<NodeRank> ranks;
  std::vector<std::string> used;
  for (auto& [rank, found] : by_rank) {
    used.push_back(used_time(found.process));
    ranks.push_back(std::move(found));
  }
  std::this_thread::sleep_for(kMoment);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i].is_still = used[i] == used_time(ranks[i].process);
  return ranks;
}

std::string describe(const std::vector<NodeRank>& ranks, const std::string& stage, int world) {
  if (ranks.empty()) return "no other rank is visible on this node";
  std::vector<int> inside;
  for (const NodeRank& rank : ranks) {
    if (rank.is_inside) inside.push_back(rank.rank);
  }
  const std::string outside = list_outside(ranks);
  std::string text = inside.empty()
                         ? fmt::format("no rank on this node is in {}", stage)
                         : fmt::format("in {} {} {}", stage, inside.size() == 1 ? "is" : "are", list_ranks(inside));
  text += outside.empty() ? list_odd(ranks) : fmt::format("; not in it: {}", outside);
  const auto elsewhere = static_cast<size_t>(world) - std::min(static_cast<size_t>(world), ranks.size());
  if (elsewhere != 0)
    text += fmt::format("; {} of this job {} no process on this node", counted(elsewhere, "other rank"),
                        elsewhere == 1 ? "has" : "have");
  return text;
}

}  // namespace tpplan
