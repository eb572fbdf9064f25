// Runs the manifest's redistributions and products on test data, and says what was wrong and how fast it was.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "commands.h"
#include "job.h"
#include "manifest/manifest_json.h"
#include "ranks/gather.h"
#include "run/bandwidth.h"
#include "run/print_schedule.h"
#include "run/run_products.h"
#include "run/run_schedule.h"
#include "sharding/tensor_size.h"
#include "terminal.h"

namespace tpplan {
namespace {

// What was run, and what came of it.
struct Outcome {
  std::vector<ScheduleEntry> schedule;
  ScheduleResult redistributions;
  std::vector<ModuleProduct> products;
  std::vector<ProductResult> results;
  std::string device;
};

// The numbers that ranks tell each other: of redistributions, of collectives, of products, in the schedule's order.
struct RankResults {
  std::vector<uint64_t> elements, wrong;  // of an entry; of a product's y, dx and dw
  std::vector<double> seconds;            // of a collective; of a product
};
auto members(RankResults& r) { return std::tie(r.elements, r.wrong, r.seconds); }

// Calls visit_count(elements, wrong) and visit_seconds(seconds) for every number of an outcome, in one order.
template <typename VisitCount, typename VisitSeconds>
void for_each_number(Outcome& outcome, VisitCount visit_count, VisitSeconds visit_seconds) {
  for (EntryResult& entry : outcome.redistributions.entries) visit_count(entry.elements, entry.wrong);
  for (CollectiveResult& collective : outcome.redistributions.collectives) visit_seconds(collective.seconds);
  for (ProductResult& product : outcome.results) {
    visit_count(product.elements, product.wrong);
    visit_count(product.input_elements, product.input_wrong);
    visit_count(product.weight_elements, product.weight_wrong);
    visit_seconds(product.seconds);
  }
}

RankResults results_of(Outcome& outcome) {
  RankResults results;
  for_each_number(
      outcome,
      [&](uint64_t elements, uint64_t wrong) {
        results.elements.push_back(elements);
        results.wrong.push_back(wrong);
      },
      [&](double seconds) { results.seconds.push_back(seconds); });
  return results;
}

// Sums of elements, the longest times; false where the two are not of one schedule.
bool add(RankResults& total, const RankResults& more) {
  if (total.elements.size() != more.elements.size() || total.wrong.size() != more.wrong.size() ||
      total.seconds.size() != more.seconds.size())
    return false;
  for (size_t i = 0; i < more.elements.size(); ++i) total.elements[i] += more.elements[i];
  for (size_t i = 0; i < more.wrong.size(); ++i) total.wrong[i] += more.wrong[i];
  for (size_t i = 0; i < more.seconds.size(); ++i) total.seconds[i] = std::max(total.seconds[i], more.seconds[i]);
  return true;
}

void put(const RankResults& results, Outcome& outcome) {
  size_t count = 0, time = 0;
  for_each_number(
      outcome,
      [&](uint64_t& elements, uint64_t& wrong) {
        elements = results.elements[count];
        wrong = results.wrong[count++];
      },
      [&](double& seconds) { seconds = results.seconds[time++]; });
}

// Gathers all ranks' numbers into this rank's outcome: sums of elements, the slowest rank's times.
void combine(Comm& comm, Outcome& outcome) {
  begin_step(comm, "results of all ranks");
  const std::vector<RankResults> all = gather(comm, results_of(outcome));
  RankResults total = all.front();
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (!add(total, all[rank]))
      throw Fault{.code = Code::TP8013,
                  .message = fmt::format("rank {} ran another schedule than rank 0", rank),
                  .help = "install one version everywhere; if it is one already, report it",
                  .rank = static_cast<int>(rank)};
  }
  put(total, outcome);
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string wrong_text(uint64_t wrong, uint64_t elements) {
  return wrong == 0 ? "right" : fmt::format("{} of {} WRONG", wrong, elements);
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
    out += fmt::format("{} {}\n  {} x {}{}, {}\n", to_text(entry.part), escape_for_terminal(entry.pattern), entry.count,
                       dtypes()[entry.dtype].name, shape_text(entry.shape), verdict);
    for (; next < outcome.redistributions.collectives.size() && outcome.redistributions.collectives[next].entry == id;
         ++next) {
      const CollectiveResult& c = outcome.redistributions.collectives[next];
      const Bandwidth bandwidth = bandwidth_of(c.collective.kind, c.bytes, c.seconds, static_cast<int>(c.ranks));
      out += fmt::format("  {:<35}{:>6}{:>10}{:>11}{:>8.2f}{:>8.2f}\n",
                         escape_for_terminal(to_text(c.collective, manifest.mesh)), c.ranks, human_bytes(c.bytes),
                         time_text(c.seconds), bandwidth.algorithm / 1e9, bandwidth.bus / 1e9);
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
    out += fmt::format("{}product {}\n  {} x {} {}, ", out.empty() ? "\n" : "", escape_for_terminal(product.pattern),
                       product.count, product.weight.is_embedding ? "embedding" : "linear", shape_text(layout.shape));
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
        "{}\n {{\"part\": \"{}\", \"path\": {}, \"pattern\": {}, \"count\": {}, \"shape\": {}, \"dtype\": \"{}\", "
        "\"not_run\": {}, \"elements\": {}, \"wrong\": {}, \"collectives\": [",
        id == 0 ? "" : ",", to_text(entry.part), json_text(entry.path), json_text(entry.pattern), entry.count,
        shape_text(entry.shape), dtypes()[entry.dtype].name,
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
        "{}\n {{\"path\": {}, \"pattern\": {}, \"count\": {}, \"kind\": \"{}\", \"shape\": {}, \"not_run\": {}, "
        "\"fault\": {}, \"seconds\": {:.9f}, "
        "\"y\": {{\"elements\": {}, \"wrong\": {}}}, \"dx\": {{\"elements\": {}, \"wrong\": {}}}, \"dw\": "
        "{{\"elements\": {}, \"wrong\": {}}}}}",
        i == 0 ? "" : ",", json_text(product.path), json_text(product.pattern), product.count,
        product.weight.is_embedding ? "embedding" : "linear",
        shape_text(layout_of(manifest, *product.weight.param).shape),
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
  combine(comm, outcome);
  return true;
}

// What differs from the unsharded results, as a finding.
Fault wrong_fault(const Outcome& outcome) {
  const auto entry =
      std::ranges::find_if(outcome.redistributions.entries, [](const EntryResult& e) { return e.wrong != 0; });
  const auto product = std::ranges::find_if(outcome.results, [](const ProductResult& r) { return is_wrong(r); });
  const std::string first =
      entry != outcome.redistributions.entries.end()
          ? outcome.schedule[static_cast<size_t>(entry - outcome.redistributions.entries.begin())].path
          : outcome.products[static_cast<size_t>(product - outcome.results.begin())].path;
  return {.code = Code::TP8062,
          .message = fmt::format(
              "{} of {} redistributions and products differ from the unsharded result, first of `{}`",
              count_wrong_steps(outcome), outcome.schedule.size() + outcome.results.size(), escape_for_terminal(first)),
          .help = "see WRONG in the table: the plan's layouts there do not make up the whole"};
}

}  // namespace

int cmd_run(const RunArguments& arguments, const JobArguments& job) {
  ManifestInput input;
  if (const int status = read_manifest_file(arguments.manifest, input.file, input.manifest, input.sha256); status != 0)
    return status;
  const Manifest& manifest = input.manifest;
  Outcome plan{.schedule = build_schedule(manifest, {.tokens = arguments.tokens}), .products = list_products(manifest)};
  if (arguments.print == "schedule") return print(STDOUT_FILENO, print_schedule(plan.schedule, manifest.mesh)) ? 0 : 2;
  const std::string command = fmt::format("run --iterations {} --warmup {} --tokens {}", arguments.iterations,
                                          arguments.warmup, arguments.tokens);
  return run_job(input, job, command, [&](Comm& comm) {
    Outcome outcome = plan;
    require(comm, run_all(comm, manifest, arguments, outcome));
    if (comm.rank != 0) return count_wrong_steps(outcome) == 0 ? 0 : 1;
    const std::string head = fmt::format("{} on {}: {} ranks, {} on {}\n\n", escape_for_terminal(manifest.model_name),
                                         to_text(manifest.mesh), comm.world, comm.backend->name, comm.device->name);
    const std::string text =
        job.json
            ? json_of(manifest, outcome, job)
            : (job.quiet ? "" : head + redistributions_text(manifest, outcome) + products_text(manifest, outcome)) +
                  summary_text(outcome);
    if (!print(STDOUT_FILENO, text)) return 2;
    return count_wrong_steps(outcome) == 0 ? 0 : report(wrong_fault(outcome), input.file.name);
  });
}

}  // namespace tpplan
