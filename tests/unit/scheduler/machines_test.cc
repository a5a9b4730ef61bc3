// Machine files: all that we have are sound; damage and contradictions are diagnosed; a file that
// extends another says what it assumes.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "ir/pass.h"
#include "tests/unit/scheduler/machine.h"

namespace tilec::scheduler {

namespace {

TEST(Machines, AllAreSound) {
  DiagSink diags;
  const std::vector<std::string> names = ir::BuiltinMachines();
  EXPECT_EQ(names, (std::vector<std::string>{"a10", "a100", "b200", "b300", "h100", "h200", "l40s",
                                             "rtx3090", "rtx4090", "rtx5090", "rtxpro6000", "spark",
                                             "twill_b200", "twill_h100"}));
  // Shared memory of a CTA by compute capability: CUDA C++ programming guide.
  const std::map<std::string, int64_t> smem = {
      {"sm_80", 163 << 10},   {"sm_86", 99 << 10},    {"sm_89", 99 << 10},   {"sm_90a", 227 << 10},
      {"sm_100a", 227 << 10}, {"sm_103a", 227 << 10}, {"sm_120a", 99 << 10}, {"sm_121a", 99 << 10}};
  std::map<std::string, int> stand;
  for (const std::string& name : names) {
    const ir::Target t = Machine(name);
    EXPECT_EQ(t.name, name);
    EXPECT_GE(t.ops.size(), 10u);
    EXPECT_EQ(t.limits.smem_bytes, smem.at(t.arch)) << name;
    stand[t.arch] += t.stands_for_arch;
    EXPECT_EQ(t.Has("tmem"), t.limits.tmem_columns == 512) << name;
    for (const char* op :
         {"dot.16", "dot.8", "exp2", "reduce.max", "load", "store", "cast", "what"})
      ASSERT_NE(t.CostOf(op), nullptr) << op;
    EXPECT_EQ(t.CostOf("what")->kind, "other");
    const Result<ir::Target> again = ir::ParseTarget(ir::ToToml(t), -1, diags);
    ASSERT_TRUE(again.ok()) << name;
    EXPECT_EQ(ir::ToToml(*again), ir::ToToml(t));
  }
  for (const auto& [arch, machines] : stand) EXPECT_EQ(machines, 1) << arch;
  const ir::Target h200 = Machine("h200");
  const Result<ir::Target> again = ir::ParseTarget(ir::ToToml(h200), -1, diags);
  ASSERT_TRUE(again.ok());
  for (size_t u = 0; u < h200.units.size(); ++u) {
    EXPECT_EQ(again->units[u].alone_percent, h200.units[u].alone_percent);
    EXPECT_EQ(again->units[u].full_clock_percent, h200.units[u].full_clock_percent);
  }
  EXPECT_LT(h200.units[0].full_clock_percent, 100);  // the tensor cores
  ir::Work tile;                                     // m64n128k128 in bf16, exp2 of its result
  tile.flops = 2.0 * 64 * 128 * 128;
  tile.steps = 8;
  tile.elements = 64 * 128;
  EXPECT_EQ(h200.CostOf("dot.16")->uses[0].cycles.At(tile), 512);
  EXPECT_EQ(h200.CostOf("dot.16")->latency.At(tile), 568);
  EXPECT_EQ(h200.CostOf("exp2")->latency.At(tile), 700);
  EXPECT_EQ(h200.CostOf("dot.8")->uses[0].cycles.At(tile), 256);
  EXPECT_EQ(h200.CostOf("dot.16")->origin.evidence, ir::Evidence::kMeasured);
}

TEST(Machines, DamageIsDiagnosed) {
  const std::string good(ir::BuiltinMachineText("h200"));
  struct Bad {
    const char *from, *to, *message;
  };
  const Bad cases[] = {
      {"value = 232448", "value = -1", "`value` is -1"},
      {"value = 232448", "value = 'x'", "`value` is not a whole number"},
      {"name = \"smem_bytes\"", "name = \"smem_bites\"", "there is no limit `smem_bites`"},
      {"name = \"max_warps\"", "name = \"sms\"", "limit `sms` is given twice"},
      {"tag = \"documented\"", "tag = \"guessed\"", "`guessed` is no tag"},
      {"tag = \"documented\"\n", "", "there is no `tag` here"},
      {"tensor = {", "tenser = {", "there is no unit `tenser`"},
      {"capacity = 1", "capacity = 0", "`capacity` is 0"},
      {"alone_percent = 56", "alone_percent = 156", "`alone_percent` is 156, not in 1…100"},
      {"full_clock_percent = 79", "full_clock_percent = 0", "`full_clock_percent` is 0"},
      {"kind = \"dot\"", "kid = \"dot\"", "there is no key `kid` here"},
      {"latency = { base = 56,", "latency = { bass = 56,", "there is no key `bass` here"},
      {"latency = { base = 56,", "latency = { base = -56,", "`base` is not a cost >= 0"},
      {"ops = [\"*\"]", "ops = [\"dot\"]", "op `dot` is costed as"},
      {"medium = \"smem\"", "medium = \"disk\"", "there is no medium `disk`"},
      {"[[unit]]", "[[unit]", ""},
      {"features = [", "features = 3 #", "`features` is not a list of texts"},
      {"copy_cycles = {", "copy_cycle = {", "there is no key `copy_cycle` here"},
      {"launch_ms = { value", "launch_ms = { valu", "there is no key `valu` here"},
      {"copy_cycles = { value = 2048", "copy_cycles = { value = 2.5", "is not a whole number"},
      {"copy_cycles = { value = 2048, tag = \"measured\"", "copy_cycles = { value = 2048",
       "there is no `tag` here"},
      {"name = \"h200\"", "name = \"h200\"\nextends = \"h20\"", "there is no machine `h20`"},
      {"arch = \"sm_90a\"", "arch = \"hopper\"", "`hopper` is no architecture"},
      {"features = [\"tma\"", "features = [\"tna\"", "there is no feature `tna`"},
      {"kind = \"wgmma\"", "kind = \"wgma\"", "there is no matrix unit `wgma`"},
      {"dtypes = [\"bf16\"", "dtypes = [\"i4\"", "there is no type of operands `i4`"},
      {"dtypes = [\"bf16\", \"f16\", \"tf32\", \"e4m3\", \"e5m2\", \"i8\", \"u8\"]", "dtypes = []",
       "`wgmma` multiplies nothing"},
      {"kind = \"wgmma\"", "kind = \"none\"", "no unit multiplies these"},
  };
  for (const Bad& bad : cases) {
    std::string text = good;
    const size_t at = text.find(bad.from);
    ASSERT_NE(at, std::string::npos) << bad.from;
    text.replace(at, std::string(bad.from).size(), bad.to);
    DiagSink diags;
    SourceMap sources;
    EXPECT_FALSE(ir::ParseTarget(text, sources.Add("m.toml", text), diags).ok()) << bad.to;
    ASSERT_EQ(diags.all().size(), 1u);
    EXPECT_EQ(std::string(diags.all()[0].def->code), "I260");
    EXPECT_NE(diags.all()[0].message.find(bad.message), std::string::npos)
        << diags.all()[0].message;
    EXPECT_TRUE(diags.all()[0].span.known());
  }
}

// What each is possible and cannot hold together.
TEST(Machines, ContradictionsAreDiagnosed) {
  struct Bad {
    const char *lines, *message, *at;
  };
  const Bad cases[] = {
      {"arch = \"sm_90\"\n", "`sm_90` has no setmaxnreg", "\"sm_90\""},
      {"arch = \"sm_80\"\nfeatures = [\"tma\"]\n", "`sm_80` has no tma", "[\"tma\"]"},
      {"arch = \"sm_120a\"\n", "`sm_120a` has no wgmma", "\"sm_120a\""},
      {"features = [\"tmem\"]\narch = \"sm_100a\"\n"
       "[matrix_unit]\nkind = \"tcgen05\"\ndtypes = [\"bf16\"]\ntag = \"assumed\"\nsource = "
       "\"x\"\n",
       "there are 0 columns of tensor memory", "\"h200\""},
      {"[[limit]]\nname = \"smem_bytes\"\nvalue = 233000\ntag = \"assumed\"\nsource = \"x\"\n",
       "`smem_bytes` asks for 234024, and `smem_bytes_per_sm` is 233472", "[[limit]]"},
      {"[[limit]]\nname = \"regs_per_thread\"\nvalue = 128\ntag = \"assumed\"\nsource = \"x\"\n",
       "`max_regs_per_thread` asks for 240, and `regs_per_thread` is 128", "[[limit]]"},
      {"[lowering]\npersistent_slots = { value = 9, tag = \"assumed\", source = \"x\" }\n",
       "`persistent_slots` asks for 9, and `most_slots` is 8", "{ value = 9"},
  };
  for (const Bad& bad : cases) {
    const std::string text =
        std::string("name = \"m\"\ntitle = \"t\"\nextends = \"h200\"\n") + bad.lines;
    DiagSink diags;
    SourceMap sources;
    EXPECT_FALSE(ir::ParseTarget(text, sources.Add("m.toml", text), diags).ok()) << bad.lines;
    ASSERT_EQ(diags.all().size(), 1u);
    EXPECT_EQ(std::string(diags.all()[0].def->code), "I262");
    EXPECT_NE(diags.all()[0].message.find(bad.message), std::string::npos)
        << diags.all()[0].message;
    EXPECT_FALSE(diags.all()[0].helps.empty());
    EXPECT_EQ(text.substr(diags.all()[0].span.begin, std::string(bad.at).size()), bad.at);
  }
}

// Who extends a machine says what differs, and is believed for nothing else.
TEST(Machines, ExtendingAssumes) {
  const std::string text =
      "name = \"m\"\ntitle = \"t\"\nextends = \"h200\"\nfeatures = [\"tma\"]\n"
      "[[limit]]\nname = \"sms\"\nvalue = 40\ntag = \"documented\"\nsource = \"x\"\n";
  DiagSink diags;
  const Result<ir::Target> target = ir::ParseTarget(text, -1, diags);
  ASSERT_TRUE(target.ok());
  const ir::Target h200 = Machine("h200");
  EXPECT_EQ(target->limits.sms, 40);
  EXPECT_EQ(target->origins.at("limit.sms").evidence, ir::Evidence::kDocumented);
  EXPECT_EQ(target->arch, h200.arch);
  EXPECT_FALSE(target->Has("clusters"));
  EXPECT_FALSE(target->stands_for_arch);
  EXPECT_EQ(target->lowering.copy_cycles, h200.lowering.copy_cycles);
  const ir::Origin& origin = target->origins.at("lowering.copy_cycles");
  EXPECT_EQ(origin.evidence, ir::Evidence::kAssumed);
  EXPECT_EQ(origin.source, "as of h200: " + h200.origins.at("lowering.copy_cycles").source);
  ASSERT_EQ(target->ops.size(), h200.ops.size());
  EXPECT_EQ(target->ops[0].origin.evidence, ir::Evidence::kAssumed);
  const Result<ir::Target> again = ir::ParseTarget(ir::ToToml(*target), -1, diags);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(ir::ToToml(*again), ir::ToToml(*target));
}

}  // namespace

}  // namespace tilec::scheduler
