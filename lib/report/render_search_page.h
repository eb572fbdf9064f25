// The page of `tpplan search --report`: time against memory of the plans of a search.
#pragma once

#include "base/write_file.h"
#include "report/render_search.h"

namespace tpplan {

// Writes one HTML page, without scripts or external resources. A click on a plan shows its layers and the next best
// strategy of each unit. Returns false as soon as the sink returns false. Equal searches give equal bytes.
// @pre the search was asked for samples
[[nodiscard]] bool render_search_page(const SearchReport& report, const Sink& sink);

}  // namespace tpplan
