// The timeline of --timeline: stamps read back into spans, and a stamped kernel on the emulator,
// whose clock counts instructions.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "backend/ptxas.h"
#include "explain/explain.h"
#include "explain/measured.h"
#include "ir/stamps.h"
#include "ir/verify.h"
#include "scheduler/scheduler.h"
#include "tools/runner.h"

namespace tilec::tools {
namespace {

ir::StampTable TwoRoles() {
  ir::StampTable table;
  table.roles = {"load", "compute"};
  table.records = 4;
  table.sites = {{0, "wait", {}, {}}, {0, "copy", {}, {}}, {1, "product", {}, {}}};
  return table;
}

TEST(Timeline, StampsBecomeSpans) {
  // The clock wraps between the roles; the second role began before the first.
  const std::vector<uint32_t> words = {
      0, 5, 1, 25, 0, 40, ir::kNoStamp, ir::kNoStamp, 2, 0xfffffffb, 2, 15, 2, 35, 2, 36};
  const Timeline t = ReadTimeline(TwoRoles(), words);
  ASSERT_EQ(t.spans.size(), 7u);
  EXPECT_EQ(t.spans[0].begin, 10);
  EXPECT_EQ(t.spans[0].end, 30);
  EXPECT_EQ(t.spans[1].site, 1);
  EXPECT_EQ(t.spans[2].occurrence, 1);
  EXPECT_EQ(t.spans[2].end, t.spans[2].begin);  // the last of its role
  EXPECT_EQ(t.spans[3].role, 1);
  EXPECT_EQ(t.spans[3].begin, 0);
  EXPECT_EQ(t.spans[3].end, 20);
  EXPECT_TRUE(t.full);  // the second role has filled its part
}

TEST(Timeline, GarbageInTheBufferIsNoSpan) {
  const Timeline t = ReadTimeline(TwoRoles(), {7, 5, 1, 25});
  EXPECT_TRUE(t.spans.empty());
  EXPECT_FALSE(t.full);
}

Options Gemm() {
  Options o;
  o.device = "emulator";
  o.no_cache = true;
  o.timeline = "unused";
  return o;
}

Result<RunResult> RunGemm(Session& session, int64_t k) {
  auto kernel = session.LoadKernel("std/matmul.tile:gemm");
  if (!kernel.ok()) return DiagSink::Propagate();
  auto device = session.Open(nullptr);
  if (!device.ok()) return DiagSink::Propagate();
  RunRequest request;
  request.kernel = *kernel;
  request.values = {{"M", int64_t{128}}, {"N", int64_t{256}}, {"K", k}};
  request.device = device->get();
  request.check = true;
  return RunKernel(session, request);
}

TEST(Timeline, EveryRoleOfAKernelIsSeenTurnByTurn) {
  const Options options = Gemm();
  Session session(options);
  const auto result = RunGemm(session, 64 * 10);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->ok());
  ASSERT_TRUE(result->timeline.has_value());
  const Timeline& t = *result->timeline;
  ASSERT_GE(t.table.roles.size(), 2u);
  std::set<int> roles;
  std::map<int, int64_t> products;
  std::map<int, int64_t> last;
  for (const TimelineSpan& span : t.spans) {
    roles.insert(span.role);
    const ir::StampSite& site = t.table.sites[static_cast<size_t>(span.site)];
    EXPECT_EQ(site.role, span.role);
    EXPECT_GE(span.end, span.begin);
    EXPECT_GE(span.begin, last[span.role]);  // each role's spans are in order
    last[span.role] = span.begin;
    if (site.what == "product" && site.loop.known())
      products[span.role] = std::max(products[span.role], span.occurrence + 1);
  }
  EXPECT_EQ(roles.size(), t.table.roles.size());
  ASSERT_FALSE(products.empty());
  for (const auto& [role, turns] : products) EXPECT_EQ(turns, 10);
  EXPECT_FALSE(t.full);
  // For people, and for `tilec explain`.
  const SourceMap& sources = session.loaded().sources;
  EXPECT_NE(Summary(t, sources).find("cycles per turn (median of 9)"), std::string::npos)
      << Summary(t, sources);
  DiagSink diags;
  const auto measured =
      explain::ParseMeasured(ToJson(t, "gemm", "emulator", sources), "t.json", diags);
  ASSERT_TRUE(measured.ok()) << RenderAll(diags, sources);
  EXPECT_EQ(measured->spans.size(), t.spans.size());
  EXPECT_EQ(measured->roles, t.table.roles);
}

TEST(Timeline, DamagedFilesAreRefused) {
  for (const char* text :
       {"", "{", "[]", R"({"format":2})", R"({"format":1,"roles":[],"sites":[],"spans":3})",
        R"({"format":1,"roles":["a"],"sites":[{"role":1}],"spans":[]})",
        R"({"format":1,"roles":["a"],"sites":[{"role":0}],"spans":[[0,0,5,4]]})",
        R"({"format":1,"roles":["a"],"sites":[{"role":0}],"spans":[[1,0,5,6]]})",
        R"({"format":1,"roles":["a"],"sites":[{"role":0}],"spans":[[0,0,5]]})",
        R"({"format":1,"roles":[7],"sites":[],"spans":[]})"}) {
    DiagSink diags;
    EXPECT_FALSE(explain::ParseMeasured(text, "t.json", diags).ok()) << text;
    ASSERT_EQ(diags.all().size(), 1u);
    EXPECT_STREQ(diags.all()[0].def->code, "X805");
  }
}

constexpr const char* kGraph = R"(graph g
machine m
unit tensor capacity=1
op A issue=0 latency=100 regs=8 use=tensor:50
)";

// The trace has the measured spans as a process of its own, the first turn under the predicted one.
TEST(Timeline, TheTraceShowsWhatWasMeasured) {
  SourceMap sources;
  DiagSink diags;
  const auto graph = scheduler::ParseGraph(kGraph, sources.Add("g.graph", kGraph), diags);
  ASSERT_TRUE(graph.ok()) << RenderAll(diags, sources);
  const auto solution = scheduler::Solve(*graph, {}, diags);
  ASSERT_TRUE(solution.ok()) << RenderAll(diags, sources);
  const auto e = explain::Explain(*graph, solution->schedule, {}, sources, diags);
  ASSERT_TRUE(e.ok()) << RenderAll(diags, sources);
  explain::Measured measured;
  measured.roles = {"compute"};
  measured.spans = {{0, "wait", "", false, 0, 0, 900},
                    {0, "product", "g.tile:3", true, 0, 900, 960}};
  const auto trace = nlohmann::json::parse(explain::ToTrace(*e, 3, &measured));
  const auto plain = nlohmann::json::parse(explain::ToTrace(*e, 3));
  int spans = 0;
  int64_t predicted = INT64_MAX;
  for (const auto& event : plain["traceEvents"])
    if (event["ph"] == "X") predicted = std::min(predicted, event["ts"].get<int64_t>());
  for (const auto& event : trace["traceEvents"]) {
    if (event["pid"] != 3 || event["ph"] != "X") continue;
    ++spans;
    if (event["name"] == "product") {
      EXPECT_EQ(event["ts"], predicted);
      EXPECT_EQ(event["dur"], 60);
      EXPECT_EQ(event["args"]["source"], "g.tile:3");
    }
  }
  EXPECT_EQ(spans, 2);
  EXPECT_EQ(plain["traceEvents"].size() + 5, trace["traceEvents"].size());  // 2 spans, 3 names
}

// Without --timeline nothing of it is in the program: the pass works on a copy.
TEST(Timeline, TheProgramItselfIsUntouched) {
  const Options options = Gemm();
  Session session(options);
  ASSERT_TRUE(session.LoadKernel("std/matmul.tile:gemm").ok());
  api::Call call;
  for (const char* name : {"A", "B", "C"})
    call.facts[name] = {.base_align_bytes = 16, .stride_align_bytes = 16, .last_dim_align = 8};
  api::PipelineOptions plain = session.pipeline(), stamped = plain;
  stamped.stamps = 16;
  DiagSink& diags = session.diags();
  auto fn = api::MakeTileIr(session.loaded(), "gemm", call, nullptr, diags);
  ASSERT_TRUE(fn.ok());
  auto warps = api::LowerToWarps(session.loaded(), std::move(*fn), plain, nullptr, diags);
  ASSERT_TRUE(warps.ok());
  const auto before = api::MakeImage(session.loaded(), *warps, plain, nullptr, diags);
  ir::StampTable table;
  api::Observation look;
  look.stamps = &table;
  const auto with = api::MakeImage(session.loaded(), *warps, stamped, &look, diags);
  const auto after = api::MakeImage(session.loaded(), *warps, plain, nullptr, diags);
  ASSERT_TRUE(before.ok() && with.ok() && after.ok());
  EXPECT_TRUE(before->ptx == after->ptx);
  EXPECT_EQ(before->ptx.find("%clock"), std::string::npos);
  EXPECT_NE(with->ptx.find("%clock"), std::string::npos);
  EXPECT_FALSE(table.sites.empty());
  if (const std::string ptxas = Ptxas(); !ptxas.empty()) {  // stamps serialize nothing
    const auto report = backend::Assemble(with->ptx, with->target, ptxas, diags);
    ASSERT_TRUE(report.ok());
    EXPECT_TRUE(report->clean()) << report->log;
  }
  EXPECT_NE(api::ImageKey(session.loaded(), "gemm", call, plain),
            api::ImageKey(session.loaded(), "gemm", call, stamped));
}

}  // namespace
}  // namespace tilec::tools
