// What the model of whole kernels (kernel_time.h) says of the forms of a kernel (split_forms.h),
// for the sizes of one question.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>

#include "ir/count_work.h"
#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/copy_lines.h"
#include "scheduler/kernel_time.h"
#include "scheduler/split_forms.h"

namespace tilec::scheduler {

constexpr double kAnyTime = std::numeric_limits<double>::infinity();

class FormTimes {
 public:
  FormTimes(const ir::Target& target, const Bindings& names, const Asked& asked,
            const ShapeOf& shape_of)
      : target_(target), names_(names), shape_of_(shape_of), asked_(asked) {}

  // `share`: of the lines that it needs, what a CTA asks for itself. `stays`: as many CTAs as SMs,
  // which walk over tiles, by rows or `by_columns` first. `one_role`: CTAs of an SM, each of one
  // role; 0: of several.
  std::optional<KernelTime> TimeOf(KernelForm& form, double share, int64_t cluster,
                                   bool stays = false, int64_t one_role = 0,
                                   bool by_columns = false);
  // Nothing where it is known to take longer than `most_ms`: the second launch is then not looked
  // at.
  std::optional<KernelTime> TimeOf(DividedForm& divided, int64_t cluster, double most_ms,
                                   int64_t one_role = 0);
  // The same where neighbours copy for each other: `parts` in place of those of `divided`.
  std::optional<KernelTime> TimeOf(Neighbours& parts, DividedForm& divided, double most_ms);
  // No two launches take less.
  double LeastDivided(int64_t cluster) const;
  // Of one_role.h.
  std::optional<double> MarginOfOneRole(KernelForm& form);
  int64_t TilesOf(const KernelForm& form) { return WorkOf(form).instances; }
  // Do caches hold what it reads, or is there one tile along the grid's first range?
  bool HoldsAll(const KernelForm& form);
  // Does each of its loops have one turn at most?
  bool OneTurn(const KernelForm& form);
  bool Exact(const KernelForm& form) { return WorkOf(form).exact; }
  double whole_flops = 0, again_ms = 0;  // of what was asked last

 private:
  // What parts are put together by takes no less.
  double BesideParts(int64_t cluster) const;
  // Counted once: a form is looked at as it stays, once and by one role.
  const ir::WorkCount& WorkOf(const KernelForm& form);

  const ir::Target& target_;
  const Bindings& names_;
  const ShapeOf& shape_of_;
  const Asked asked_;
  std::optional<ir::Target> shared_;  // costs of what was looked at last
  std::map<const KernelForm*, ir::WorkCount> works_;
};

// What the model says of `parts` CTAs for each tile, ms; 0: it cannot tell.
double TimeInParts(const ir::Function& fn, const ir::Target& target, const Bindings& names,
                   const RowStarts& row_starts, int64_t parts);
// The same of parts that are no cluster.
double TimeApart(const ir::Function& fn, const ir::Target& target, const Bindings& names,
                 const RowStarts& row_starts, int64_t parts);
// The same where one role does all in program order; nothing: it cannot tell.
std::optional<KernelTime> TimeInOrder(const ir::Function& fn, const ir::Target& target,
                                      const Bindings& names, const RowStarts& row_starts,
                                      int64_t parts);

}  // namespace tilec::scheduler
