#include "render/render_junit.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "render/render_parts.h"

namespace tpplan {
namespace {

struct Entity {
  std::string_view bytes, written;
};
// Markup, the two characters other than controls that XML 1.0 forbids, and `##[`, which the GitHub runner would treat
// as a command if it logs this text.
constexpr Entity kEntities[] = {{"&", "&amp;"},       {"<", "&lt;"},        {">", "&gt;"},     {"\"", "&quot;"},
                                {"\xef\xbf\xbe", ""}, {"\xef\xbf\xbf", ""}, {"##[", "#&#35;["}};

// Returns `text` escaped for an attribute or an element, without control characters. Line breaks stay; attribute texts
// have none, because escape_for_terminal writes them out.
std::string xml(std::string_view text) {
  const std::string valid = valid_utf8(text);
  std::string out;
  for (size_t i = 0; i < valid.size();) {
    const std::string_view rest = std::string_view(valid).substr(i);
    const Entity* found = nullptr;
    for (const Entity& entity : kEntities) {
      if (rest.starts_with(entity.bytes)) found = &entity;
    }
    const bool control = static_cast<unsigned char>(rest[0]) < 0x20 && rest[0] != '\n';
    if (found != nullptr)
      out += found->written;
    else if (!control)
      out += rest[0];
    i += found == nullptr ? 1 : found->bytes.size();
  }
  return out;
}

std::string name_of(const SourceFile* file) { return file == nullptr ? "tpplan" : escape_for_terminal(file->name); }

// Appends a test case. The format has no standard, so this uses only elements and attributes that all CI servers read.
void append_case(std::string& out, const Diagnostic& d, const Sources& sources) {
  const Place place = place_of(d.span, sources);
  const std::string_view code = kind_of(d.code).id;
  const std::string message = xml(escape_for_terminal(d.message));
  out += fmt::format("  <testcase classname=\"tpplan.{0}\" name=\"{1}: {2}[{0}]: {3}\"", code,
                     xml(place_text(d.span, sources)), severity_name(d.severity), message);
  if (place.file != nullptr) out += fmt::format(" file=\"{}\" line=\"{}\"", xml(name_of(place.file)), place.line);
  const std::string text = xml(full_text(d, sources, "\n"));
  if (d.severity == Severity::Error) {
    out += fmt::format(">\n   <failure type=\"{}\" message=\"{}\">{}</failure>\n  </testcase>\n", code, message, text);
  } else {
    out += fmt::format(">\n   <system-out>{}</system-out>\n  </testcase>\n", text);
  }
}

// Appends the case of a check. Its name does not depend on the result, because CI systems compare runs by names.
void append_check(std::string& out, const CheckedPlan& check) {
  const std::string result = xml(check_result(check));
  out += fmt::format("  <testcase classname=\"tpplan\" name=\"{}\" file=\"{}\">\n", xml(check_name(check)),
                     xml(escape_for_terminal(check.plan)));
  out += check.has_passed ? fmt::format("   <system-out>{}</system-out>\n", result)
                          : fmt::format("   <failure message=\"{}\"/>\n", result);
  out += "  </testcase>\n";
}

// Appends a passing case for a check without diagnostics, because CI systems read a report without cases as no tests.
void append_passing_case(std::string& out, const Sources& sources) {
  const std::string model = xml(name_of(sources.files.front()));
  const std::string plan = xml(name_of(plan_of(sources)));
  out += fmt::format("  <testcase classname=\"tpplan\" name=\"{0}: checked for {1}\" file=\"{0}\"/>\n", plan, model);
}

}  // namespace

std::string render_junit(const Diagnostics& diagnostics, const Sources& sources, std::string_view unchecked,
                         std::span<const CheckedPlan> checks) {
  const Sources located = locate(diagnostics, sources);
  const size_t cases = std::max<size_t>(1, diagnostics.list.size() + checks.size());
  const auto failed = static_cast<size_t>(std::ranges::count(checks, false, &CheckedPlan::has_passed));
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  out += fmt::format(" <testsuite name=\"tpplan\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"0\">\n", cases,
                     counts_of(diagnostics).errors + failed);
  for (const Diagnostic& d : diagnostics.list) append_case(out, d, located);
  for (const CheckedPlan& check : checks) append_check(out, check);
  if (diagnostics.list.empty() && checks.empty() && !sources.files.empty()) append_passing_case(out, sources);
  if (!unchecked.empty()) out += fmt::format("  <system-out>{}</system-out>\n", xml(unchecked));
  return out + " </testsuite>\n</testsuites>\n";
}

}  // namespace tpplan
