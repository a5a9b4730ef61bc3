// Programs of roles as they are told, against the functions they are read from.
//
// SPDX-License-Identifier: Apache-2.0
#include "explain/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "api/pipeline.h"
#include "api/stdlib.h"
#include "tests/unit/h200.h"

namespace tilec::explain {
namespace {

struct Lowered {
  api::Loaded loaded;
  DiagSink diags;
  std::optional<ir::Function> fn;
  std::vector<RoleProgram> roles;
};

void Lower(const std::string& file, const std::string& kernel, const std::string& schedule,
           const frontend::Values& values, Lowered* out) {
  const api::StandardLibrary library("");
  auto program = api::LoadProgram(out->loaded.sources, TILEC_SOURCE_DIR "/stdlib/" + file + ".tile",
                                  library, out->diags);
  ASSERT_TRUE(program.ok());
  out->loaded.program.emplace(std::move(*program));
  api::Call call;
  call.all = call.statics = values;
  const auto signature = frontend::SignatureOf(*out->loaded.program, kernel, out->diags);
  ASSERT_TRUE(signature.ok());
  for (const frontend::ParamInfo& p : signature->params)
    if (p.role == frontend::ParamRole::kTensor)
      call.facts[p.name] = {.base_align_bytes = 16,
                            .stride_align_bytes = 16,
                            .last_dim_align = 16 / ir::ByteSize(p.dtype),
                            .last_contiguous = true};
  auto fn = api::MakeTileIr(out->loaded, kernel, call, nullptr, out->diags);
  ASSERT_TRUE(fn.ok()) << RenderAll(out->diags, out->loaded.sources);
  api::PipelineOptions options;
  options.schedule = schedule;
  fn = api::LowerToWarps(out->loaded, std::move(*fn), options, nullptr, out->diags);
  ASSERT_TRUE(fn.ok()) << RenderAll(out->diags, out->loaded.sources);
  out->fn = std::move(*fn);
  auto roles = ReadProgram(*out->fn, ir::H200(), out->loaded.sources, out->diags);
  ASSERT_TRUE(roles.ok()) << RenderAll(out->diags, out->loaded.sources);
  out->roles = std::move(*roles);
}

int CountOps(const ir::Function& fn, std::initializer_list<ir::OpKind> kinds) {
  int count = 0;
  const std::function<void(ir::BlockId)> walk = [&](ir::BlockId block) {
    for (ir::OpId id : fn.blocks[block].ops) {
      count += std::count(kinds.begin(), kinds.end(), fn.ops[id].kind) > 0 ? 1 : 0;
      for (ir::BlockId region : fn.ops[id].regions) walk(region);
    }
  };
  walk(fn.body);
  return count;
}

const RoleProgram* Role(const Lowered& lowered, const std::string& name) {
  for (const RoleProgram& role : lowered.roles)
    if (role.name == name) return &role;
  return nullptr;
}

bool Has(const RoleProgram& role, const std::string& text, const std::string& reason) {
  return std::any_of(role.lines.begin(), role.lines.end(), [&](const ProgramLine& line) {
    return line.text.find(text) != std::string::npos &&
           line.reason.find(reason) != std::string::npos && line.at.line > 0;
  });
}

void ExpectWhole(const Lowered& lowered) {
  int waits = 0, signals = 0;
  for (const RoleProgram& role : lowered.roles) {
    waits += role.waits;
    signals += role.signals;
    for (const ProgramLine& line : role.lines)
      for (const char* word : {"wait", "arrive", "fence", "meet", "expect", "set up"})
        if (line.text.compare(0, std::string(word).size(), word) == 0) {
          EXPECT_FALSE(line.reason.empty()) << role.name << ": " << line.text;
        }
  }
  using ir::OpKind;
  EXPECT_EQ(waits, CountOps(*lowered.fn, {OpKind::kMbarWait, OpKind::kMmaWait, OpKind::kTmaWait,
                                          OpKind::kCtaSync}));
  EXPECT_EQ(signals, CountOps(*lowered.fn, {OpKind::kMbarArrive, OpKind::kMbarExpect}));
}

TEST(Program, GemmInRoles) {
  Lowered lowered;
  Lower("matmul", "gemm", "solve", {}, &lowered);
  ASSERT_FALSE(HasFatalFailure());
  ExpectWhole(lowered);
  const RoleProgram *load = Role(lowered, "load"), *compute = Role(lowered, "compute");
  ASSERT_NE(load, nullptr);
  ASSERT_NE(compute, nullptr);
  EXPECT_TRUE(Has(*load, "wait for the empty barrier of `A`, `B`", "until `compute` has read"));
  EXPECT_TRUE(Has(*load, "start copy of `B`", ""));
  EXPECT_TRUE(Has(*compute, "wait for the full barrier of `A`, `B`", "until `load` has filled"));
  EXPECT_TRUE(Has(*compute, "arrive at the empty barrier of `A`, `B`", "`load` may fill it again"));
  EXPECT_TRUE(Has(*compute, "start product `A` · `B`", ""));
  // The loop's ops stand deeper than the loop.
  const auto loop = std::find_if(load->lines.begin(), load->lines.end(), [](const auto& line) {
    return line.text.compare(0, 3, "for") == 0;
  });
  ASSERT_NE(loop, load->lines.end());
  EXPECT_EQ((loop + 1)->depth, loop->depth + 1);
}

// One role that does everything, and attention with its branches.
TEST(Program, EverythingHasAReason) {
  for (const char* schedule : {"sequential", "solve"}) {
    Lowered lowered;
    Lower("attention", "attention", schedule, {{"D", int64_t{64}}, {"causal", true}}, &lowered);
    ASSERT_FALSE(HasFatalFailure());
    ExpectWhole(lowered);
  }
}

// A copy that combines is told from one that stores.
TEST(Program, TilesCombinedByCopies) {
  Lowered lowered;
  Lower("../tests/exec/split_k", "split_k", "sequential", {}, &lowered);
  ASSERT_FALSE(HasFatalFailure());
  ExpectWhole(lowered);
  ASSERT_FALSE(lowered.roles.empty());
  const RoleProgram& all = lowered.roles.back();
  EXPECT_TRUE(Has(all, "start atomic add of `C` in global memory", ""));
  EXPECT_FALSE(Has(all, "start copy of `C`", ""));
}

// What the verifier does not accept is not explained.
TEST(Program, WrongProgramsAreRefused) {
  Lowered lowered;
  Lower("matmul", "gemm", "solve", {}, &lowered);
  ASSERT_FALSE(HasFatalFailure());
  ir::Function fn = *lowered.fn;
  const std::function<bool(ir::BlockId)> drop = [&](ir::BlockId block) {
    std::vector<ir::OpId>& ops = fn.blocks[block].ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      if (fn.ops[ops[i]].kind == ir::OpKind::kMbarArrive) {
        ops.erase(ops.begin() + static_cast<int64_t>(i));
        return true;
      }
      for (ir::BlockId region : std::vector<ir::BlockId>(fn.ops[ops[i]].regions))
        if (drop(region)) return true;
    }
    return false;
  };
  ASSERT_TRUE(drop(fn.body));
  DiagSink diags;
  EXPECT_FALSE(ReadProgram(fn, ir::H200(), lowered.loaded.sources, diags).ok());
  EXPECT_TRUE(diags.has_errors());
}

}  // namespace
}  // namespace tilec::explain
