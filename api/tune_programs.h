// What points of a space of tunes become when they are lowered, each in the form it was rated in,
// and how long those programs take for the sizes of the call.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "api/tune.h"
#include "api/tune_memory.h"
#include "api/tune_rows.h"
#include "api/tune_space.h"

namespace tilec::api {

class TunePrograms {
 public:
  explicit TunePrograms(const TuneSpace& space) : space_(space), q_(space.question()) {}
  // Nothing: it was refused, or is known to be slow. `standard`: an author tried it.
  std::optional<TunePoint> Lower(const Point& point, bool standard);
  // Lowers it ahead of who will ask, on any thread.
  void Become(const Point& point) const;

 private:
  std::optional<TunePoint> Lower(const Point& point, bool standard, int64_t split);
  const RowTiles& StandardRows();  // those of the default
  PipelineOptions FormOf(const Point& point, int64_t split) const;
  const TuneMemory::Program* Become(const Point& point, const PipelineOptions& with) const;
  std::unique_ptr<TuneMemory::Program> LowerTo(const TuneMemory::Known& known,
                                               const frontend::Values& statics,
                                               const PipelineOptions& with) const;

  const TuneSpace& space_;
  const TuneQuestion& q_;
  std::once_flag standard_rows_once_;
  RowTiles standard_rows_;
};

}  // namespace tilec::api
