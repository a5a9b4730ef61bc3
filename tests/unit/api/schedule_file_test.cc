// --schedule=FILE through the public interface: the file of an unedited schedule gives the same
// program, another lawful schedule another one, and what cannot be obeyed is refused with its
// place.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "api/pipeline.h"
#include "include/tilec/tilec.h"
#include "scheduler/program.h"
#include "tests/unit/api/loaded.h"
#include "tests/unit/temp_folder.h"

namespace tilec {
namespace {

constexpr const char* kGemm = R"(
kernel gemm(A: bf16[M, K], B: bf16[N, K], C: out bf16[M, N]) {
  parallel m in tiles(M, 128), n in tiles(N, 128) {
    var acc: f32[128, 128] = 0
    for k in tiles(K, 64) {
      acc += A[m, k] @ B[n, k].T
    }
    C[m, n] = acc as bf16
  }
}
)";

// Two innermost loops; the schedule of the second, with chained products, overlaps turns and so
// shows in the program.
constexpr const char* kTwoLoops = R"(
kernel two(A: bf16[M, 64], B: bf16[K, 64], C: out f32[M, 64]) {
  parallel m in tiles(M, 128) {
    let a = A[m, :]
    var acc: f32[128, 64] = 0
    for k in tiles(K, 64) {
      acc += a @ B[k, :]
    }
    for k in tiles(K, 32) {
      acc += (exp2(a @ B[k, :].T) as bf16) @ B[k, :]
    }
    C[m, :] = acc
  }
}
)";

constexpr const char* kTwoProducts = R"(
kernel chain(A: bf16[M, 64], B: bf16[K, 64], C: out f32[M, 64]) {
  parallel m in tiles(M, 128) {
    let a = A[m, :]
    var acc: f32[128, 64] = 0
    for k in tiles(K, 64) {
      acc += (exp2(a @ B[k, :].T) as bf16) @ B[k, :]
    }
    C[m, :] = acc
  }
}
)";

struct Emitted {
  bool ok = false;
  std::string ptx;
  std::string plan;
  std::string codes;  // of all problems, warnings too
  std::string text;
  int line = 0;  // of the first problem
};

class ScheduleFileTest : public ::testing::Test {
 protected:
  // What `tilec schedule` writes: the loops of `kernel` as a compilation solves them.
  std::string Solved(
      const std::string& source, const std::string& kernel, int slices = 0,
      const scheduler::SolveOptions& solve = scheduler::SolveOptions::ForCompilation()) {
    api::Loaded loaded;
    DiagSink diags;
    LoadText(loaded, source);
    auto fn = api::MakeTileIr(loaded, kernel, AlignedCall(), nullptr, diags);
    EXPECT_TRUE(fn.ok());
    std::vector<ir::PassStep> steps;
    for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
    fn = api::RunSteps(loaded, std::move(*fn), steps, {}, nullptr, diags);
    EXPECT_TRUE(fn.ok());
    auto target = ir::LoadBuiltinTarget("h200", diags);
    EXPECT_TRUE(target.ok());
    scheduler::ProgramOptions options;
    options.target = &*target;
    options.solve = solve;
    options.slices = slices;
    return scheduler::ToText(scheduler::ScheduleProgram(*fn, options));
  }
  std::string Write(const std::string& text) { return folder_.Write("x.sched", text); }

  Emitted Emit(const std::string& source, const std::string& schedule) {
    CompilerOptions options;
    options.schedule = schedule;
    options.tune = "default";  // a file says what loops do, not whether CTAs walk over tiles
    options.disk_cache = false;
    Emitted out;
    auto compiler = Compiler::Create(options);
    const auto fail = [&](const Status& status) {
      for (const Problem& p : status.problems())
        out.codes += (out.codes.empty() ? "" : " ") + p.code;
      out.text += status.text();
      if (!status.problems().empty()) out.line = status.problems()[0].line;
      return out;
    };
    if (!compiler.ok()) return fail(compiler.status());
    auto kernel = compiler->CompileText(source, "t.tile");
    if (!kernel.ok()) return fail(kernel.status());
    Args args;
    const int64_t width = source == kGemm ? 256 : 64;
    for (const char* name : {"A", "B"})
      args.Set(name, Tensor{DType::kBF16, 4096, {256, width}, {}});
    const DType c = source == kGemm ? DType::kBF16 : DType::kF32;
    args.Set("C", Tensor{c, 4096, {256, width}, {}});
    auto ptx = kernel->Emit("ptx", args);
    out.ok = ptx.ok();
    if (ptx.ok()) out.ptx = *ptx;
    if (auto plan = kernel->Emit("plan", args); plan.ok()) out.plan = *plan;
    return fail(ptx.status());
  }

  // A file's rings are obeyed; those of the compiler's own answer become as deep as shared memory
  // allows, and its plan says so, one line per ring. `text` with the depths that `solved` says.
  static std::string AsDeepAs(const Emitted& solved, const std::string& text) {
    constexpr std::string_view kSlots = ".slots from=", kTo = " to=", kDepth = " smem depth=";
    std::set<std::string> depths;
    for (size_t at = 0; (at = solved.plan.find(kSlots, at)) != std::string::npos;) {
      at = solved.plan.find(kTo, at) + kTo.size();
      depths.insert(solved.plan.substr(at, solved.plan.find(' ', at) - at));
    }
    EXPECT_EQ(depths.size(), 1U) << solved.plan;
    if (depths.size() != 1) return text;
    std::string deep = text;
    for (size_t at = 0; (at = deep.find(kDepth, at)) != std::string::npos;) {
      at += kDepth.size();
      deep.replace(at, deep.find('\n', at) - at, *depths.begin());
    }
    return deep;
  }

  static std::string Replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return text;
  }

  TempFolder folder_;
};

TEST_F(ScheduleFileTest, AnUneditedFileGivesTheSameProgram) {
  for (const auto& [source, name] : {std::pair{kGemm, "gemm"}, std::pair{kTwoLoops, "two"}}) {
    const Emitted solved = Emit(source, "solve");
    ASSERT_TRUE(solved.ok) << solved.text;
    ASSERT_EQ(solved.codes.find("R587"), std::string::npos) << "the solver's is not lowered";
    const std::string text = Solved(source, name);
    EXPECT_NE(text.find(std::string("schedule ") + name + "\n"), std::string::npos) << text;
    const Emitted read = Emit(source, Write(text));
    ASSERT_TRUE(read.ok) << read.text;
    EXPECT_EQ(read.plan.find("changed what="), std::string::npos) << "obeyed as it stands";
    const Emitted deep = Emit(source, Write(AsDeepAs(solved, text)));
    ASSERT_TRUE(deep.ok) << deep.text;
    EXPECT_TRUE(deep.ptx == solved.ptx) << name;
  }
}

// The file says by the names of its ops into how many slices the rows are cut.
TEST_F(ScheduleFileTest, AnotherLawfulScheduleGivesAnotherProgram) {
  const Emitted one = Emit(kTwoProducts, Write(Solved(kTwoProducts, "chain", 1)));
  const Emitted two = Emit(kTwoProducts, Write(Solved(kTwoProducts, "chain", 2)));
  ASSERT_TRUE(one.ok) << one.text;
  ASSERT_TRUE(two.ok) << two.text;
  for (int slices : {1, 2}) {
    const Emitted solved = Emit(kTwoProducts, "solve:slices=" + std::to_string(slices));
    const std::string text = AsDeepAs(solved, Solved(kTwoProducts, "chain", slices));
    EXPECT_TRUE(Emit(kTwoProducts, Write(text)).ptx == solved.ptx) << slices;
  }
  EXPECT_TRUE(one.ptx != two.ptx);
  // Every period twice as long: what overlapped comes one after the other.
  scheduler::SolveOptions slow = scheduler::SolveOptions::ForCompilation();
  slow.fixed_stages = 1;
  const std::string text = Solved(kTwoProducts, "chain", 1, slow);
  ASSERT_NE(text, "");
  const Emitted other = Emit(kTwoProducts, Write(text));
  ASSERT_TRUE(other.ok) << other.text;
  EXPECT_TRUE(other.ptx != one.ptx);
}

TEST_F(ScheduleFileTest, EveryLoopHasItsSection) {
  const std::string text = Solved(kTwoLoops, "two");
  const size_t second = text.find("schedule two.loop2");
  ASSERT_NE(second, std::string::npos) << text;
  // The loop without a section keeps its order and the compiler says so.
  const Emitted one = Emit(kTwoLoops, Write(text.substr(0, second)));
  ASSERT_TRUE(one.ok) << one.text;
  EXPECT_NE(one.text.find("the file has no `schedule two.loop2`"), std::string::npos) << one.text;
  EXPECT_TRUE(one.ptx != Emit(kTwoLoops, "solve").ptx);
  // The order of sections means nothing.
  const Emitted swapped = Emit(kTwoLoops, Write(text.substr(second) + text.substr(0, second)));
  ASSERT_TRUE(swapped.ok) << swapped.text;
  EXPECT_TRUE(swapped.ptx == Emit(kTwoLoops, Write(text)).ptx);
}

TEST_F(ScheduleFileTest, ChangedContentIsAnotherProgram) {
  const std::string path = Write(Solved(kTwoLoops, "two"));
  CompilerOptions options;
  options.schedule = path;
  api::Loaded a, b;
  DiagSink diags;
  for (api::Loaded* l : {&a, &b})
    l->program.emplace(
        *frontend::Program::LoadText(l->sources, "t.tile", kTwoLoops, nullptr, diags));
  ASSERT_TRUE(api::LoadScheduleFile(a, path, diags).ok());
  Write(Solved(kTwoLoops, "two") + "# another\n");
  ASSERT_TRUE(api::LoadScheduleFile(b, path, diags).ok());
  const api::PipelineOptions o{"h200", path, ""};
  EXPECT_NE(api::ImageKey(a, "two", {}, o), api::ImageKey(b, "two", {}, o));
  EXPECT_EQ(api::ImageKey(a, "two", {}, o), api::ImageKey(a, "two", {}, o));
}

TEST_F(ScheduleFileTest, BadFilesAreRefusedWithTheirPlace) {
  const std::string good = Solved(kGemm, "gemm");
  const auto line_of = [&](const std::string& text, const std::string& what) {
    const size_t at = text.find(what);
    return 1 + static_cast<int>(
                   std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n'));
  };
  const auto refused = [&](const std::string& text, const char* code, int line) {
    const Emitted e = Emit(kGemm, Write(text));
    EXPECT_FALSE(e.ok) << text;
    EXPECT_EQ(e.codes.substr(0, 4), code) << e.text;
    EXPECT_EQ(e.line, line) << e.text;
    return e.text;
  };
  // An op that is gone, and one that is new.
  const std::string moved = Replaced(good, "op acc ", "op sum ");
  const std::string text = refused(moved, "S340", line_of(moved, "op sum "));
  EXPECT_NE(text.find("`sum` is not in the graph"), std::string::npos) << text;
  EXPECT_NE(text.find("`acc` has no cycle"), std::string::npos) << text;
  // A period that nothing can keep.
  const std::string fast = Replaced(good, "\nii ", "\nii 1 #");
  EXPECT_NE(refused(fast, "S341", line_of(fast, "op acc ")).find("breaks the law"),
            std::string::npos);
  refused(Replaced(good, "schedule gemm", "schedule gem"), "S344", 1);
  const int lines = static_cast<int>(std::count(good.begin(), good.end(), '\n'));
  refused(good + "\n" + good, "S343", lines + 2);
  refused("", "I250", 1);
  refused("# nothing\n", "I250", 1);
  refused("schedule gemm\n", "I250", 1);
  const Emitted missing = Emit(kGemm, folder_.path() + "missing.sched");
  EXPECT_FALSE(missing.ok);
  EXPECT_EQ(missing.codes, "R588") << missing.text;
  EXPECT_EQ(Emit(kGemm, "sove").codes, "R571");
}

// Role compute1 loads a tile of X and hands it on; or uses it, on what the other role made.
constexpr const char* kTwoRoles = R"(schedule added
machine h200
ii 8000
role load warps=1 regs=24
role compute0 warps=4 regs=160
role compute1 warps=4 regs=160
op load cycle=715 role=load
op load.2 cycle=367 role=load
op s cycle=1500 role=compute0
channel load smem depth=3
channel load.2 smem depth=3
)";
constexpr const char* kIdle = R"(op load.2.smem_load cycle=1800 role=compute1
op load.2.smem_load.out cycle=2500 role=compute1
op load.2.smem_load.in.cast cycle=3500 role=compute0
op cast cycle=4400 role=compute0
op acc cycle=6200 role=compute0
channel load.2.smem_load.out smem depth=2
)";
constexpr const char* kBusy = R"(op s.out cycle=1900 role=compute0
op s.in.cast cycle=2900 role=compute1
op load.2.smem_load cycle=3600 role=compute1
op cast cycle=4400 role=compute1
op cast.out cycle=4800 role=compute1
op cast.in.acc cycle=5600 role=compute0
op acc cycle=6200 role=compute0
channel s.out smem depth=2
channel cast.out smem depth=2
)";

// What a product makes is read in the product's own turn (scheduler/departures.h): the solver knows
// it, nothing of its schedule is moved, and the certificate holds for the graph with that law.
TEST_F(ScheduleFileTest, TheScheduleSaysThePeriodThatTheLawOfTurnsLeaves) {
  api::Loaded loaded;
  DiagSink diags;
  LoadText(loaded, R"(
kernel attention(Q: bf16[S, 128], K: bf16[L, 128], V: bf16[L, 128], O: out bf16[S, 128]) {
  parallel q in tiles(S, 128) {
    let qt = Q[q, :]
    var acc: f32[128, 128] = 0
    var m: f32[128] = -inf
    var l: f32[128] = 0
    for k in tiles(L, 128) {
      var s = qt @ K[k, :].T
      s = select(k.index[None, :] < L, s, -inf)
      let m_new = max(m, max(s, axis = 1))
      let p = exp2(s - m_new[:, None])
      let alpha = exp2(m - m_new)
      l = l * alpha + sum(p, axis = 1)
      acc = acc * alpha[:, None] + (p as bf16) @ V[k, :]
      m = m_new
    }
    O[q, :] = (acc / l[:, None]) as bf16
  }
}
)");
  auto fn = api::MakeTileIr(loaded, "attention", AlignedCall(), nullptr, diags);
  ASSERT_TRUE(fn.ok()) << RenderAll(diags, loaded.sources);
  std::vector<ir::PassStep> steps;
  for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
  fn = api::RunSteps(loaded, std::move(*fn), steps, {}, nullptr, diags);
  ASSERT_TRUE(fn.ok());
  auto target = ir::LoadBuiltinTarget("h200", diags);
  ASSERT_TRUE(target.ok());
  scheduler::ProgramOptions options;
  options.target = &*target;
  options.solve = scheduler::SolveOptions::ForCompilation();
  const scheduler::ProgramSchedule program = scheduler::ScheduleProgram(*fn, options);
  ASSERT_EQ(program.loops.size(), 1u);
  const scheduler::LoopReport& loop = program.loops[0];
  ASSERT_TRUE(loop.applied);
  const scheduler::Graph& certified = loop.extraction.graph;
  ir::Schedule schedule = loop.solution.schedule;
  schedule.graph_hash = scheduler::Hash(certified);
  EXPECT_TRUE(
      scheduler::VerifyCertificate(certified, schedule, loop.solution.certificate, diags).ok())
      << RenderAll(diags, loaded.sources);
  // Without the law there is a schedule that is no longer, or a shorter one that would not run:
  // then the loop's is the one that runs, and a note says what that costs.
  DiagSink quiet;
  const auto relaxed = scheduler::Solve(loop.extraction.graph, options.solve, quiet);
  ASSERT_TRUE(relaxed.ok());
  EXPECT_LE(relaxed->schedule.ii, schedule.ii);
  EXPECT_GT(schedule.ii, relaxed->schedule.ii);
  EXPECT_NE(loop.lost.find(std::to_string(schedule.ii)), std::string::npos) << loop.lost;
  EXPECT_EQ(loop.solution.lower_bound, relaxed->lower_bound);
}

TEST_F(ScheduleFileTest, ARoleThatWouldOnlyHandTilesOnIsSaidToBeIdle) {
  for (const bool busy : {false, true}) {
    api::Loaded loaded;
    LoadText(loaded, R"(
kernel added(A: bf16[M, 64], B: bf16[N, 64], X: f32[M, N], C: out f32[M, 64]) {
  parallel m in tiles(M, 64) {
    let a = A[m, :]
    var acc: f32[64, 64] = 0
    for n in tiles(N, 64) {
      let s = a @ B[n, :].T
      acc += ((s + X[m, n]) as bf16) @ B[n, :]
    }
    C[m, :] = acc
  }
}
)");
    loaded.schedule_file =
        loaded.sources.Add("added.sched", std::string(kTwoRoles) + (busy ? kBusy : kIdle));
    api::Call call = AlignedCall();
    call.facts["X"] = call.facts["A"];
    DiagSink diags;
    auto fn = api::MakeTileIr(loaded, "added", call, nullptr, diags);
    ASSERT_TRUE(fn.ok());
    api::PipelineOptions options;
    options.schedule = "added.sched";
    const auto warps = api::LowerToWarps(loaded, std::move(*fn), options, nullptr, diags);
    EXPECT_TRUE(warps.ok()) << RenderAll(diags, loaded.sources);
    const auto idle = std::count_if(diags.all().begin(), diags.all().end(), [](const auto& d) {
      return std::string(d.def->code) == "R590" &&
             d.message.find("role compute1 would only hand tiles on") != std::string::npos;
    });
    EXPECT_EQ(idle, busy ? 0 : 1) << RenderAll(diags, loaded.sources);
  }
}

}  // namespace
}  // namespace tilec
