// The frame of the report: the document's head with the title, the links to the sections, and the footer.
#pragma once

#include <string>

#include "manifest/manifest.h"

namespace tpplan {

// Returns the HTML from the doctype to the introduction in the page header. The <header> element stays open.
[[nodiscard]] std::string head_html(const Manifest& manifest);

// Returns the links to all sections, closes the <header> and opens the <main> element. `compared`: the report has a
// section of changes. `timed`: it has a section of step times.
[[nodiscard]] std::string nav_html(bool compared, bool timed);

// Returns the footer with the origin of the report. Closes the <main> element and the page.
[[nodiscard]] std::string footer_html(const Manifest& manifest);

}  // namespace tpplan
