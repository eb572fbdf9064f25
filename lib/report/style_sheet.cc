#include "report/html_text.h"

namespace tpplan {

// The style sheet has no @import, and url() only for the pattern inside the page, because the page's policy blocks
// external resources. Colors are variables, so that dark mode and print change only their values.
std::string_view style_sheet() {
  return R"css(
:root { color-scheme: light dark;
  --bg: #ffffff; --fg: #1b2027; --muted: #59636e; --line: #d9dfe5; --panel: #f5f7f9; --link: #1d5fa8;
  --cut: #2f6db5; --whole: #c2500c; --whole-gap: #f4a261;
  --grad: #8aa83c; --master: #7b5ea7; --opt: #9fb0c6; --buf: #12776d; --ideal: #1b2027;
  --vivid: 66%; --lightest: 91%; --darker: 6%;
  --k0: #a9cdf3; --k1: #b4dfc0; --k2: #f3da8c; --k3: #d9c1ee; --k4: #a3dce2; --k5: #d2d7dd;
  --again: #7b5ea7; --saved: #d9a514; --less: #1a6b37; --more: #a3231d; }
@media (prefers-color-scheme: dark) { :root {
  --bg: #14171b; --fg: #e4e8ed; --muted: #9aa5b1; --line: #313840; --panel: #1d2126; --link: #7db4f0;
  --cut: #5b9ae2; --whole: #f08a4b; --whole-gap: #8a4016;
  --grad: #a9c65a; --master: #a488d0; --opt: #55657c; --buf: #3cb8a9; --ideal: #f5f7f9;
  --vivid: 40%; --lightest: 28%; --darker: 4%;
  --k0: #1f4f85; --k1: #1f5a3d; --k2: #5d4d10; --k3: #543a70; --k4: #175560; --k5: #3b424b;
  --again: #a488d0; --saved: #c79a2b; --less: #6fce8f; --more: #ff9088; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: auto; }
body { margin: 0 auto; max-width: 66rem; padding: 2rem 1.5rem 4rem; background: var(--bg); color: var(--fg);
  font: 0.9375rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
h1 { margin: 0; font-size: 1.625rem; line-height: 1.25; font-weight: 650; letter-spacing: -0.01em; overflow-wrap: anywhere;
  unicode-bidi: isolate; }
h2 { margin: 3rem 0 0.5rem; font-size: 1.1875rem; line-height: 1.3; font-weight: 650; }
h3 { margin: 1.75rem 0 0.5rem; font-size: 0.9375rem; font-weight: 650; }
p { margin: 0.5rem 0; max-width: 48rem; }
a { color: var(--link); text-underline-offset: 0.15em; }
code { font: 0.8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
  overflow-wrap: anywhere; unicode-bidi: isolate; }
.muted, .more, figcaption { color: var(--muted); }
.more { font-size: 0.875rem; }
.eyebrow { margin: 0 0 0.25rem; color: var(--muted); font-size: 0.8125rem; }
.lead { margin: 0.375rem 0 0; color: var(--muted); }
nav { margin: 1rem 0 0; font-size: 0.875rem; display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; }
.tiles { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 0; margin: 1.5rem 0 0; padding: 0;
  border: 1px solid var(--line); border-radius: 0.5rem; }
.tiles > div { padding: 0.875rem 1.125rem 1rem; border-left: 1px solid var(--line); }
.tiles > div:first-child { border-left: 0; }
dt { font-size: 0.8125rem; color: var(--muted); }
dd { margin: 0; }
.tiles .big { font-size: 1.625rem; line-height: 1.3; font-weight: 600; letter-spacing: -0.01em; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.tiles .big.warn { color: var(--whole); }
@media (prefers-color-scheme: light) { .tiles .big.warn { color: #a8430a; } }
.tiles .sub { font-size: 0.8125rem; line-height: 1.45; color: var(--muted); }
.notices { margin: 1rem 0 0; padding: 0; list-style: none; font-size: 0.875rem; line-height: 1.5; }
.notices li { padding: 0.125rem 0 0.125rem 0.75rem; border-left: 3px solid var(--whole); }
figure { margin: 1rem 0; }
.bars { margin: 0; padding: 0; list-style: none; }
.bars li { display: grid; grid-template: "who bar sum" auto / minmax(5rem, 9rem) 1fr 5.5rem; gap: 0 1rem; align-items: center;
  padding: 0.25rem 0; }
.bars.calls li { grid-template-columns: minmax(5rem, 17rem) 1fr 5.5rem; }
.bars .who { grid-area: who; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.bars .sum { grid-area: sum; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bars .bar { grid-area: bar; }
svg.bar { display: block; width: 100%; height: 1.5rem; background: var(--panel); border-radius: 0.1875rem; }
svg rect { stroke: var(--bg); stroke-width: 1; }
svg .cut { fill: var(--cut); } svg .whole { fill: url(#hatch); } svg .grad { fill: var(--grad); } svg .master { fill: var(--master); }
svg .opt { fill: var(--opt); } svg .buf { fill: var(--buf); }
svg .forward { fill: var(--cut); } svg .backward { fill: var(--opt); }
svg .again { fill: var(--again); } svg .saved { fill: var(--saved); } svg .folded { fill: url(#hatch); opacity: 0.35; }
.lanes rect, .curve path { stroke: none; } .layer rect { stroke: var(--bg); } .layer rect.thin { stroke: none; }
.lanes li { padding: 0.125rem 0; } svg.bar.curve { height: 8rem; }
.curve line { stroke: var(--ideal); stroke-width: 1.5; vector-effect: non-scaling-stroke; } .curve .device { stroke-dasharray: 6 4; }
.axis { display: grid; grid-template: "who start middle end sum" auto / minmax(5rem, 9rem) 1fr 1fr 1fr 5.5rem; gap: 0 1rem;
  margin: 0 0 0.5rem;
  max-width: none; font-size: 0.75rem; color: var(--muted); }
.axis span:nth-child(1) { grid-area: start; } .axis span:nth-child(2) { grid-area: middle; text-align: center; }
.axis span:nth-child(3) { grid-area: end; text-align: right; }
.sides { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 2rem; }
.sides figcaption { font-weight: 650; }
.ranks text { font-size: 0.75rem; fill: var(--fg); text-anchor: middle; dominant-baseline: central; }
.ranks rect { --tint: hsl(var(--h) var(--vivid) calc(var(--lightest) - var(--l) * var(--darker))); fill: var(--tint); }
.hosts svg.bar + svg.bar { margin-top: 2px; }
.flow { display: flex; flex-wrap: wrap; gap: 0.375rem 1.125rem; margin: 0.5rem 0; padding: 0 1.125rem 0 0; list-style: none;
  font-size: 0.8125rem; }
.flow li { position: relative; padding: 0.25rem 0.625rem; border: 1px solid var(--line); border-left: 4px solid var(--edge);
  border-radius: 0.1875rem; background: var(--panel); line-height: 1.35; }
.flow li:not(:last-child)::after { content: "→"; position: absolute; top: 0.6rem; right: -1.0625rem; width: 0.9rem; text-align: center;
  color: var(--muted); }
.flow .call { border-style: dashed; border-left-style: solid; }
.flow .what { display: block; overflow-wrap: anywhere; } .flow .sub { color: var(--muted); font-size: 0.75rem; }
.b0 { --edge: var(--cut); } .b1 { --edge: var(--whole); } .b3 { --edge: var(--grad); } .b5 { --edge: var(--opt); }
svg .ideal { stroke: var(--ideal); stroke-width: 2; }
.k0 { fill: var(--k0); } .k1 { fill: var(--k1); } .k2 { fill: var(--k2); } .k3 { fill: var(--k3); } .k4 { fill: var(--k4); }
.k5 { fill: var(--k5); }
svg.model { display: block; } .model text { font-size: 0.6875rem; fill: var(--fg); pointer-events: none; }
.model text.under { fill: var(--muted); }
.model text.on-whole { stroke: var(--bg); stroke-width: 3; paint-order: stroke; }
.model line { stroke: var(--bg); stroke-width: 1; opacity: 0.55; pointer-events: none; }
.model a:hover rect, .model a:focus-visible rect { stroke: var(--fg); stroke-width: 2; }
svg.hidden { position: absolute; width: 0; height: 0; }
.hatch-a { fill: var(--whole); stroke: none; } .hatch-b { stroke: var(--whole-gap); stroke-width: 2; }
.legend { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; margin: 0.875rem 0 0; padding: 0; list-style: none;
  font-size: 0.8125rem; color: var(--muted); }
.legend li { display: flex; align-items: center; gap: 0.4375rem; }
.legend svg { width: 0.875rem; height: 0.875rem; flex: none; }
.scroll { overflow-x: auto; margin: 0.75rem 0; position: relative; }
.scroll:focus-visible, summary:focus-visible, a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.875rem; }
caption { text-align: left; color: var(--muted); font-size: 0.8125rem; padding: 0 0 0.375rem; }
th, td { padding: 0.3125rem 1.25rem 0.3125rem 0; text-align: left; vertical-align: top; font-weight: 400;
  border-bottom: 1px solid var(--line); }
th:last-child, td:last-child { padding-right: 0; }
thead th { color: var(--muted); font-size: 0.8125rem; vertical-align: bottom; }
.n { text-align: right; white-space: nowrap; }
th code, td code { overflow-wrap: normal; }
.p { min-width: min(11rem, 30cqi); } .p code { overflow-wrap: anywhere; }
main { container: page / inline-size; }
tr.part th { padding-left: 1rem; color: var(--muted); } tr.part td { color: var(--muted); }
tr.sum th, tr.sum td { font-weight: 600; }
details { border-top: 1px solid var(--line); }
details:last-of-type { border-bottom: 1px solid var(--line); }
summary { display: flex; flex-wrap: wrap; gap: 0 0.75rem; align-items: baseline; padding: 0.4375rem 0 0.4375rem 1.125rem;
  cursor: pointer; position: relative; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary::before { content: ""; position: absolute; left: 0.125rem; top: 0.95rem; width: 0.375rem; height: 0.375rem;
  border: solid var(--muted); border-width: 0 1.5px 1.5px 0; transform: rotate(-45deg); }
details[open] > summary::before { transform: rotate(45deg); top: 0.85rem; }
summary:hover { background: var(--panel); }
summary .what { flex: 1 1 16rem; min-width: 0; }
summary .count { color: var(--muted); font-size: 0.8125rem; font-variant-numeric: tabular-nums; }
summary .line2 { flex: 1 0 100%; color: var(--muted); font-size: 0.8125rem; overflow-wrap: anywhere; }
summary .what .muted { font-size: 0.8125rem; }
.body { padding: 0.125rem 0 1rem 1.125rem; font-size: 0.875rem; }
.body details:first-of-type { border-top: 0; } .body details:last-of-type { border-bottom: 0; }
ul.paths { margin: 0; padding: 0; list-style: none; }
ul.paths li { padding: 0; }
ul.paths .muted { font-size: 0.8125rem; }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.125rem 1.25rem; margin: 0.5rem 0;
  align-items: baseline; }
.facts dd { overflow-wrap: anywhere; }
.facts .more { margin: 0; }
.shards { display: flex; flex-wrap: wrap; gap: 0 1.75rem; align-items: flex-start; }
.shards .map { flex: none; margin: 2.5rem 0 0.75rem; } .shards .scroll { min-width: 0; max-width: 100%; }
table.grid { border-collapse: separate; border-spacing: 2px; }
.grid caption { padding-left: 2px; }
.grid th, .grid td { border: 0; padding: 0.25rem 0.625rem; white-space: nowrap; vertical-align: middle; }
.grid th { color: var(--muted); font-size: 0.8125rem; } .grid thead th { text-align: center; }
  .grid thead th:first-child, .grid tbody th { text-align: right; padding-left: 0; }
.grid td { border-radius: 0.1875rem; text-align: center; min-width: 3.25rem; }
.grid td, .map rect { --tint: hsl(var(--h) var(--vivid) calc(var(--lightest) - var(--l) * var(--darker))); background: var(--tint);
  fill: var(--tint); }
.h0 { --h: 210; } .h1 { --h: 30; } .h2 { --h: 140; } .h3 { --h: 280; } .h4 { --h: 52; } .h5 { --h: 185; } .h6 { --h: 340; }
.h7 { --h: 80; } .h8 { --h: 240; } .h9 { --h: 10; } .h10 { --h: 160; } .h11 { --h: 310; } .h12 { --h: 40; } .h13 { --h: 197; }
.h14 { --h: 110; } .h15 { --h: 262; }
.l0 { --l: 0; } .l1 { --l: 1; } .l2 { --l: 2; } .l3 { --l: 3; }
.map rect { stroke: var(--muted); stroke-width: 1; vector-effect: non-scaling-stroke; }
.less-bytes { color: var(--less); } .more-bytes { color: var(--more); }
.scatter { overflow: visible; } .scatter text { font-size: 0.75rem; fill: var(--muted); text-anchor: middle; }
.scatter text.right { text-anchor: start; }
.scatter text.mark { stroke: var(--bg); stroke-width: 4; paint-order: stroke; fill: var(--fg); font-weight: 650; text-anchor: start; }
.scatter text.mark.left { text-anchor: end; }
.ticks line { stroke: var(--line); } .pareto { stroke: var(--fg); stroke-width: 1.5; opacity: 0.6; }
.limit { stroke: var(--whole); stroke-width: 1.5; stroke-dasharray: 6 4; }
.dot { fill: hsl(var(--h) 60% 50%); stroke: var(--bg); stroke-width: 1; }
.dot.over { fill: var(--line); stroke: hsl(var(--h) 30% 60%); }
.scatter a:hover .dot, .scatter a:focus-visible .dot { stroke: var(--fg); stroke-width: 2; }
.ring { fill: none; stroke: var(--fg); stroke-width: 2; pointer-events: none; } .ring.yours { stroke-dasharray: 3 2; }
.plan:not(:target) { display: none; } .plans:not(:has(:target)) .plan.best { display: block; }
footer { margin: 3rem 0 0; padding: 1rem 0 0; border-top: 1px solid var(--line); font-size: 0.8125rem; color: var(--muted); }
@media (max-width: 60rem) { .model text.wide { display: none; } }
@container page (max-width: 58rem) {
  .wide, .wide > caption, .wide > tbody { display: block; }
  .wide > thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .wide > tbody > tr { display: flex; flex-wrap: wrap; gap: 0.125rem 1rem; padding: 0.375rem 0;
    border-bottom: 1px solid var(--line); }
  .wide > tbody > tr > * { min-width: 5.5rem; max-width: 100%; padding: 0; border: 0; text-align: left;
    overflow-wrap: anywhere; }
  .wide > tbody > tr > th { flex: 1 0 100%; }
  .wide td::before { content: attr(data-head); display: block; color: var(--muted); font-size: 0.75rem; }
  .wide td:empty { display: none; }
  .grid.wide > tbody > tr { gap: 0.125rem; border: 0; } .grid.wide > tbody > tr > td { padding: 0.125rem 0.5rem; }
  .grid.wide > thead { position: static; width: auto; height: auto; clip-path: none; }
  .grid.wide > thead th + th { display: none; }
  thead .n { white-space: normal; } }
@media (max-width: 48rem) { .sides { grid-template-columns: minmax(0, 1fr); }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .tiles > div:nth-child(odd) { border-left: 0; } .tiles > div:nth-child(n+3) { border-top: 1px solid var(--line); } }
@media (max-width: 36rem) {
  body { padding: 1.25rem 1rem 3rem; }
  h1 { font-size: 1.375rem; } h2 { margin-top: 2.25rem; }
  .tiles > div { padding: 0.75rem 0.75rem 0.8125rem; } .tiles .big { font-size: 1.25rem; }
  .bars li, .bars.calls li { grid-template: "who sum" auto "bar bar" auto / 1fr max-content; gap: 0.125rem 0.75rem; padding: 0.375rem 0; }
  .axis { grid-template: "start middle end" auto / 1fr 1fr 1fr; }
  th, td { padding-right: 0.5rem; }
  .facts { grid-template-columns: 1fr; gap: 0; } .facts dd { margin-bottom: 0.375rem; }
  .body { padding-left: 0.625rem; } .shards .map { margin-top: 0.75rem; } }
@media print {
  :root { --bg: #ffffff; --fg: #000000; --muted: #444444; --line: #bbbbbb; --panel: #f5f7f9; }
  html { font-size: 9pt; } body { max-width: none; padding: 0; font-size: 1rem; }
  .plan:not(:target) { display: block; }
  nav, summary::before { display: none; } summary { padding-left: 0; } .body { padding-left: 0.75rem; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .scroll { overflow: visible; } h2, h3, summary { break-after: avoid; } tr, figure, .tiles { break-inside: avoid; }
  svg, .grid td, .tiles .warn { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
)css";
}

}  // namespace tpplan
