#include "programs/write_propagation.h"

#include "text/json_writer.h"

namespace tpplan {
namespace {

std::string_view kind_name(ProgramCollectiveKind kind) {
  switch (kind) {
    case ProgramCollectiveKind::AllReduce: return "all_reduce";
    case ProgramCollectiveKind::AllGather: return "all_gather";
    case ProgramCollectiveKind::AllToAll: return "all_to_all";
    case ProgramCollectiveKind::CollectivePermute: return "collective_permute";
    case ProgramCollectiveKind::ReduceScatter: return "reduce_scatter";
  }
  return {};
}

void write_axes(JsonWriter& json, const Program& program, const AxisParts& axes) {
  write_array(json, axes, [&](const AxisPart& part) { write_value(json, axis_text(program, part)); });
}

void write_list(JsonWriter& json, const Program& program, const std::vector<ProgramCollective>& list) {
  write_array(json, list, [&](const ProgramCollective& c) {
    begin_object(json);
    write_member(json, "kind", kind_name(c.kind));
    write_key(json, "axes");
    write_axes(json, program, c.axes);
    write_member(json, "bytes", c.bytes);
    if (c.operation == kNone)
      write_member(json, "op", nullptr);
    else
      write_member(json, "op", program.operations[c.operation].id);
    write_member(json, "times", c.times);
    end_object(json);
  });
}

}  // namespace

std::string propagation_json(const Propagation& propagation) {
  const Program& p = propagation.program;
  JsonWriter json;
  json.is_tight = true;
  begin_object(json);
  write_key(json, "values");
  begin_object(json);
  for (ValueId value = 0; value < p.recorded_values; ++value) {
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
  end_object(json);
  return std::move(json.out);
}

}  // namespace tpplan
