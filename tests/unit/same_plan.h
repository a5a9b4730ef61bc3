// Both ways of planning a launch, by names (runtime/launch.h) and by places (runtime/quick_plan.h),
// and whether they plan the same.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/launch.h"
#include "runtime/quick_plan.h"

namespace tilec {

// Arguments as the quick planner wants them. Not to be moved: it refers to itself.
struct ByPlaces {
  ByPlaces(const backend::KernelImage& image, const runtime::LaunchArgs& args) {
    steps.reserve(image.tensors.size());
    for (const backend::TensorArg& t : image.tensors) {
      const auto at = args.tensors.find(t.name);
      if (at == args.tensors.end()) return;
      const runtime::TensorView& v = at->second;
      steps.push_back(runtime::EffectiveStrides(v));
      tensors.push_back({v.dtype, v.data, v.dims, v.strides, steps.back()});
    }
    for (const backend::ScalarArg& s : image.scalars) {
      const auto at = args.scalars.find(s.name);
      if (at == args.scalars.end()) return;
      scalars.push_back(at->second);
    }
    for (const auto& [name, size] : args.dims) dims.push_back({name, size});
    given = {tensors, scalars, dims};
    all = tensors.size() == args.tensors.size() && scalars.size() == args.scalars.size();
  }
  ByPlaces(const ByPlaces&) = delete;
  ByPlaces& operator=(const ByPlaces&) = delete;

  std::vector<std::vector<int64_t>> steps;
  std::vector<runtime::GivenTensor> tensors;
  std::vector<runtime::ScalarValue> scalars;
  std::vector<runtime::GivenDim> dims;
  runtime::GivenLaunch given;
  bool all = false;  // nothing is missing, nothing is more than the signature has
};

inline void ExpectSame(const runtime::LaunchPlan& a, const runtime::LaunchPlan& b) {
  const auto config = [](const runtime::LaunchConfig& c) {
    return std::vector<uint64_t>{c.grid[0],    c.grid[1],    c.grid[2],    c.block[0],
                                 c.block[1],   c.block[2],   c.cluster[0], c.cluster[1],
                                 c.cluster[2], c.smem_bytes, c.dependent,  c.dependent_if_full};
  };
  const auto map = [](const runtime::TensorMapDesc& d) {
    return std::tuple(d.dtype, d.base, d.dims, d.strides_bytes, d.box, d.element_strides,
                      d.swizzle_bytes, d.swizzle_atom, d.l2_promotion_bytes, d.fill_nan);
  };
  EXPECT_EQ(config(a.config), config(b.config));
  ASSERT_EQ(a.args.size(), b.args.size());
  for (size_t i = 0; i < a.args.size(); ++i) EXPECT_EQ(a.args[i].bytes, b.args[i].bytes) << i;
  ASSERT_EQ(a.maps.size(), b.maps.size());
  for (size_t i = 0; i < a.maps.size(); ++i) EXPECT_EQ(map(a.maps[i]), map(b.maps[i])) << i;
  EXPECT_EQ(a.scratch_offset, b.scratch_offset);
  EXPECT_EQ(a.elements, b.elements);
  EXPECT_EQ(a.work_at, b.work_at);
  EXPECT_EQ(a.work_bytes, b.work_bytes);
  EXPECT_EQ(a.nothing_to_do, b.nothing_to_do);
}

// Plans the launch both ways: by places where and only where by names, and the same. Arguments that
// do not have the signature's names are planned by names alone.
inline void ExpectSamePlans(const backend::KernelImage& image, const runtime::LaunchArgs& args,
                            uint64_t work = 0) {
  DiagSink diags;
  const auto by_names = runtime::PlanLaunch(image, args, diags, work);
  const ByPlaces places(image, args);
  if (!places.all) return;
  runtime::QuickPlanner planner(image);
  std::optional<runtime::LaunchPlan> by_places(std::in_place);
  if (!planner.Begin(places.given) || !planner.Finish(work, &*by_places)) by_places.reset();
  EXPECT_EQ(by_names.ok(), by_places.has_value())
      << (diags.all().empty() ? "" : diags.all().front().message);
  if (by_names.ok() && by_places) ExpectSame(*by_names, *by_places);
}

}  // namespace tilec
