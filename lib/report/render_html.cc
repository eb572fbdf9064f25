#include "report/render_html.h"

#include "report/group_params.h"
#include "report/render_changes.h"
#include "report/render_collectives.h"
#include "report/render_frame.h"
#include "report/render_memory.h"
#include "report/render_model.h"
#include "report/render_notices.h"
#include "report/render_replicated.h"
#include "report/render_rules.h"
#include "report/render_shards.h"
#include "report/render_tiles.h"
#include "report/render_traffic.h"

namespace tpplan {

// Writes section by section, and the shards group by group, so that the complete page is never in memory.
bool render_html(const Manifest& manifest, const ManifestMeasure& measure,
                 const std::optional<ReportComparison>& against, const std::optional<ReportTime>& step,
                 const StepPictures& pictures, const Sink& sink) {
  const std::vector<ShardGroup> groups = group_by_sharding(manifest);
  return sink(head_html(manifest)) && sink(tiles_html(manifest, measure, pictures.now)) &&
         sink(notices_html(manifest, measure)) &&
         sink(nav_html({.steps = pictures.now != nullptr, .changes = against.has_value(), .time = step.has_value()})) &&
         sink(model_html(manifest, groups)) && (pictures.now == nullptr || sink(pictures_html(pictures))) &&
         (!against || render_changes(*against->manifest, manifest, *against->diff, sink)) &&
         sink(memory_html(manifest, measure, pictures.now)) && sink(replicated_html(manifest)) &&
         sink(rules_html(manifest)) && render_shards(manifest, groups, sink) && sink(traffic_html(manifest, measure)) &&
         sink(collectives_section(manifest, measure)) && (!step || sink(time_html(manifest, *step))) &&
         sink(footer_html(manifest));
}

}  // namespace tpplan
