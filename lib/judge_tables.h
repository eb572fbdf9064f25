// What plans of one model leave to those that are judged after them, for who judges thousands of them.
#pragma once

#include "judge.h"
#include "match/key_hits.h"
#include "walk/kept_walk.h"

namespace tpplan {

// Nothing of it decides: a plan that is judged with tables has the judgement that it has without them, whatever was
// judged before. What is kept follows from the model, and from the sizes of the axes that are walked (those of the last
// plan); it stays below some tens of megabytes beside the memory that one judgement takes (kMostKeptNumbers in
// walk/walk_tables.h, kMostKeptHits in match/key_hits.h), and is thrown away and made anew where it would grow beyond.
// @pre the model is the same, at its place and unchanged, in every call. One call at a time: each thread has its own.
struct JudgeTables {
  KeyHits hits;
  KeptWalk walk;
};

// For a judgement that nobody looks at any more: the next one is written where its trace stands.
inline void take_back(JudgeTables& tables, Judgement judgement) {
  tables.walk.memory.trace = std::move(judgement.forecast.trace);
}

}  // namespace tpplan
