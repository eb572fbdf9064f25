#include "programs/recorded_program.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "programs/read_program.h"

namespace tpplan::programs {
namespace {

constexpr std::string_view kKindNames[] = {"param", "buffer", "input", "other"};  // by ArgumentKind
constexpr std::array<std::string_view, 8> kFields{"mode",      "batch", "sequence", "arguments",
                                                  "gradients", "args",  "ops",      "outs"};

struct Recording {
  const SourceFile& file;
  Diagnostics& diagnostics;
  RecordedProgram& recorded;
  std::shared_ptr<ProgramReader> reader;
  bool is_whole = true;  // no error in the fields of this file
};

bool fault(Recording& r, uint64_t offset, std::string message) {
  r.is_whole = false;
  report_message(r.diagnostics, Code::InvalidProgram, {r.file.id, offset, 1}, std::move(message),
                 "export the model again");
  return false;
}

// Reads [[kind, path], ...].
bool read_arguments(Recording& r, const JsonTree& tree) {
  for (uint32_t i = 1; i < tree.nodes[0].end; i = tree.nodes[i].end) {
    if (tree.nodes[i].kind != JsonKind::Array || tree.nodes[i].end != i + 3 ||
        tree.nodes[i + 1].kind != JsonKind::String || tree.nodes[i + 2].kind != JsonKind::String)
      return fault(r, tree.nodes[i].offset, "an argument is not [kind, path]");
    const auto name = std::ranges::find(kKindNames, tree.nodes[i + 1].text);
    if (name == std::end(kKindNames))
      return fault(r, tree.nodes[i + 1].offset, "the kind of an argument is not param, buffer, input or other");
    r.recorded.arguments.push_back({static_cast<ArgumentKind>(name - kKindNames), tree.nodes[i + 2].text});
  }
  return true;
}

bool read_gradients(Recording& r, const JsonTree& tree) {
  for (uint32_t i = 1; i < tree.nodes[0].end; i = tree.nodes[i].end) {
    if (tree.nodes[i].kind != JsonKind::String)
      return fault(r, tree.nodes[i].offset, "an entry of `gradients` is not the path of a parameter, or empty");
    r.recorded.results.push_back(tree.nodes[i].text);
  }
  return true;
}

bool read_value(Recording& r, std::string_view key, const JsonTree& tree) {
  const JsonNode& root = tree.nodes[0];
  if (key == "mode") {
    r.recorded.has_backward = root.kind == JsonKind::String && root.text == "train";
    return true;
  }
  if (key == "batch" || key == "sequence") {
    if (root.kind != JsonKind::Integer || root.integer < 1)
      return fault(r, root.offset, fmt::format("`{}` is not a size", key));
    (key == "batch" ? r.recorded.batch : r.recorded.sequence) = root.integer;
    return true;
  }
  if (key != "arguments" && key != "gradients") {
    r.is_whole &= read_program_field(*r.reader, key, tree);
    return r.is_whole;
  }
  if (root.kind != JsonKind::Array) return fault(r, root.offset, fmt::format("`{}` is not a list", key));
  return key == "arguments" ? read_arguments(r, tree) : read_gradients(r, tree);
}

bool finish(Recording& r) {
  if (!r.is_whole || !finish_program(*r.reader)) return false;
  const Program& p = r.recorded.program;
  const size_t arguments = p.blocks[0].argument_count, results = p.operations[p.blocks[0].last].operand_count;
  if (r.recorded.arguments.size() != arguments)
    return fault(r, 0,
                 fmt::format("`arguments` has {} entries, but `args` has {}", r.recorded.arguments.size(), arguments));
  if (r.recorded.results.size() == results) return true;
  return fault(r, 0, fmt::format("`gradients` has {} entries, but `outs` has {}", r.recorded.results.size(), results));
}

}  // namespace

RecordedReader begin_recorded_program(const SourceFile& file, Diagnostics& diagnostics) {
  RecordedReader made{.recorded = std::make_shared<RecordedProgram>(), .visitor = {}, .finish = {}};
  const auto r = std::make_shared<Recording>(
      Recording{.file = file, .diagnostics = diagnostics, .recorded = *made.recorded, .reader = {}});
  r->reader = begin_program(file, made.recorded->program, diagnostics);
  made.visitor.member = [r](std::string_view key, Span span) {
    if (std::ranges::find(kFields, key) != kFields.end()) return key == "ops" ? JsonField::Elements : JsonField::Whole;
    report_message(r->diagnostics, Code::UnknownModelKey, span, fmt::format("unknown key `{}` in the program", key));
    return JsonField::Skip;
  };
  made.visitor.value = [r](std::string_view key, const JsonTree& tree) { return read_value(*r, key, tree); };
  made.finish = [r] { return finish(*r); };
  return made;
}

}  // namespace tpplan::programs
