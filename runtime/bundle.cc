// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle.h"

#include <algorithm>
#include <cstring>

#include "runtime/diagnostics.h"
#include "support/nearest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tilec::runtime {

namespace {

constexpr std::string_view kMagic = "tilecbdl";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 32;
constexpr uint32_t kMostImages = 1 << 16;

template <typename T>
void Put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i)
    out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xff);
}

void PutText(std::string& out, const std::string& text) {
  Put<uint64_t>(out, text.size());
  out += text;
}

// Takes numbers and texts from the front of what is left.
struct Cursor {
  std::string_view rest;

  bool Take(uint64_t* value, size_t bytes) {
    if (rest.size() < bytes) return false;
    *value = 0;
    for (size_t i = 0; i < bytes; ++i)
      *value |= static_cast<uint64_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
    rest.remove_prefix(bytes);
    return true;
  }
  bool TakeText(std::string_view* text) {
    uint64_t length = 0;
    if (!Take(&length, sizeof length) || length > rest.size()) return false;
    *text = rest.substr(0, length);
    rest.remove_prefix(length);
    return true;
  }
};

uint64_t HashOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// "D = 64, causal = 1"
std::string ValuesOf(const backend::KernelImage& image) {
  std::string out;
  for (const auto& [name, value] : image.statics)
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, value);
  return out.empty() ? "any values" : out;
}

}  // namespace

std::string WriteBundle(const Bundle& bundle) {
  std::string body;
  PutText(body, bundle.compiler);
  for (const backend::KernelImage& image : bundle.images) PutText(body, backend::ToJson(image));
  std::string out(kMagic);
  Put<uint32_t>(out, kVersion);
  Put<uint32_t>(out, static_cast<uint32_t>(bundle.images.size()));
  Put<uint64_t>(out, kHeaderBytes + body.size());
  Put<uint64_t>(out, HashOf(body));
  return out + body;
}

Result<Bundle> ReadBundle(std::string_view bytes, const std::string& name, DiagSink& diags) {
  const auto damaged = [&](const std::string& why) {
    return diags.Report(kBundleDamaged, Span{}, name, why);
  };
  if (bytes.substr(0, kMagic.size()) != kMagic)
    return damaged("it does not begin with `tilecbdl`").Help("`tilec bundle` writes bundles");
  Cursor cursor{bytes.substr(kMagic.size())};
  uint64_t version = 0, count = 0, size = 0, hash = 0;
  if (!cursor.Take(&version, 4) || !cursor.Take(&count, 4) || !cursor.Take(&size, 8) ||
      !cursor.Take(&hash, 8))
    return damaged(fmt::format("it ends after {} bytes, in its head", bytes.size()));
  if (version != kVersion)
    return diags.Report(kBundleVersion, Span{}, name, version, kVersion)
        .Help("build the bundle and the runtime with the same tilec");
  if (size != bytes.size())
    return damaged(fmt::format("it has {} bytes and says {}", bytes.size(), size));
  if (hash != HashOf(cursor.rest)) return damaged("its bytes are not those that were written");
  if (count > kMostImages) return damaged(fmt::format("it says it has {} images", count));
  Bundle out;
  std::string_view text;
  if (!cursor.TakeText(&text)) return damaged("the compiler's version does not fit");
  out.compiler = std::string(text);
  for (uint64_t i = 0; i < count; ++i) {
    if (!cursor.TakeText(&text)) return damaged(fmt::format("image {} does not fit", i + 1));
    std::string why;
    backend::KernelImage image;
    if (!backend::FromJson(std::string(text), &image, &why))
      return damaged(fmt::format("image {}: {}", i + 1, why));
    out.images.push_back(std::move(image));
  }
  if (!cursor.rest.empty())
    return damaged(fmt::format("{} bytes follow its last image", cursor.rest.size()));
  return out;
}

std::vector<std::string> KernelsOf(const Bundle& bundle) {
  std::vector<std::string> out;
  for (const backend::KernelImage& image : bundle.images)
    if (std::find(out.begin(), out.end(), image.name) == out.end()) out.push_back(image.name);
  return out;
}

Result<size_t> ChooseImage(const Bundle& bundle, const std::string& kernel,
                           const std::string& target, const LaunchArgs& args, DiagSink& diags) {
  std::vector<std::string> targets, reasons;
  bool known = false;
  for (size_t i = 0; i < bundle.images.size(); ++i) {
    const backend::KernelImage& image = bundle.images[i];
    if (image.name != kernel) continue;
    known = true;
    if (std::find(targets.begin(), targets.end(), image.target) == targets.end())
      targets.push_back(image.target);
    if (image.target != target) continue;
    DiagSink refused;
    if (PlanLaunch(image, args, refused).ok()) return i;
    reasons.push_back(fmt::format("built for {}: {}", ValuesOf(image),
                                  refused.all().empty() ? "" : refused.all().front().message));
  }
  if (!known) {
    DiagBuilder d = diags.Report(kNotInBundle, Span{}, kernel);
    const std::string near = NearestName(kernel, KernelsOf(bundle));
    if (!near.empty()) d.Help(fmt::format("did you mean `{}`?", near));
    return d;
  }
  if (reasons.empty())
    return diags.Report(kNoBuildForTarget, Span{}, kernel, target,
                        fmt::format("{}", fmt::join(targets, ", ")));
  DiagBuilder d = diags.Report(kNoBuildFits, Span{}, kernel, reasons.size());
  for (const std::string& reason : reasons) d.Note(reason);
  return d.Help("build the bundle with these values, or call it as it was built");
}

}  // namespace tilec::runtime
