// A finding about a kernel of ours leads to its source: the .tile line, the role of the warp, the
// slot of the ring and the turn.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/emulator/judge/finding.h"
#include "tools/subject.h"

namespace tilec::tools {
namespace {

namespace judge = runtime::judge;

// The wait in front of the product passes at once.
std::string WithoutFullWait(const std::string& ptx) {
  const size_t product = ptx.find("wgmma.mma_async");
  const size_t wait = ptx.rfind("mbarrier.try_wait", product);
  const size_t end = ptx.find(';', wait);
  const size_t predicate = ptx.find('%', wait);
  const std::string name = ptx.substr(predicate, ptx.find(',', predicate) - predicate);
  std::string out = ptx;
  return out.replace(wait, end - wait, "setp.eq.u32 " + name + ", 0, 0");
}

std::vector<judge::Finding> Judge(bool wrong) {
  Options options;
  options.no_cache = true;
  Session session(options);
  Assignments given;
  given.values = {{"M", int64_t{128}},  {"N", int64_t{128}},  {"K", int64_t{640}},
                  {"BM", int64_t{128}}, {"BN", int64_t{128}}, {"BK", int64_t{64}}};
  const auto kernel = session.LoadKernel("std/matmul.tile:gemm");
  EXPECT_TRUE(kernel.ok());
  auto subject = KernelSubject(session, *kernel, given);
  EXPECT_TRUE(subject.ok());
  if (wrong) (*subject)->Rewrite(WithoutFullWait);
  runtime::EmulatorOptions o;
  o.check = runtime::EmulatorOptions::Check::kOn;
  o.report = std::make_shared<judge::Report>();
  o.policy = runtime::Policy::kProducerFirst;
  const auto device = runtime::OpenEmulator(o);
  EXPECT_TRUE((*subject)->Run(*device).ok() || wrong);
  session.diags().Clear();
  return o.report->findings();
}

TEST(Places, AFindingLeadsToTheSource) {
  EXPECT_TRUE(Judge(false).empty());
  const std::vector<judge::Finding> found = Judge(true);
  const auto early = std::find_if(found.begin(), found.end(), [](const judge::Finding& f) {
    return f.rule == judge::Rule::kA2 && f.accesses.size() == 2;
  });
  ASSERT_NE(early, found.end()) << judge::ToText(found);
  const std::string text = judge::ToText(*early);
  for (const judge::Access& a : early->accesses) {
    EXPECT_NE(a.site.source.find("matmul.tile:"), std::string::npos) << text;
    EXPECT_NE(a.object.find("slot 0 of "), std::string::npos) << text;
  }
  // The product and the copy it did not wait for.
  EXPECT_NE(early->accesses[0].site.source.find("(mma)"), std::string::npos) << text;
  EXPECT_NE(early->accesses[1].site.source.find("(tma_load)"), std::string::npos) << text;
  EXPECT_NE(early->missing.find("the full barriers of A, B"), std::string::npos) << text;
  EXPECT_NE(early->missing.find("(compute"), std::string::npos) << text;
  EXPECT_EQ(early->accesses[1].turn, 1u) << text;
}

}  // namespace
}  // namespace tilec::tools
