// Graphs, schedules and results of commands as files.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ir/schedule.h"
#include "ir/target.h"
#include "scheduler/scheduler.h"
#include "tools/session.h"

namespace tilec::tools {

// Reads a file into the session's sources, so that diagnostics can show its lines.
Result<int32_t> AddSource(Session& session, const std::string& path);
// --machine, a file or a built-in one; else that of --target.
Result<ir::Target> LoadMachine(Session& session);
// A sound graph, on the machine of --machine if there is one.
Result<scheduler::Graph> LoadGraph(Session& session, const std::string& path);
// As it stands in the file.
Result<ir::Schedule> LoadSchedule(Session& session, const std::string& path);
// For this graph, judged.
Result<ir::Schedule> LoadScheduleFor(Session& session, const scheduler::Graph& graph,
                                     const std::string& path);
// Solve, or what the cache has for the same question.
Result<scheduler::Solution> SolveCached(Session& session, const scheduler::Graph& graph,
                                        const scheduler::SolveOptions& options);
// To a file, or to standard output.
Result<> WriteResult(Session& session, const std::string& path, const std::string& text);

}  // namespace tilec::tools
