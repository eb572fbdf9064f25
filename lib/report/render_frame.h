// What stands around the report's sections: the document's head with the page's title, links to the sections, the foot.
#pragma once

#include <string>

#include "manifest/manifest.h"

namespace tpplan {

// From the doctype to the lead of the page's header, which is still open.
[[nodiscard]] std::string head_html(const Manifest& manifest);

// Links to all sections; closes the header and opens the main part. `compared`: the report has a section of changes,
// `timed`: one of the time of a step.
[[nodiscard]] std::string nav_html(bool compared, bool timed);

// Where the report comes from. Closes the main part and the page.
[[nodiscard]] std::string footer_html(const Manifest& manifest);

}  // namespace tpplan
