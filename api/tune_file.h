// Tunes that were measured, as a file that a build carries: `tilec tune … -o tunes.toml` writes it,
// --tune=tunes.toml takes from it what was found for exactly these sizes. TOML, one table for each
// kernel and its sizes:
//
//   [[tune]]
//   kernel = "matmul.tile:gemm"      # file and kernel, as programs name them
//   sizes = { K = 4096, M = 16, N = 14336 }   # dims, integer scalars, constants, given tunes
//   values = { BK = 128, BM = 64, BN = 64 }   # of the tunes that were open
//   schedule = "solve:clusters"      # a word of --schedule; left out: as the options say
//   us = 24.1                        # measured, and of what the model would have taken
//   model_us = 27.4
//   machine = "h200"
//   device = "NVIDIA H200 (sm_90a, 132 SMs, 140 GiB, driver CUDA 13.0)"
//   compiler = "0.2.0 (LLVM 19.1.7)"
//   source = "…"                     # hash of the texts
//
// What a row is of is said where it differs: another machine's is not taken, another compiler's or
// another text's is.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/call.h"
#include "api/pipeline.h"

namespace tilec::api {

struct TunesRow {
  std::string kernel;
  frontend::Values sizes, values;
  std::string schedule;  // "": as the options say
  double us = 0, model_us = 0;
  std::string machine, device, compiler, source;
  Span at, values_at;  // in the file
  bool SameCall(const TunesRow& other) const {
    return kernel == other.kernel && sizes == other.sizes && machine == other.machine;
  }
};

struct TunesFile {
  std::string path;
  std::vector<TunesRow> rows;
};

// By kernel, machine and sizes; reading it gives the same rows again.
std::string ToText(std::vector<TunesRow> rows);
// `file` of `sources` is the text.
Result<TunesFile> ReadTunes(const SourceMap& sources, int32_t file, DiagSink& diags);
// In place of the row of the same call, if there is one.
void Merge(TunesRow row, std::vector<TunesRow>* rows);

// Reads the file that `tune` names, if it names one. Rows about kernels of the loaded program must
// be of kernels and tunes that there are.
Result<> LoadTunes(Loaded& loaded, const std::string& tune, DiagSink& diags);

// What a row says of a call: kernel, sizes, and what it was compiled from and for.
TunesRow RowFor(const Loaded& loaded, const std::string& kernel, const Call& call,
                const ir::Target& machine, const std::string& compiler);
// The row of the loaded file that holds for `like`, or none, and then a note or a warning says why.
Result<std::optional<TunesRow>> FindRow(const Loaded& loaded, const frontend::Signature& signature,
                                        const Call& call, const TunesRow& like, DiagSink& diags);

}  // namespace tilec::api
