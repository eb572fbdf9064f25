// The frame of the report: the document's head with the title, the links to the sections, and the footer.
#pragma once

#include <string>
#include <string_view>

#include "manifest/manifest.h"

namespace tpplan {

// Returns the HTML from the doctype to the begin of the body. `kind` is what the page is: "sharding report".
[[nodiscard]] std::string document_head(std::string_view model, std::string_view kind);

// Returns the HTML from the doctype to the introduction in the page header. The <header> element stays open.
[[nodiscard]] std::string head_html(const Manifest& manifest);

// Sections that not every report has.
struct OptionalSections {
  bool steps = false, changes = false, time = false;
};

// Returns the links to all sections, closes the <header> and opens the <main> element.
[[nodiscard]] std::string nav_html(const OptionalSections& sections);

// Returns the footer with the origin of the report. Closes the <main> element and the page.
[[nodiscard]] std::string footer_html(const Manifest& manifest);

}  // namespace tpplan
