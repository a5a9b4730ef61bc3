// SPDX-License-Identifier: Apache-2.0
#include "calibrate/ptx_writer.h"

#include <fmt/format.h>

namespace tilec::calibrate {

std::string Registers(const std::string& prefix, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += fmt::format("{}%{}{}", i ? ", " : "", prefix, i);
  return out;
}

std::string Write(const Parts& p) {
  const int threads = p.beside.empty() ? p.threads : 256;
  std::string s = fmt::format(
      ".extern .shared .align 1024 .b8 smem[];\n"
      ".visible .entry probe(.param .u64 out, .param .u32 trips{})\n"
      ".maxntid {}, 1, 1\n.minnctapersm 1\n{}{{\n",
      p.map ? ", .param .align 64 .b8 map_param[128]" : "", threads,
      p.cluster > 1 ? fmt::format(".explicitcluster\n.reqnctapercluster {}, 1, 1\n", p.cluster)
                    : "");
  s += ".reg .u32 %me, %warp, %lane, %trip, %trips, %smem, %cta, %left, %zero;\n"
       ".reg .u64 %out, %out_data, %map, %start, %stop, %begin, %end, %best, %offset;\n"
       ".reg .pred %more, %first, %other;\n" +
       p.declare;
  s += "ld.param.u64 %out, [out];\nld.param.u32 %trips, [trips];\n"
       "mov.u32 %me, %tid.x;\nshr.u32 %warp, %me, 5;\n"
       // The same in all lanes, and the assembler is to see it.
       "shfl.sync.idx.b32 %warp, %warp, 0, 31, 0xffffffff;\nand.b32 %lane, %me, 31;\n"
       "mov.u32 %cta, %ctaid.x;\nmov.u32 %smem, smem;\nmov.u64 %best, 1000000000;\n"
       // 16 bytes per CTA for the result, then 16 per thread (of the largest CTA) to throw away.
       "mul.wide.u32 %offset, %cta, 16;\nadd.u64 %out, %out, %offset;\n"
       "mul.wide.u32 %offset, %cta, 4096;\nadd.u64 %out_data, %out, %offset;\n"
       "mul.wide.u32 %offset, %me, 16;\nadd.u64 %out_data, %out_data, %offset;\n"
       "add.u64 %out_data, %out_data, 65536;\n";
  // Nothing but the launch knows that this is 0: what is added to an address cannot be folded.
  s += "shr.u32 %zero, %trips, 31;\n";
  if (p.map) s += "mov.u64 %map, map_param;\ncvta.param.u64 %map, %map;\n";
  s += p.setup + "bar.sync 0;\n";
  if (!p.beside.empty())
    s += fmt::format(
        "setp.ge.u32 %other, %warp, 4;\n@!%other bra MEASURED;\n"
        "mul.lo.u32 %left, %trips, {};\nBESIDE:\n{}sub.u32 %left, %left, 1;\n"
        "setp.ne.u32 %more, %left, 0;\n@%more bra BESIDE;\n{}bra DONE;\nMEASURED:\n",
        p.beside_per_trip, p.beside, p.beside_finish);
  s += "mov.u32 %trip, 0;\nmov.u64 %start, %clock64;\nLOOP:\n" + p.body +
       "add.u32 %trip, %trip, 1;\nsetp.lt.u32 %more, %trip, %trips;\n@%more bra LOOP;\n"
       "mov.u64 %stop, %clock64;\n" +
       p.finish;
  s += p.shot ? "mov.u64 %stop, %best;\n" : "sub.u64 %stop, %stop, %start;\n";
  s += "setp.eq.u32 %first, %me, 0;\n@%first st.global.u64 [%out], %stop;\nDONE:\n";
  return s + p.last + "ret;\n}\n";
}

}  // namespace tilec::calibrate
