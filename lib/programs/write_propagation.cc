#include "programs/write_propagation.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "text/json_writer.h"

namespace tpplan::programs {

std::string_view kind_name(ReshardKind kind) {
  switch (kind) {
    case ReshardKind::AllReduce:
      return "all_reduce";
    case ReshardKind::AllGather:
      return "all_gather";
    case ReshardKind::AllToAll:
      return "all_to_all";
    case ReshardKind::CollectivePermute:
      return "collective_permute";
    case ReshardKind::ReduceScatter:
      return "reduce_scatter";
  }
  return {};
}

namespace {

void write_axes(JsonWriter& json, const Program& program, const AxisParts& axes) {
  write_array(json, axes, [&](const AxisPart& part) { write_value(json, axis_text(program, part)); });
}

void write_list(JsonWriter& json, const Program& program, const std::vector<ProgramCollective>& list) {
  write_array(json, list, [&](const ProgramCollective& c) {
    begin_object(json);
    write_field(json, "kind", kind_name(c.kind));
    write_key(json, "axes");
    write_axes(json, program, c.axes);
    write_field(json, "bytes", c.bytes);
    if (c.operation == kNoIndex)
      write_field(json, "op", nullptr);
    else
      write_field(json, "op", program.operations[c.operation].id);
    write_field(json, "times", c.times);
    end_object(json);
  });
}

void write_unruled(JsonWriter& json, const Propagation& propagation) {
  write_array(json, propagation.unruled, [&](OperationIndex id) {
    begin_object(json);
    write_field(json, "op", propagation.program.operations[id].id);
    write_field(json, "name", propagation.program.operations[id].name);
    end_object(json);
  });
}

std::string axes_words(const Program& program, const AxisParts& axes) {
  std::vector<std::string> words;
  for (const AxisPart& axis : axes) words.push_back(axis_text(program, axis));
  return join(words, ",");
}

std::string operation_words(const Program& program, OperationIndex id) {
  if (id == kNoIndex) return "result of the program";
  const ProgramOperation& operation = program.operations[id];
  const std::string name = operation.kind == OperationClass::Edge ? "loop or branch" : std::string(operation.name);
  return operation.location.empty() ? name : fmt::format("{} ({})", operation.location, name);
}

// One row of the table: the count, kind, axes, bytes, times and operation of equal collectives.
using Row = std::array<std::string, 6>;

std::vector<Row> list_rows(const Program& program, const std::vector<ProgramCollective>& list) {
  std::vector<std::pair<Row, uint64_t>> rows;
  std::map<Row, size_t> known;
  for (const ProgramCollective& c : list) {
    Row row{"",
            std::string(kind_name(c.kind)),
            axes_words(program, c.axes),
            human_bytes(static_cast<uint64_t>(c.bytes)),
            std::to_string(c.times),
            operation_words(program, c.operation)};
    const auto [found, is_new] = known.try_emplace(row, rows.size());
    if (is_new) rows.emplace_back(std::move(row), 0);
    ++rows[found->second].second;
  }
  std::vector<Row> table{{"count", "kind", "axes", "bytes", "times", "operation"}};
  for (auto& [row, count] : rows) {
    row[0] = std::to_string(count);
    table.push_back(std::move(row));
  }
  return table;
}

std::string table_text(const std::vector<Row>& rows) {
  std::array<size_t, 5> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const bool is_number = i == 0 || i == 3 || i == 4;
      text += is_number ? fmt::format("{:>{}}  ", row[i], widths[i]) : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    text += row[5] + "\n";
  }
  return text;
}

std::string unruled_text(const Propagation& propagation) {
  std::map<std::string_view, uint64_t> names;
  for (const OperationIndex id : propagation.unruled) ++names[propagation.program.operations[id].name];
  std::vector<std::string> words;
  for (const auto& [name, count] : names)
    words.push_back(count == 1 ? std::string(name) : fmt::format("{} x {}", count, name));
  return words.empty() ? std::string()
                       : fmt::format("no rule, nothing propagates through them: {}\n", join(words, ", "));
}

}  // namespace

double sent_bytes(const std::vector<ProgramCollective>& collectives) {
  double sent = 0;
  for (const ProgramCollective& c : collectives) {
    const auto ranks = static_cast<double>(shard_count(c.axes));
    const double passes = c.kind == ReshardKind::AllReduce ? 2 : 1;
    const double share = c.kind == ReshardKind::CollectivePermute ? 1 : passes * (ranks - 1) / ranks;
    sent += share * static_cast<double>(c.bytes) * static_cast<double>(c.times);
  }
  return sent;
}

std::string propagation_text(const Propagation& propagation) {
  std::string text;
  if (propagation.shardy.empty())
    text = "no collectives\n";
  else
    text = table_text(list_rows(propagation.program, propagation.shardy));
  const auto bytes = [](const std::vector<ProgramCollective>& list) {
    return human_bytes(static_cast<uint64_t>(std::min(sent_bytes(list), 1e18)));
  };
  text += fmt::format("a rank sends {} in a step by Shardy's list, about {} as XLA partitions\n",
                      bytes(propagation.shardy), bytes(propagation.xla));
  return text + unruled_text(propagation);
}

std::string propagation_json(const Propagation& propagation) {
  const Program& p = propagation.program;
  JsonWriter json;
  json.is_tight = true;
  begin_object(json);
  write_key(json, "values");
  begin_object(json);
  for (ValueIndex value = 0; value < p.recorded_values; ++value) {
    write_key(json, std::to_string(p.values[value].id));
    write_array(json, propagation.shardings[value], [&](const std::vector<AxisParts>& dims) {
      write_array(json, dims, [&](const AxisParts& axes) { write_axes(json, p, axes); });
    });
  }
  end_object(json);
  write_key(json, "collectives");
  begin_object(json);
  write_key(json, "shardy");
  write_list(json, p, propagation.shardy);
  write_key(json, "xla");
  write_list(json, p, propagation.xla);
  end_object(json);
  write_key(json, "without_rule");
  write_unruled(json, propagation);
  end_object(json);
  return std::move(json.out);
}

}  // namespace tpplan::programs
