#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "sharding/distribution.h"
#include "topology/read_timings.h"

namespace tpplan {
namespace {

// The indices of columns by the heads of the table. Times, algbw, busbw and #wrong occur twice: first out of place.
struct NcclColumns {
  size_t redop = SIZE_MAX, root = SIZE_MAX, time = SIZE_MAX, algbw = SIZE_MAX, busbw = SIZE_MAX, wrong = SIZE_MAX;
};

struct TableReader {
  const SourceFile& file;
  Diagnostics& diagnostics;
  NcclColumns columns;
  bool has_heads = false;
  Timings timings;
  AxisTimings table;
  std::vector<double> factors;  // busbw over algbw, by call
  bool sums = false;            // it has a redop
  Span last_row;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words = split(line, ' ');
  std::erase_if(words, [](std::string_view word) { return word.empty(); });
  return words;
}

// Reports an error of the table; lines with the same help are one diagnostic.
void reject_table(TableReader& r, Span span, std::string message, std::string help) {
  Diagnostic* d = report(r.diagnostics, Code::InvalidTimings, span, help);
  if (d == nullptr) return;
  d->message = std::move(message);
  d->help = std::move(help);
}

Span span_in(const TableReader& r, std::string_view part) {
  return {r.file.id, static_cast<uint64_t>(part.data() - r.file.text.data()), static_cast<uint32_t>(part.size())};
}

void read_heads(TableReader& r, const std::vector<std::string_view>& words) {
  struct Head {
    std::string_view name;
    size_t NcclColumns::*place;
  };
  static constexpr Head kHeads[] = {{"redop", &NcclColumns::redop}, {"root", &NcclColumns::root},
                                    {"time", &NcclColumns::time},   {"algbw", &NcclColumns::algbw},
                                    {"busbw", &NcclColumns::busbw}, {"#wrong", &NcclColumns::wrong},
                                    {"error", &NcclColumns::wrong}};
  for (const Head& head : kHeads) {
    const auto found = std::find(words.begin(), words.end(), head.name);
    // The first word is the `#` of the comment.
    if (found != words.end()) r.columns.*head.place = static_cast<size_t>(found - words.begin()) - 1;
  }
  r.has_heads = r.columns.time != SIZE_MAX && r.columns.busbw != SIZE_MAX && r.columns.algbw != SIZE_MAX;
}

// "#  Rank  0 Group  0 Pid  43 on host device  0 [0x0f] NVIDIA H100 80GB HBM3"
void read_rank(TableReader& r, std::string_view line, const std::vector<std::string_view>& words) {
  ++r.table.ranks;
  r.table.span = span_in(r, line);
  const auto bracket = std::find_if(words.begin(), words.end(), [](std::string_view word) { return word[0] == '['; });
  if (bracket == words.end() || bracket + 1 == words.end()) return;
  const std::string_view device{bracket[1].data(), static_cast<size_t>(line.data() + line.size() - bracket[1].data())};
  if (r.timings.device.empty()) {
    r.timings.device = device;
    r.timings.device_span = span_in(r, device);
  } else if (r.timings.device != device) {
    report_message(r.diagnostics, Code::MixedMachines, span_in(r, device),
                   fmt::format("this rank's device is `{}`, but that of rank 0 is `{}`", device, r.timings.device),
                   "time ranks with the same device");
  }
}

// Reads a number. Returns false after reporting an error.
bool read_cell(TableReader& r, const std::vector<std::string_view>& words, size_t column, std::string_view what,
               double& value) {
  const std::string_view text = column < words.size() ? words[column] : words.back();
  if (column < words.size() && parse_number(text, value) && value >= 0 && std::isfinite(value)) return true;
  reject_table(r, span_in(r, text), fmt::format("{} of this line is not a number of at least 0", what),
               "give the full output of nccl-tests");
  return false;
}

void read_row(TableReader& r, std::string_view line, const std::vector<std::string_view>& words) {
  if (!r.has_heads) return;
  double bytes = 0, time = 0, algbw = 0, busbw = 0, wrong = 0;
  if (!read_cell(r, words, 0, "the size", bytes) || !read_cell(r, words, r.columns.time, "the time", time) ||
      !read_cell(r, words, r.columns.algbw, "algbw", algbw) || !read_cell(r, words, r.columns.busbw, "busbw", busbw))
    return;
  const Span span = span_in(r, line);
  if (time == 0)
    return reject_table(r, span, "a call takes no time", "remove the line: a time that is rounded to 0 is useless");
  if (r.columns.wrong < words.size() && parse_number(words[r.columns.wrong], wrong) && wrong > 0)
    return reject_table(r, span, fmt::format("{} elements are wrong", words[r.columns.wrong]),
                        "check this machine first: times of wrong results are not used");
  if (bytes == 0) return;
  if (r.columns.root < words.size() && words[r.columns.root] != "-1")
    return reject_table(r, span, "the table times a collective with a root, but plans have none",
                        "time all_reduce_perf, all_gather_perf, reduce_scatter_perf or alltoall_perf");
  r.sums = r.columns.redop < words.size() && words[r.columns.redop] != "none";
  r.last_row = span;
  r.table.calls.push_back({.bytes = bytes, .seconds = time * 1e-6});
  r.factors.push_back(algbw > 0 ? busbw / algbw : 0);
}

// Both bandwidths are printed with two digits, so the ratio of the largest ones is the most precise.
int passes_of(TableReader& r) {
  const auto ranks = static_cast<double>(r.table.ranks);
  const double once = (ranks - 1) / ranks;
  const double found = r.factors.back();
  constexpr double kRounding = 0.05;
  for (const int passes : {1, 2}) {
    if (std::abs(found - passes * once) <= kRounding * passes * once && (passes == 1 || r.sums)) return passes;
  }
  reject_table(
      r, r.last_row,
      fmt::format("busbw is {:.2f} times algbw, which matches no collective of a plan on {} ranks", found,
                  r.table.ranks),
      "time all_reduce_perf, all_gather_perf, reduce_scatter_perf or alltoall_perf, with calls of megabytes among "
      "them");
  return 0;
}

// Called after the last line.
void finish_table(TableReader& r) {
  const Span whole{r.file.id, 0, 1};
  if (!r.has_heads || r.table.calls.empty())
    return reject_table(r, whole, "the file has no line of an nccl-tests table",
                        "give the output of all_reduce_perf -b 1K -e 1G -f 2");
  if (r.table.ranks < 2)
    return reject_table(r, whole, r.table.ranks == 0 ? "the number of ranks is missing" : "only one rank took part",
                        "give the full output of nccl-tests: it has a line `#  Rank  0 ...` for each rank");
  const int passes = passes_of(r);
  for (TimedCall& call : r.table.calls) {
    call.passes = passes;
    call.ranks = r.table.ranks;
  }
  if (passes != 0) r.timings.axes.push_back(std::move(r.table));
}

}  // namespace

Timings read_nccl_tests(const SourceFile& file, Diagnostics& diagnostics) {
  Diagnostics own;
  TableReader r{.file = file, .diagnostics = own};
  for (std::string_view line : split(file.text, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    constexpr std::string_view kFromMpi = "<stdout>:";
    if (const size_t at = line.find(kFromMpi); at != std::string_view::npos) line.remove_prefix(at + kFromMpi.size());
    while (line.ends_with(' ')) line.remove_suffix(1);
    const std::vector<std::string_view> words = words_of(line);
    if (words.empty()) continue;
    if (words[0] == "#" && words.size() > 2 && words[1] == "Rank")
      read_rank(r, line, words);
    else if (words[0] == "#" && words.size() > 2 && words[1] == "size")
      read_heads(r, words);
    else if (words.size() > 3 && is_digits(words[0]))
      read_row(r, line, words);
  }
  if (!has_errors(own)) finish_table(r);
  diagnostics.list.insert(diagnostics.list.end(), own.list.begin(), own.list.end());
  return std::move(r.timings);
}

}  // namespace tpplan
