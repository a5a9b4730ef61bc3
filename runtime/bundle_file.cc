// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_set>

#include "runtime/bundle_bytes.h"
#include "runtime/diagnostics.h"
#include "support/nearest.h"

namespace tilec::runtime {

namespace {

using bundle_bytes::Cursor;

constexpr uint64_t kMostBuilds = 1 << 16;

// "D = 64, causal = 1"
std::string Spelled(const Bindings& statics) {
  std::string out;
  for (const auto& [name, value] : statics)
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, value);
  return out.empty() ? "any values" : out;
}

Bindings ToBindings(std::span<const BundleFile::Named> list) {
  Bindings out;
  for (const BundleFile::Named& n : list) out[std::string(n.name)] = n.value;
  return out;
}

bool TakeList(Cursor& cursor, std::vector<BundleFile::Named>* values) {
  uint64_t count = 0;
  if (!cursor.Take(&count, 4)) return false;
  for (uint64_t i = 0; i < count; ++i) {
    BundleFile::Named named;
    uint64_t value = 0;
    if (!cursor.TakeText(&named.name) || !cursor.Take(&value, 8)) return false;
    if (i > 0 && !(values->back().name < named.name)) return false;
    named.value = static_cast<int64_t>(value);
    values->push_back(named);
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<BundleFile>> BundleFile::Open(ByteSource bytes, const std::string& name,
                                                     DiagSink& diags) {
  const auto damaged = [&](const std::string& why) {
    return diags.Report(kBundleDamaged, Span{}, name, why);
  };
  std::unique_ptr<BundleFile> out(new BundleFile(std::move(bytes), name));
  const ByteSource& all = out->bytes_;
  std::string place, why;
  std::string_view head, index;
  if (!all.Read(0, std::min<uint64_t>(all.size(), bundle_bytes::kHeaderBytes), &place, &head, &why))
    return damaged(why);
  if (head.substr(0, bundle_bytes::kMagic.size()) != bundle_bytes::kMagic)
    return damaged("it does not begin with `tilecbdl`").Help("`tilec bundle` writes bundles");
  Cursor cursor{head.substr(bundle_bytes::kMagic.size())};
  uint64_t version = 0, count = 0, size = 0, index_bytes = 0, hash = 0;
  // Other versions may have another head.
  if (cursor.Take(&version, 4) && version != bundle_bytes::kVersion)
    return diags.Report(kBundleVersion, Span{}, name, version, bundle_bytes::kVersion)
        .Help("build the bundle and the runtime with the same tilec");
  if (!cursor.Take(&count, 4) || !cursor.Take(&size, 8) || !cursor.Take(&index_bytes, 8) ||
      !cursor.Take(&hash, 8))
    return damaged(fmt::format("it ends after {} bytes, in its head", all.size()));
  if (size != all.size())
    return damaged(fmt::format("it has {} bytes and says {}", all.size(), size));
  if (index_bytes > size - bundle_bytes::kHeaderBytes)
    return damaged(fmt::format("its index of {} bytes does not fit", index_bytes));
  if (!all.Read(bundle_bytes::kHeaderBytes, index_bytes, &out->index_, &index, &why))
    return damaged(why);
  if (hash != bundle_bytes::HashOf(index))
    return damaged("its index is not the one that was written");
  if (count > kMostBuilds) return damaged(fmt::format("it says it has {} builds", count));
  why = out->ReadIndex(index, count, bundle_bytes::kHeaderBytes + index_bytes);
  if (!why.empty()) return damaged(why);
  out->builds_.resize(out->entries_.size());
  return out;
}

// What is wrong with the index; "" if nothing is. `offset`: where the builds begin.
std::string BundleFile::ReadIndex(std::string_view index, uint64_t count, uint64_t offset) {
  Cursor cursor{index};
  if (!cursor.TakeText(&compiler_)) return "the compiler's version does not fit";
  std::unordered_set<std::string_view> seen;
  for (uint64_t i = 0; i < count; ++i) {
    Entry entry;
    uint64_t lists = 0;
    if (!cursor.TakeText(&entry.kernel) || !cursor.TakeText(&entry.target) ||
        !cursor.Take(&entry.bytes, 8) || !cursor.Take(&entry.hash, 8) || !cursor.Take(&lists, 4))
      return fmt::format("build {}: its line in the index does not fit", i + 1);
    if (lists == 0) return fmt::format("build {}: the index has no values of it", i + 1);
    entry.first_list = list_ends_.size();
    for (uint64_t k = 0; k < lists; ++k) {
      if (!TakeList(cursor, &values_))
        return fmt::format("build {}: its values in the index are no list of names", i + 1);
      list_ends_.push_back(values_.size());
    }
    entry.lists = lists;
    if (entry.bytes > bytes_.size() - offset) return fmt::format("build {} does not fit", i + 1);
    entry.offset = offset;
    offset += entry.bytes;
    if (seen.insert(entry.kernel).second) kernels_.emplace_back(entry.kernel);
    entries_.push_back(entry);
  }
  if (!cursor.rest.empty())
    return fmt::format("{} bytes follow the last build in its index", cursor.rest.size());
  if (offset != bytes_.size())
    return fmt::format("{} bytes follow its last build", bytes_.size() - offset);
  return "";
}

std::span<const BundleFile::Named> BundleFile::List(size_t i) const {
  const size_t begin = i == 0 ? 0 : list_ends_[i - 1];
  return std::span(values_).subspan(begin, list_ends_[i] - begin);
}

// What is wrong with the bytes of a build; "" if nothing is.
std::string BundleFile::Check(const Entry& entry, std::string_view bytes, Build* build) const {
  if (bundle_bytes::HashOf(bytes) != entry.hash) return "its bytes are not those that were written";
  const std::string why = bundle_bytes::ReadBuild(bytes, build);
  if (!why.empty()) return why;
  if (build->image.name != entry.kernel || build->image.target != entry.target)
    return fmt::format("it is {} for {}, and {} for {} in the index", build->image.name,
                       build->image.target, entry.kernel, entry.target);
  const Bindings statics = ToBindings(List(entry.first_list));
  if (build->image.statics != statics)
    return fmt::format("it was built for {}, and for {} in the index",
                       Spelled(build->image.statics), Spelled(statics));
  for (size_t k = 1; k < entry.lists; ++k)
    build->sizes.push_back(ToBindings(List(entry.first_list + k)));
  return "";
}

Result<const Build*> BundleFile::Get(size_t i, DiagSink& diags) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (builds_[i]) return builds_[i].get();
  const Entry& entry = entries_[i];
  std::string place, why;
  std::string_view bytes;
  auto build = std::make_unique<Build>();
  if (bytes_.Read(entry.offset, entry.bytes, &place, &bytes, &why))
    why = Check(entry, bytes, build.get());
  if (!why.empty())
    return diags.Report(kBundleDamaged, Span{}, name_, fmt::format("build {}: {}", i + 1, why));
  builds_[i] = std::move(build);
  return builds_[i].get();
}

size_t BundleFile::First(std::string_view kernel, std::string_view target) const {
  size_t any = size();
  for (size_t i = 0; i < size(); ++i) {
    if (entries_[i].kernel != kernel) continue;
    if (target.empty() || entries_[i].target == target) return i;
    any = std::min(any, i);
  }
  return any;
}

double BundleFile::Distance(size_t i, const Bindings& call) const {
  constexpr double kAbsent = 64;
  const auto log = [](int64_t v) {
    return std::log2(static_cast<double>(std::max<int64_t>(v, 1)));
  };
  double nearest = std::numeric_limits<double>::infinity();
  for (size_t k = 1; k < entries_[i].lists; ++k) {
    double sum = 0;
    for (const Named& n : List(entries_[i].first_list + k)) {
      const auto have = call.find(std::string(n.name));
      sum += have == call.end() ? kAbsent : std::fabs(log(have->second) - log(n.value));
    }
    nearest = std::min(nearest, sum);
  }
  return nearest;
}

bool BundleFile::Contradicts(size_t i, const Bindings& call) const {
  for (const Named& n : List(entries_[i].first_list)) {
    const auto have = call.find(std::string(n.name));
    if (have != call.end() && have->second != n.value) return true;
  }
  return false;
}

Bindings ValuesOf(const backend::KernelImage& image, const LaunchArgs& args) {
  Bindings out = args.dims;
  for (const backend::TensorArg& t : image.tensors) {
    const auto given = args.tensors.find(t.name);
    if (given == args.tensors.end() || given->second.dims.size() != t.dims.size()) continue;
    for (size_t d = 0; d < t.dims.size(); ++d)
      if (t.dims[d].op == Expr::Op::kName) out.emplace(t.dims[d].name, given->second.dims[d]);
  }
  for (const backend::ScalarArg& s : image.scalars)
    if (const auto given = args.scalars.find(s.name); given != args.scalars.end())
      if (const auto* whole = std::get_if<int64_t>(&given->second)) out.emplace(s.name, *whole);
  return out;
}

namespace {

DiagBuilder NoSuchKernel(const BundleFile& bundle, const std::string& kernel, DiagSink& diags) {
  DiagBuilder d = diags.Report(kNotInBundle, Span{}, kernel);
  const std::string near = NearestName(kernel, bundle.kernels());
  if (!near.empty()) d.Help(fmt::format("did you mean `{}`?", near));
  return d;
}

DiagBuilder NoSuchTarget(const BundleFile& bundle, const std::string& kernel,
                         const std::string& target, DiagSink& diags) {
  std::vector<std::string_view> targets;
  for (size_t i = 0; i < bundle.size(); ++i)
    if (bundle.kernel(i) == kernel &&
        std::find(targets.begin(), targets.end(), bundle.target(i)) == targets.end())
      targets.push_back(bundle.target(i));
  return diags.Report(kNoBuildForTarget, Span{}, kernel, target,
                      fmt::format("{}", fmt::join(targets, ", ")));
}

}  // namespace

Result<size_t> ChooseBuild(const BundleFile& bundle, const std::string& kernel,
                           const std::string& target, const LaunchArgs& args, DiagSink& diags) {
  const size_t first = bundle.First(kernel, target);
  if (first == bundle.size()) return NoSuchKernel(bundle, kernel, diags);
  if (bundle.target(first) != target) return NoSuchTarget(bundle, kernel, target, diags);
  TRY(const Build* any, bundle.Get(first, diags));
  const Bindings call = ValuesOf(any->image, args);
  // Nearest first, so that the first that fits is the one: reading and planning are what cost. What
  // was built for other values comes last, to say so.
  std::vector<std::tuple<bool, double, size_t>> order;
  for (size_t i = first; i < bundle.size(); ++i)
    if (bundle.kernel(i) == kernel && bundle.target(i) == target)
      order.emplace_back(bundle.Contradicts(i, call), bundle.Distance(i, call), i);
  std::sort(order.begin(), order.end());
  std::map<size_t, std::string> reasons;
  for (const auto& [other, away, i] : order) {
    TRY(const Build* build, bundle.Get(i, diags));
    DiagSink refused;
    if (PlanLaunch(build->image, args, refused).ok()) return i;
    reasons[i] = fmt::format("built for {}: {}", Spelled(build->image.statics),
                             refused.all().empty() ? "" : refused.all().front().message);
  }
  DiagBuilder d = diags.Report(kNoBuildFits, Span{}, kernel, reasons.size());
  for (const auto& [i, reason] : reasons) d.Note(reason);
  return d.Help("build the bundle with these values, or call it as it was built");
}

}  // namespace tilec::runtime
