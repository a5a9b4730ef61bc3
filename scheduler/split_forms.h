// What can become of a function before it is lowered, and what of that does not depend on sizes:
// its tiles in parts that CTAs of a cluster share, in groups of clusters, with rows of several
// instances in a tile, with neighbours that copy for each other. Each is made once, when it is
// first asked for. Thread-safe. Which of them is taken is split_choice.h's.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ir/function.h"
#include "ir/passes/divide_reductions.h"
#include "ir/program_plan.h"
#include "ir/target.h"
#include "scheduler/loop_periods.h"
#include "scheduler/sms_shared.h"

namespace tilec::scheduler {

// One function, and what was found out about it.
struct KernelForm {
  explicit KernelForm(ir::Function f) : fn(std::move(f)) {}
  using Periods = std::optional<std::vector<LoopPeriod>>;

  // `shared`: a copy of the target, for its costs as they are shared.
  const Periods& PeriodsAt(const Sharing& sharing, const ir::Target& target,
                           std::optional<ir::Target>* shared);
  // However costs are shared: what hangs on what does not depend on that.
  const Periods& AnyPeriods(const ir::Target& target, std::optional<ir::Target>* shared);
  double Warpgroups(const ir::Target& target);
  int64_t CtasOfOneRole(const ir::Target& target);
  // Does one warpgroup make products of what comes of others, and do all loops hang on that?
  bool Hangs(const ir::Target& target);

  const ir::Function fn;

 private:
  std::mutex mutex;  // of what follows
  std::optional<double> warpgroups;
  std::optional<bool> hangs;
  int64_t one_role = 0;  // CTAs of an SM; 0: not asked yet
  std::map<Sharing, Periods> periods;
};
using FormPtr = std::unique_ptr<KernelForm>;

// Groups of clusters (of 1: of CTAs that are none), and a second launch for what they have.
// That is made when it is asked for: it writes all groups out, and parts alone often take too long.
struct DividedForm {
  // `of`: the kernel, which outlives it.
  DividedForm(ir::Function p, const ir::Function& of, int64_t groups)
      : parts(std::move(p)), of_(of), groups_(groups) {}
  KernelForm& Whole();
  KernelForm parts;

 private:
  const ir::Function& of_;
  const int64_t groups_;
  std::once_flag once_;
  std::unique_ptr<KernelForm> whole_;
};
using DividedPtr = std::unique_ptr<DividedForm>;

// Null: an obstacle.
FormPtr SplitForm(ir::Function fn, int64_t ctas, const ir::Target& target);
DividedPtr DivideForm(const ir::Function& fn, int64_t groups, int64_t cluster,
                      const ir::Target& target);

// A function, and what becomes of it in parts.
// Who copies for whom: CTAs of a cluster, neighbours along a range of the grid, of the same part.
struct SharedCopies {
  int64_t ctas = 2, along = 0, parts = 1;
  auto operator<=>(const SharedCopies&) const = default;
};

// Neighbours along one range of the grid that copy for each other; with CTAs that have no tile,
// where its grid is none of clusters.
struct Neighbours {
  int64_t ctas = 1;
  double asked = 1;  // of what it needs, what a CTA asks for itself; 1: they have nothing in common
  FormPtr form;      // null where they have nothing in common
};

struct TileForms {
  explicit TileForms(ir::Function fn, std::optional<ir::Function> rows = {})
      : form(std::move(fn)), loops(std::move(rows)) {}
  KernelForm form;
  const std::optional<ir::Function> loops;  // of rows, before they were unrolled
  // Null: an obstacle.
  KernelForm* InParts(int64_t ctas, const ir::Target& target);
  DividedForm* InGroups(int64_t count, int64_t cluster, const ir::Target& target);

 private:
  std::mutex mutex;                                          // of what follows
  std::map<int64_t, FormPtr> parts;                          // by CTAs; null: an obstacle
  std::map<std::pair<int64_t, int64_t>, DividedPtr> groups;  // and CTAs of each; likewise
};

// All that can become of one kernel.
class KeptForms {
 public:
  KeptForms(ir::Function fn, const ir::Target& target, std::optional<ir::Function> loops)
      : target_(target), plain_(std::move(fn), std::move(loops)) {}
  const ir::Target& target() const { return target_; }
  const ir::Function& fn() const { return plain_.form.fn; }
  TileForms& plain() { return plain_; }
  const ir::LayoutPlan& Copies();
  // Neighbours copy for each other. `along`: the grid's range (ir/passes/arrange_grid.h). `parts`:
  // of each tile's loop (ir/passes/even_parts.h).
  Neighbours& Sharing(const SharedCopies& how);
  // May CTAs walk over its tiles?
  bool CanStay();
  // So many instances in a tile; null: an obstacle.
  TileForms* Packed(int64_t heads);

 private:
  const ir::Target& target_;
  TileForms plain_;
  std::mutex mutex_;  // of what follows
  std::optional<ir::LayoutPlan> copies_;
  std::map<SharedCopies, Neighbours> sharing_;
  std::optional<bool> can_stay_;
  std::map<int64_t, std::unique_ptr<TileForms>> packed_;  // by instances; null: an obstacle
};

}  // namespace tilec::scheduler
