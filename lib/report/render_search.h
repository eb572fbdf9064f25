// The results of `tpplan search`: for people, as JSON, and the comments of its plan.
#pragma once

#include <string>
#include <string_view>

#include "search/explain_shortage.h"
#include "search/find_best_plan.h"

namespace tpplan {

inline constexpr std::string_view kSearchFormat = "tpplan.search/1";

struct SearchReport {
  std::string_view model;
  std::string command;  // with the names of files
  const SearchRequest& request;
  const SearchAnswer& answer;
  const SearchSpace& space;
  std::string file;            // name of the plan file; empty: standard output
  std::string reference_name;  // of the plan to compare with
  Mesh reference_mesh;
  const StepFigures* reference = nullptr;  // nullptr: there is none
  const Shortage* shortage = nullptr;      // if no plan fits; nullptr otherwise
};

// Returns the axes with more than one rank: "fsdp=8,tp=2"; "one rank" if there is none.
[[nodiscard]] std::string search_mesh_text(const SearchMesh& mesh);

// Returns the kinds of layers with their numbers: "21 remat; 11 plain".
[[nodiscard]] std::string layers_text(const SearchSpace& space, const PlanChoice& choice);

// Returns numbers of layers: "0-9, 12".
[[nodiscard]] std::string layer_ranges_text(const std::vector<size_t>& layers);

// Returns how good the best plan is, or why none fits and what would, as lines.
[[nodiscard]] std::string render_search_answer(const SearchReport& report);

// Returns the plan file, with the command, the prediction and the bound above it. @pre there is a best plan
[[nodiscard]] std::string search_plan_text(const SearchReport& report);

[[nodiscard]] std::string render_search(const SearchReport& report);

// Returns the document of schemas/search.schema.json. It does not depend on the time or the folder.
[[nodiscard]] std::string search_json(const SearchReport& report);

}  // namespace tpplan
