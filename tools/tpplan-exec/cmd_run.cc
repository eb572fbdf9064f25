// Runs the manifest's redistributions and products on test data, and says what was wrong and how fast it was.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "commands.h"
#include "job.h"
#include "manifest/manifest_json.h"
#include "run/bandwidth.h"
#include "run/run_products.h"
#include "run/run_schedule.h"
#include "terminal.h"

namespace tpplan {
namespace {

// What all ranks saw together: sums of elements, the slowest rank's time.
struct Outcome {
  std::vector<ScheduleEntry> schedule;
  ScheduleResult redistributions;
  std::vector<ModuleProduct> products;
  std::vector<ProductResult> results;
  std::string device;
};

// Numbers between blanks.
std::vector<double> numbers_of(std::string_view text) {
  std::vector<double> numbers;
  for (const std::string_view word : split(text, ' ')) {
    double value = 0;
    if (std::from_chars(word.data(), word.data() + word.size(), value).ec == std::errc{}) numbers.push_back(value);
  }
  return numbers;
}

// Applies `visit` to every number of the results, in one order, with what to do across ranks: add up or take the
// largest.
template <typename Visit>
void for_each_number(Outcome& outcome, Visit visit) {
  const auto whole = [&](uint64_t& number) {
    double value = static_cast<double>(number);
    visit(value, false);
    number = static_cast<uint64_t>(value);
  };
  for (EntryResult& entry : outcome.redistributions.entries) {
    whole(entry.elements);
    whole(entry.wrong);
  }
  for (CollectiveResult& collective : outcome.redistributions.collectives) visit(collective.seconds, true);
  for (ProductResult& product : outcome.results) {
    for (uint64_t* number : {&product.elements, &product.wrong, &product.input_elements, &product.input_wrong,
                             &product.weight_elements, &product.weight_wrong})
      whole(*number);
    visit(product.seconds, true);
  }
}

// Gathers all ranks' numbers into this rank's outcome.
bool combine(Comm& comm, Outcome& outcome) {
  std::string mine;  // this rank's numbers, as numbers_of reads them
  for_each_number(outcome, [&](double& value, bool) { fmt::format_to(std::back_inserter(mine), "{} ", value); });
  std::vector<std::string> all;
  begin_step(comm, "results of all ranks");
  if (!comm.backend->gather_texts(comm, mine, all)) return false;
  std::vector<std::vector<double>> numbers;
  for (const std::string& text : all) numbers.push_back(numbers_of(text));
  size_t at = 0;
  bool complete = true;
  for_each_number(outcome, [&](double& value, bool largest) {
    value = 0;
    for (const std::vector<double>& rank : numbers) {
      complete = complete && at < rank.size();
      if (at < rank.size()) value = largest ? std::max(value, rank[at]) : value + rank[at];
    }
    ++at;
  });
  if (!complete) fail(comm, "the ranks ran schedules of different length");
  return complete;
}

std::string axis_text(const Mesh& mesh, const Collective& c) {
  std::string text = fmt::format("{} over {}", to_text(c.kind), escape_for_terminal(mesh.axes[c.axis].name));
  if (c.kind == CollectiveKind::AllToAll) return text + fmt::format(", dim {} to {}", c.from_dim, c.dim);
  return c.kind == CollectiveKind::AllReduce ? text : text + fmt::format(", dim {}", c.dim);
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string wrong_text(uint64_t wrong, uint64_t elements) {
  return wrong == 0 ? "right" : fmt::format("{} of {} WRONG", wrong, elements);
}

std::string shape_text(const ScheduleEntry& entry) {
  return fmt::format("{}[{}]", dtypes()[entry.dtype].name, fmt::join(entry.shape, ", "));
}

std::string redistributions_text(const Manifest& manifest, const Outcome& outcome) {
  if (outcome.schedule.empty()) return "No redistributions: nothing in this manifest communicates.\n";
  std::string out = fmt::format("{:<37}{:>6}{:>10}{:>11}{:>8}{:>8}\n", "redistributions (bandwidths in GB/s)", "ranks",
                                "bytes", "time", "algbw", "busbw");
  size_t next = 0;
  for (uint32_t id = 0; id < outcome.schedule.size(); ++id) {
    const ScheduleEntry& entry = outcome.schedule[id];
    const EntryResult& result = outcome.redistributions.entries[id];
    const std::string verdict =
        result.not_run.empty() ? wrong_text(result.wrong, result.elements) : "not run: " + result.not_run;
    out += fmt::format("{} {}\n  {} x {}, {}\n", to_text(entry.part), escape_for_terminal(entry.pattern), entry.count,
                       shape_text(entry), verdict);
    for (; next < outcome.redistributions.collectives.size() && outcome.redistributions.collectives[next].entry == id;
         ++next) {
      const CollectiveResult& c = outcome.redistributions.collectives[next];
      const Bandwidth bandwidth = bandwidth_of(c.collective.kind, c.bytes, c.seconds, static_cast<int>(c.ranks));
      out += fmt::format("  {:<35}{:>6}{:>10}{:>11}{:>8.2f}{:>8.2f}\n", axis_text(manifest.mesh, c.collective), c.ranks,
                         human_bytes(c.bytes), time_text(c.seconds), bandwidth.algorithm / 1e9, bandwidth.bus / 1e9);
    }
  }
  return out;
}

std::string products_text(const Manifest& manifest, const Outcome& outcome) {
  std::string out;
  for (size_t i = 0; i < outcome.products.size(); ++i) {
    const ModuleProduct& product = outcome.products[i];
    const ProductResult& result = outcome.results[i];
    const ParamLayout& layout = layout_of(manifest, *product.weight.param);
    out +=
        fmt::format("{}product {}\n  {} x {} [{}], ", out.empty() ? "\n" : "", escape_for_terminal(product.pattern),
                    product.count, product.weight.is_embedding ? "embedding" : "linear", fmt::join(layout.shape, ", "));
    if (result.fault != ProductFault::None) {
      out += fmt::format("{}: {}\n", is_wrong(result.fault) ? "WRONG" : "not run", result.reason);
      continue;
    }
    out += fmt::format("{}\n  y {}", time_text(result.seconds), wrong_text(result.wrong, result.elements));
    if (!product.weight.is_embedding)
      out += fmt::format("; dx {}", wrong_text(result.input_wrong, result.input_elements));
    out += fmt::format("; dw {}\n", wrong_text(result.weight_wrong, result.weight_elements));
  }
  return out;
}

bool is_wrong(const ProductResult& r) { return is_wrong(r.fault) || r.wrong + r.input_wrong + r.weight_wrong != 0; }

uint64_t count_wrong_steps(const Outcome& outcome) {
  const auto entries =
      std::ranges::count_if(outcome.redistributions.entries, [](const EntryResult& entry) { return entry.wrong != 0; });
  return static_cast<uint64_t>(entries + std::ranges::count_if(outcome.results, is_wrong));
}

std::string summary_text(const Outcome& outcome) {
  const uint64_t wrong = count_wrong_steps(outcome), steps = outcome.schedule.size() + outcome.results.size();
  std::string out = wrong == 0
                        ? fmt::format("\nall {} redistributions and products equal the unsharded result\n", steps)
                        : fmt::format("\n{} of {} redistributions and products are WRONG\n", wrong, steps);
  const auto not_run =
      std::ranges::count_if(
          outcome.results, [](const ProductResult& r) { return r.fault != ProductFault::None && !is_wrong(r.fault); }) +
      std::ranges::count_if(outcome.redistributions.entries, [](const EntryResult& e) { return !e.not_run.empty(); });
  if (not_run != 0) out += fmt::format("{} not run\n", counted(static_cast<uint64_t>(not_run), "step"));
  return out;
}

std::string json_of(const Manifest& manifest, const Outcome& outcome, const JobArguments& job) {
  std::string out = fmt::format("{{\"backend\": \"{}\", \"device\": \"{}\", \"ranks\": {}, \"redistributions\": [",
                                job.backend, outcome.device, device_count(manifest.mesh));
  size_t next = 0;
  for (uint32_t id = 0; id < outcome.schedule.size(); ++id) {
    const ScheduleEntry& entry = outcome.schedule[id];
    const EntryResult& result = outcome.redistributions.entries[id];
    out += fmt::format(
        "{}\n {{\"part\": \"{}\", \"path\": {}, \"pattern\": {}, \"count\": {}, \"shape\": [{}], \"dtype\": \"{}\", "
        "\"not_run\": {}, \"elements\": {}, \"wrong\": {}, \"collectives\": [",
        id == 0 ? "" : ",", to_text(entry.part), json_text(entry.path), json_text(entry.pattern), entry.count,
        fmt::join(entry.shape, ", "), dtypes()[entry.dtype].name,
        result.not_run.empty() ? "null" : json_text(result.not_run), result.elements, result.wrong);
    for (bool first = true;
         next < outcome.redistributions.collectives.size() && outcome.redistributions.collectives[next].entry == id;
         ++next, first = false) {
      const CollectiveResult& c = outcome.redistributions.collectives[next];
      const Bandwidth bandwidth = bandwidth_of(c.collective.kind, c.bytes, c.seconds, static_cast<int>(c.ranks));
      out += fmt::format(
          "{}{{\"kind\": \"{}\", \"axis\": {}, \"ranks\": {}, \"bytes\": {}, \"seconds\": {:.9f}, \"algbw\": {:.0f}, "
          "\"busbw\": {:.0f}}}",
          first ? "" : ", ", to_text(c.collective.kind), json_text(manifest.mesh.axes[c.collective.axis].name), c.ranks,
          c.bytes, c.seconds, bandwidth.algorithm, bandwidth.bus);
    }
    out += "]}";
  }
  out += "],\n\"products\": [";
  for (size_t i = 0; i < outcome.products.size(); ++i) {
    const ModuleProduct& product = outcome.products[i];
    const ProductResult& r = outcome.results[i];
    out += fmt::format(
        "{}\n {{\"path\": {}, \"pattern\": {}, \"count\": {}, \"kind\": \"{}\", \"shape\": [{}], \"not_run\": {}, "
        "\"fault\": {}, \"seconds\": {:.9f}, "
        "\"y\": {{\"elements\": {}, \"wrong\": {}}}, \"dx\": {{\"elements\": {}, \"wrong\": {}}}, \"dw\": "
        "{{\"elements\": {}, \"wrong\": {}}}}}",
        i == 0 ? "" : ",", json_text(product.path), json_text(product.pattern), product.count,
        product.weight.is_embedding ? "embedding" : "linear",
        fmt::join(layout_of(manifest, *product.weight.param).shape, ", "),
        r.reason.empty() || is_wrong(r.fault) ? "null" : json_text(r.reason),
        is_wrong(r.fault) ? json_text(r.reason) : "null", r.seconds, r.elements, r.wrong, r.input_elements,
        r.input_wrong, r.weight_elements, r.weight_wrong);
  }
  return out + fmt::format("],\n\"wrong_steps\": {}}}\n", count_wrong_steps(outcome));
}

bool run_all(Comm& comm, const Manifest& manifest, const RunArguments& arguments, Outcome& outcome) {
  outcome.device = comm.device->name;
  if (!run_schedule(comm, manifest.mesh, outcome.schedule, {arguments.iterations, arguments.warmup},
                    outcome.redistributions))
    return false;
  outcome.results.resize(outcome.products.size());
  for (size_t i = 0; i < outcome.products.size(); ++i) {
    if (!run_product(comm, manifest, outcome.products[i], arguments.tokens, outcome.results[i])) return false;
  }
  return combine(comm, outcome);
}

}  // namespace

int cmd_run(const RunArguments& arguments, const JobArguments& job) {
  ManifestInput input;
  if (const int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256); status != 0)
    return status;
  const Manifest& manifest = input.manifest;
  Outcome plan{.schedule = build_schedule(manifest, {.tokens = arguments.tokens}), .products = list_products(manifest)};
  const std::string command = fmt::format("run --iterations {} --warmup {} --tokens {}", arguments.iterations,
                                          arguments.warmup, arguments.tokens);
  return run_job(input, job, command, [&](Comm& comm) {
    Outcome outcome = plan;
    if (!run_all(comm, manifest, arguments, outcome)) return 1;
    if (comm.rank != 0) return count_wrong_steps(outcome) == 0 ? 0 : 1;
    const std::string head = fmt::format("{} on {}: {} ranks, {} on {}\n\n", escape_for_terminal(manifest.model_name),
                                         to_text(manifest.mesh), comm.world, comm.backend->name, comm.device->name);
    const std::string text =
        job.json
            ? json_of(manifest, outcome, job)
            : (job.quiet ? "" : head + redistributions_text(manifest, outcome) + products_text(manifest, outcome)) +
                  summary_text(outcome);
    if (!print(STDOUT_FILENO, text)) return 2;
    return count_wrong_steps(outcome) == 0 ? 0 : 1;
  });
}

}  // namespace tpplan
