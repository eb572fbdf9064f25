#include "diff/write_diff.h"

#include "manifest/manifest_json.h"

namespace tpplan {
namespace {

// Writes changed fields. Added entries have no `before`, removed ones no `after`.
void write_fields(JsonWriter& json, std::string_view key, const std::vector<FieldChange>& fields) {
  write_key(json, key);
  begin_object(json);
  for (const FieldChange& f : fields) {
    write_key(json, f.field);
    begin_object(json);
    for (const auto& [side, text] : {std::pair{"before", &f.before_json}, std::pair{"after", &f.after_json}}) {
      if (text->empty()) continue;
      write_key(json, side);
      write_json(json, *text);
    }
    end_object(json);
  }
  end_object(json);
}

void write_family(JsonWriter& json, const PathFamily& family) {
  begin_object(json);
  write_field(json, "pattern", family.pattern);
  write_field(json, "of", family.of);
  write_key(json, "paths");
  write_array(json, family.paths);
  end_object(json);
}

void write_group(JsonWriter& json, const ChangeGroup& group, std::string_view change) {
  begin_object(json);
  write_field(json, "change", change);
  write_field(json, "count", group.count);
  write_field(json, "example", group.families[0].paths[0]);
  write_fields(json, "fields", group.fields);
  next_line(json, 4);
  write_key(json, "families");
  begin_array(json);
  for (const PathFamily& family : group.families) {
    if (&family != group.families.data()) next_line(json, 6);
    write_family(json, family);
  }
  end_array(json);
  end_object(json);
}

void write_list(JsonWriter& json, const ListDiff& list, std::string_view name) {
  next_line(json, 1);
  write_key(json, name);
  begin_object(json);
  write_field(json, "before", list.before);
  write_field(json, "after", list.after);
  write_field(json, "changed", list.changed_count);
  write_field(json, "added", list.added_count);
  write_field(json, "removed", list.removed_count);
  write_key(json, "groups");
  begin_array(json);
  for (const auto& [groups, change] :
       {std::pair{&list.changed, "changed"}, std::pair{&list.added, "added"}, std::pair{&list.removed, "removed"}}) {
    for (const ChangeGroup& group : *groups) {
      next_line(json, 3);
      write_group(json, group, change);
    }
  }
  end_array(json);
  end_object(json);
}

void write_side(JsonWriter& json, std::string_view key, const std::optional<uint64_t>& number) {
  write_key(json, key);
  if (number)
    write_value(json, *number);
  else
    write_value(json, nullptr);
}

void write_rule_name(JsonWriter& json, const ManifestRule& rule) {
  if (rule.in_block) write_field(json, "block", rule.block);
  write_field(json, "key", rule.key);
}

void write_rule_change(JsonWriter& json, const RuleChange& change) {
  begin_object(json);
  write_rule_name(json, *change.rule);
  if (change.renamed_from != nullptr) {
    write_key(json, "renamed_from");
    begin_object(json);
    write_rule_name(json, *change.renamed_from);
    end_object(json);
  }
  write_side(json, "before", change.before);
  write_side(json, "after", change.after);
  end_object(json);
}

void write_collective_count(JsonWriter& json, const CollectiveCount& c) {
  begin_object(json);
  write_field(json, "phase", to_text(c.phase));
  write_field(json, "kind", to_text(c.kind));
  write_field(json, "axis", c.axis);
  write_field(json, "before", c.before);
  write_field(json, "after", c.after);
  write_field(json, "bytes_before", c.bytes_before);
  write_field(json, "bytes_after", c.bytes_after);
  end_object(json);
}

void write_call_change(JsonWriter& json, const CallChange& c) {
  begin_object(json);
  write_field(json, "phase", c.backward ? "backward" : "forward");
  write_field(json, "kind", to_text(c.kind));
  write_field(json, "axis", c.axis);
  write_field(json, "module", c.module);
  for (const auto& [side, shapes] :
       {std::pair{"shapes_before", &c.shapes_before}, std::pair{"shapes_after", &c.shapes_after}}) {
    write_key(json, side);
    write_array(json, *shapes, [&json](const std::vector<int64_t>& shape) { write_array(json, shape); });
  }
  write_field(json, "dtype", c.dtype);
  if (c.hidden) write_field(json, "hidden", true);
  write_field(json, "before", c.before);
  write_field(json, "after", c.after);
  write_field(json, "bytes_before", c.bytes_before);
  write_field(json, "bytes_after", c.bytes_after);
  end_object(json);
}

void write_bytes(JsonWriter& json, std::string_view key, const RankBytes& b) {
  write_key(json, key);
  begin_object(json);
  write_field(json, "ranks", b.ranks);
  write_side(json, "min", b.min);
  write_field(json, "max", b.max);
  write_field(json, "total", b.total);
  write_field(json, "ideal", b.ideal);
  write_field(json, "replicated", b.replicated);
  end_object(json);
}

void write_seconds(JsonWriter& json, std::string_view key, const std::optional<StepSeconds>& seconds) {
  constexpr int kDigits = 9;
  write_key(json, key);
  if (!seconds) return write_value(json, nullptr);
  static constexpr std::pair<std::string_view, double StepSeconds::*> kSecondsFields[] = {
      {"forward", &StepSeconds::forward},
      {"backward", &StepSeconds::backward},
      {"waited", &StepSeconds::waited},
      {"overlapped", &StepSeconds::overlapped},
      {"total", &StepSeconds::total}};
  begin_object(json);
  for (const auto& [name, member] : kSecondsFields) {
    write_key(json, name);
    write_number(json, (*seconds).*member, kDigits);
  }
  end_object(json);
}

void write_time_of_both(JsonWriter& json, const TimeDiff& time) {
  next_line(json, 1);
  write_key(json, "time");
  begin_object(json);
  write_field(json, "topology", time.machine);
  next_line(json, 10);
  write_seconds(json, "before", time.before);
  next_line(json, 10);
  write_seconds(json, "after", time.after);
  end_object(json);
}

void write_step_of_both(JsonWriter& json, const StepDiff& step) {
  next_line(json, 1);
  write_key(json, "step");
  begin_object(json);
  write_field(json, "recipe", step.recipe);
  for (const auto& [side, numbers] : {std::pair{"before", &step.before}, std::pair{"after", &step.after}}) {
    next_line(json, 10);
    write_key(json, side);
    begin_object(json);
    write_side(json, "sent_bytes", numbers->sent);
    write_side(json, "memory_bytes", numbers->memory);
    if (numbers->reserved) write_field(json, "reserved_bytes", *numbers->reserved);
    if (numbers->seconds) write_exact_field(json, "seconds", *numbers->seconds);
    write_field(json, "activations", numbers->has_activations);
    write_field(json, "batch", numbers->batch);
    write_field(json, "sequence", numbers->sequence);
    write_field(json, "micro_batches", numbers->micro_batches);
    write_field(json, "data_ranks", numbers->data_ranks);
    end_object(json);
  }
  end_object(json);
}

// Writes an array with one item per line.
template <typename Items, typename Write>
void write_changes(JsonWriter& json, std::string_view key, const Items& items, Write write) {
  next_line(json, 1);
  write_key(json, key);
  write_array(json, items, [&](const auto& item) {
    next_line(json, 2);
    write(json, item);
  });
}

}  // namespace

bool write_diff_json(const ManifestDiff& diff, const Sink& sink) {
  JsonWriter json{.sink = &sink};
  begin_object(json);
  next_line(json, 1);
  write_field(json, "format", kDiffFormat);
  next_line(json, 1);
  write_field(json, "tool", kToolVersion);
  next_line(json, 1);
  write_field(json, "same", diff.same);
  next_line(json, 1);
  write_fields(json, "inputs", diff.inputs);
  next_line(json, 1);
  write_fields(json, "settings", diff.settings);
  write_changes(json, "rules", diff.rules, write_rule_change);
  write_list(json, diff.parameters, "parameters");
  write_list(json, diff.buffers, "buffers");
  write_list(json, diff.modules, "modules");
  write_changes(json, "collectives", diff.collectives, write_collective_count);
  if (diff.calls.known_before && diff.calls.known_after)
    write_changes(json, "calls", diff.calls.changes, write_call_change);
  next_line(json, 1);
  write_key(json, "bytes");
  begin_object(json);
  write_bytes(json, "before", diff.bytes_before);
  next_line(json, 11);
  write_bytes(json, "after", diff.bytes_after);
  end_object(json);
  if (diff.step.is_requested) write_step_of_both(json, diff.step);
  if (diff.time.is_requested) write_time_of_both(json, diff.time);
  next_line(json, 0);
  end_object(json);
  return finish_json(json);
}

}  // namespace tpplan
