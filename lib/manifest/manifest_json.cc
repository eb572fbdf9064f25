#include "manifest/manifest_json.h"

namespace tpplan {
namespace {

void write_axes(JsonWriter& json, const std::vector<AxisId>& axes, const Mesh& mesh) {
  write_array(json, axes, [&](AxisId axis) { write_value(json, mesh.axes[axis].name); });
}

// Writes the fields of a collective.
void write_collective(JsonWriter& json, const Collective& collective, const Mesh& mesh) {
  write_field(json, "kind", to_text(collective.kind));
  write_field(json, "axis", mesh.axes[collective.axis].name);
  if (collective.kind != CollectiveKind::AllReduce) write_field(json, "dim", collective.dim);
  if (collective.kind == CollectiveKind::AllToAll) write_field(json, "from_dim", collective.from_dim);
}

void write_gradient(JsonWriter& json, const GradientLayouts& gradient) {
  write_key(json, "gradient");
  begin_object(json);
  write_key(json, "from");
  write_placements(json, gradient.from);
  write_key(json, "to");
  write_placements(json, gradient.to);
  end_object(json);
}

// Writes the steps of a value. Omits the field if there are none: an absent field means no communication.
void write_value_steps(JsonWriter& json, std::string_view key, const std::vector<Step>& steps, const Mesh& mesh) {
  if (steps.empty()) return;
  write_key(json, key);
  write_array(json, steps, [&](const Step& step) {
    begin_object(json);
    write_collective(json, step.collective, mesh);
    write_field(json, "pieces", step.pieces);
    end_object(json);
  });
}

}  // namespace

void write_sent_dtypes(JsonWriter& json, std::optional<DType> forward, std::optional<DType> backward) {
  if (forward) write_field(json, "forward_dtype", dtypes()[*forward].name);
  if (backward) write_field(json, "backward_dtype", dtypes()[*backward].name);
}

void write_mesh(JsonWriter& json, const Mesh& mesh) {
  write_array(json, mesh.axes, [&](const MeshAxis& axis) {
    begin_object(json);
    write_field(json, "name", axis.name);
    write_field(json, "size", axis.size);
    end_object(json);
  });
}

void write_spec(JsonWriter& json, const PartitionSpec& spec, const Mesh& mesh) {
  write_array(json, spec, [&](const DimAxes& axes) {
    if (axes.empty())
      write_value(json, nullptr);
    else if (axes.size() == 1)
      write_value(json, mesh.axes[axes[0]].name);
    else
      write_axes(json, axes, mesh);
  });
}

void write_placements(JsonWriter& json, const std::optional<std::vector<Placement>>& placements) {
  if (!placements) return write_value(json, nullptr);
  write_array(json, *placements, [&](const Placement& placement) { write_value(json, to_text(placement)); });
}

void write_offsets(JsonWriter& json, const std::optional<std::vector<DimOffsets>>& offsets) {
  if (!offsets) return write_value(json, nullptr);
  write_array(json, *offsets, [&](const DimOffsets& of_dim) {
    begin_object(json);
    write_field(json, "dim", of_dim.dim);
    write_key(json, "ranks");
    write_array(json, of_dim.ranks, [&](const RankLevel& level) {
      write_array(json, std::vector<int64_t>{level.stride, level.count, level.pieces});
    });
    write_key(json, "runs");
    write_array(json, of_dim.runs, [&](const std::vector<EqualShards>& runs) {
      write_array(json, runs, [&](const EqualShards& run) {
        write_array(json, std::vector<int64_t>{run.count, run.length});
      });
    });
    end_object(json);
  });
}

void write_segments(JsonWriter& json, std::span<const DimSegments> segments) {
  begin_object(json);
  for (const DimSegments& s : segments) {
    write_key(json, std::to_string(s.dim));
    write_array(json, s.sizes);
  }
  end_object(json);
}

void write_shapes(JsonWriter& json, std::span<const std::vector<int64_t>> shapes) {
  write_array(json, shapes, [&](const std::vector<int64_t>& shape) { write_array(json, shape); });
}

void write_param_steps(JsonWriter& json, const ParamLayout& layout, const Mesh& mesh) {
  write_array(json, layout.steps, [&](const ParamStep& step) {
    begin_object(json);
    write_field(json, "part", to_text(step.part));
    write_collective(json, step.step.collective, mesh);
    write_field(json, "elements", step.elements);
    write_field(json, "bytes", payload_bytes(layout, step));
    write_field(json, "sent", sent_bytes(layout, step, mesh));
    end_object(json);
  });
}

void write_grad_reduce(JsonWriter& json, std::span<const GradReduce> reductions, const Mesh& mesh) {
  write_array(json, reductions, [&](const GradReduce& reduce) {
    begin_object(json);
    write_field(json, "axis", mesh.axes[reduce.axis].name);
    write_field(json, "kind", to_text(reduce.kind));
    write_field(json, "by", to_text(reduce.by));
    end_object(json);
  });
}

void write_values(JsonWriter& json, std::span<const ManifestValue> values, const Mesh& mesh) {
  write_array(json, values, [&](const ManifestValue& value) {
    begin_object(json);
    if (value.kwarg.empty())
      write_field(json, "arg", value.arg);
    else
      write_field(json, "kwarg", value.kwarg);
    write_key(json, "from");
    write_placements(json, value.from);
    write_key(json, "to");
    write_placements(json, value.to);
    if (value.gradient) write_gradient(json, *value.gradient);
    if (value.use_local) write_field(json, "use_local", *value.use_local);
    write_value_steps(json, "forward", value.forward, mesh);
    write_value_steps(json, "backward", value.backward, mesh);
    write_sent_dtypes(json, value.forward_dtype, value.backward_dtype);
    end_object(json);
  });
}

void write_rule_facts(JsonWriter& json, const ManifestRule& rule, const Mesh& mesh) {
  write_key(json, "holds");
  begin_object(json);
  for (const auto& [kind, count] : kHeldKinds) {
    if (rule.holds.*count != 0) write_field(json, kind, rule.holds.*count);
  }
  end_object(json);
  if (!rule.boundary) return;
  write_field(json, "axis", mesh.axes[rule.boundary->axis].name);
  const auto write_side = [&](std::string_view side, const std::vector<RuleValue>& values) {
    write_key(json, side);
    write_array(json, values, [&](const RuleValue& value) {
      begin_object(json);
      if (value.kwarg.empty())
        write_field(json, "arg", value.arg);
      else
        write_field(json, "kwarg", value.kwarg);
      if (value.use_local) write_field(json, "use_local", *value.use_local);
      end_object(json);
    });
  };
  write_side("inputs", rule.boundary->inputs);
  write_side("outputs", rule.boundary->outputs);
  if (rule.boundary->bare != 0) write_field(json, "bare", rule.boundary->bare);
}

void write_step(JsonWriter& json, const ManifestStep& step, const Mesh& mesh) {
  begin_object(json);
  if (step.batch > 0) write_field(json, "batch", step.batch);
  if (step.sequence > 0) write_field(json, "sequence", step.sequence);
  write_key(json, "unlisted");
  write_axes(json, step.unlisted, mesh);
  end_object(json);
}

void write_data(JsonWriter& json, const std::optional<ManifestData>& data, const Mesh& mesh) {
  if (!data) return write_value(json, nullptr);
  begin_object(json);
  write_key(json, "axes");
  write_axes(json, data->axes, mesh);
  write_field(json, "dim", data->dim);
  end_object(json);
}

void write_loss(JsonWriter& json, const std::optional<Loss>& loss, const Mesh& mesh) {
  if (!loss) return write_value(json, nullptr);
  begin_object(json);
  write_field(json, "output", loss->output);
  write_field(json, "reduction", to_text(loss->reduction));
  write_field(json, "count", to_text(loss->count));
  write_key(json, "axes");
  write_axes(json, loss->axes, mesh);
  write_field(json, "gradients", to_text(loss->gradients));
  end_object(json);
}

void write_fsdp(JsonWriter& json, const std::optional<ManifestFsdp>& fsdp, const Mesh& mesh) {
  if (!fsdp) return write_value(json, nullptr);
  begin_object(json);
  write_field(json, "axis", mesh.axes[fsdp->axis].name);
  write_field(json, "policy", fsdp->policy);
  write_field(json, "min_weight_size", fsdp->min_weight_size);
  write_key(json, "units");
  write_array(json, fsdp->units);
  end_object(json);
}

void write_local_attributes(JsonWriter& json, const std::optional<ManifestLocalAttributes>& local, const Mesh& mesh) {
  if (!local) return write_value(json, nullptr);
  begin_object(json);
  write_field(json, "axis", mesh.axes[local->axis].name);
  write_key(json, "modules");
  write_array(json, local->modules, [&](const ManifestLocalModule& module) {
    begin_object(json);
    write_field(json, "path", module.path);
    write_key(json, "attributes");
    begin_object(json);
    for (const auto& [name, value] : module.attributes) write_field(json, name, value);
    end_object(json);
    end_object(json);
  });
  end_object(json);
}

void write_distribution(JsonWriter& json, const Distribution& d) {
  const DistributionRow& row = distribution_table()[static_cast<size_t>(d.kind)];
  if (row.argument_count == 0) return write_value(json, row.name);
  begin_object(json);
  write_key(json, row.name);
  if (row.argument_count == 1) {
    write_json(json, number_text(d.arguments[0]));
  } else {
    begin_object(json);
    for (size_t i = 0; i < row.argument_count; ++i) {
      write_key(json, row.arguments[i]);
      write_json(json, number_text(d.arguments[i]));
    }
    end_object(json);
  }
  end_object(json);
}

void write_optional(JsonWriter& json, std::string_view text) {
  if (text.empty())
    write_value(json, nullptr);
  else
    write_value(json, text);
}

namespace {

void write_work(JsonWriter& json, const MatmulWork& work) {
  begin_object(json);
  write_field(json, "dtype", dtypes()[work.dtype].name);
  write_field(json, "forward", work.forward);
  write_field(json, "backward", work.backward);
  write_field(json, "again", work.again);
  end_object(json);
}

void write_layer(JsonWriter& json, const LayerCosts& layer) {
  begin_object(json);
  write_field(json, "layers", layer.layers);
  write_field(json, "count", layer.count);
  write_field(json, "kept", layer.saved);
  write_key(json, "work");
  write_array(json, layer.work, [&](const MatmulWork& work) { write_work(json, work); });
  end_object(json);
}

void write_saved(JsonWriter& json, const SavedTensors& row) {
  begin_object(json);
  write_field(json, "op", row.op);
  write_field(json, "tensors", row.tensors);
  write_field(json, "bytes", row.bytes);
  end_object(json);
}

}  // namespace

void write_step_costs(JsonWriter& json, const StepCosts& costs) {
  begin_object(json);
  write_field(json, "kept", costs.saved);
  write_field(json, "gathered", costs.gathered);
  write_field(json, "gathered_weights", costs.gathered_weights);
  write_field(json, "logits", costs.logits);
  write_field(json, "transient", costs.transient);
  write_field(json, "transient_op", costs.transient_op);
  write_field(json, "transient_module", costs.transient_module);
  write_key(json, "by_op");
  write_array(json, costs.by_op, [&](const SavedTensors& row) { write_saved(json, row); });
  write_key(json, "layers");
  write_array(json, costs.layers, [&](const LayerCosts& layer) { write_layer(json, layer); });
  write_key(json, "unknown_ops");
  write_array(json, costs.unknown_ops);
  end_object(json);
}

}  // namespace tpplan
