// A bundle: kernels built ahead of time, in one file that a host loads without a compiler.
//
// A kernel has several builds: for each target, for each set of values that were compiled in, and
// for tensors that are aligned (16 bytes, as allocators give) or not. A launch may take a build of
// its device's target whose values and facts its arguments meet. Of those it takes the one that was
// chosen for the nearest sizes; where none was chosen by sizes, or two are equally near, the first:
// order is the writer's, best first.
//
// The file, little-endian:
//
//   bytes  0… 7   "tilecbdl"
//   bytes  8…11   version of the format, 3
//   bytes 12…15   number of builds
//   bytes 16…23   bytes of the file
//   bytes 24…31   XXH3 (64 bits) of everything behind byte 32
//   then          the compiler's version, and of each build five texts: its image as JSON
//                 (backend/kernel_image.h) less what follows; its PTX; of each line of its source
//                 map the PTX line, line and column (4 bytes each), op and file (texts); its
//                 machine code (a cubin; no bytes: none); its sizes as lines `M=64 N=4096`. A text
//                 is a length of 8 bytes and so many bytes.
//
// PTX and source map are apart from the JSON because they are nine tenths of it: a bundle is to be
// read in less than a millisecond (bench/launch_costs.def).
//
// The hash finds damage; it is no signature: whoever may write a bundle may choose what runs on the
// GPU. Nothing in a file is trusted by the host: lengths are checked against the file, images by
// the reader of images, launches by what every launch is checked by.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel_image.h"
#include "runtime/launch.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::runtime {

struct Build {
  backend::KernelImage image;
  std::string cubin;  // of image.ptx, for image.target; "": the driver assembles
  // Dims and integer values of calls for which the builder chose this build's tiles. Empty: it was
  // not chosen by sizes.
  std::vector<Bindings> sizes;
};

struct Bundle {
  std::string compiler;  // its version, for people
  std::vector<Build> builds;
};

std::string WriteBundle(const Bundle& bundle);
// `name` is what diagnostics call the bytes.
Result<Bundle> ReadBundle(std::string_view bytes, const std::string& name, DiagSink& diags);

// How far a call is from what `build` was chosen for: the sum of |log2(have / wanted)| over the
// names of the nearest of its sizes; a name that the call has not counts as 64. Infinite if the
// build has no sizes.
double Distance(const Build& build, const Bindings& call);

// Which build of `kernel` a launch with these arguments takes on a device of this target. Fails
// with what each build lacked.
Result<size_t> ChooseBuild(const Bundle& bundle, const std::string& kernel,
                           const std::string& target, const LaunchArgs& args, DiagSink& diags);

// Kernels by name, each once, in order of their first build.
std::vector<std::string> KernelsOf(const Bundle& bundle);

}  // namespace tilec::runtime
