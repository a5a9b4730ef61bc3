// What scalars are called in the key of a state (key.cc): by names that are the same in states that
// differ only in how many iterations have passed; and which of them nobody can ask about any more.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

inline int64_t FloorOf(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Names for scalars that do not depend on how many iterations have passed.
struct Machine::Naming {
  const Program& p;
  const Terms& terms;
  const State& s;
  NameMemory& known;
  FlatMap<int32_t, int64_t> steps;  // by length: of the loops roles are in

  Naming(const Program& program, const Terms& t, const State& state, NameMemory& memory)
      : p(program), terms(t), s(state), known(memory) {
    ++known.now;
    for (const Role& r : s.roles)
      for (const Frame& f : r.frames)
        if (f.frame_atom >= 0) {
          int64_t& step = steps[f.length.form];
          step = std::max(step, p.fn.ops[f.op].i("step"));
        }
  }

  bool TakesPart(size_t role, int site) const {
    const Role& r = s.roles[role];
    return role > 0 && !r.ended && static_cast<size_t>(site) < p.loops_at[role].size() &&
           p.loops_at[role][static_cast<size_t>(site)];
  }
  int64_t Begun(size_t role, int32_t form, int site) const {
    const auto it = s.roles[role].runs.find({form, site});
    return it == s.roles[role].runs.end() ? 0 : it->second;
  }
  // The smallest position of a role in this frame's loop; whether anybody can still be in it.
  int64_t Base(int32_t frame) { return Of(frame).base; }
  int64_t Slowest(int32_t frame) { return Of(frame).slowest; }
  bool Over(int32_t frame) { return Of(frame).over; }
  const NameMemory::Frame& Of(int32_t frame) {
    NameMemory::Frame& found = NameMemory::At(known.frames, frame);
    if (found.at == known.now) return found;
    found.at = known.now;
    const Atom& a = terms.atom(frame);
    const int32_t form = a.args[0].form;
    const int site = static_cast<int>(a.tag);
    int64_t base = INT64_MAX;
    bool waits = false, low = false;
    for (size_t r = 0; r < s.roles.size(); ++r) {
      bool inside = false;
      for (const Frame& f : s.roles[r].frames)
        if (f.frame_atom == frame) {
          base = std::min(base, f.position.add), inside = true;
          low = low || f.low;
        }
      if (!inside && TakesPart(r, site) && Begun(r, form, site) <= a.extra) waits = true;
    }
    found.over = base == INT64_MAX && !waits;
    found.slowest = waits ? INT64_MIN / 2 : base;
    if (waits || low || base == INT64_MAX) base = 0;
    found.base = base;
    return found;
  }
  int64_t StepOf(const Atom& frame) const {
    const auto it = steps.find(frame.args[0].form);
    return it == steps.end() ? p.max_step : it->second;
  }

  uint64_t OfAtom(int32_t id) { return NameOfAtom(id).name; }
  NameMemory::Name NameOfAtom(int32_t id) {
    if (const NameMemory::Name& name = NameMemory::At(known.atoms, id); Holds(name)) return name;
    const Atom& a = terms.atom(id);
    uint64_t h = Mix(static_cast<uint64_t>(a.kind), static_cast<uint64_t>(a.tag));
    int64_t extra = a.extra;
    if (a.kind == Atom::Kind::kFrame) {
      int64_t least = INT64_MAX;
      for (size_t r = 1; r < s.roles.size(); ++r)
        if (TakesPart(r, static_cast<int>(a.tag)))
          least = std::min(least, Begun(r, a.args[0].form, static_cast<int>(a.tag)));
      if (least != INT64_MAX) extra -= least;
    }
    if (a.kind == Atom::Kind::kPrivate && a.tag >= 0) extra = s.privates.at(a.tag) - extra;
    h = Mix(h, static_cast<uint64_t>(extra));
    bool always = a.kind != Atom::Kind::kFrame && a.kind != Atom::Kind::kPrivate;
    for (const Scalar& arg : a.args) {
      const NameMemory::Name form = NameOfForm(arg.form);
      always = always && form.at == NameMemory::kAlways;
      h = Mix(Mix(h, form.name), static_cast<uint64_t>(Add(arg)));
    }
    return NameMemory::At(known.atoms, id) = {always ? NameMemory::kAlways : known.now, h};
  }
  uint64_t OfForm(int32_t form) { return NameOfForm(form).name; }
  NameMemory::Name NameOfForm(int32_t form) {
    if (const NameMemory::Name& name = NameMemory::At(known.forms, form); Holds(name)) return name;
    uint64_t h = 0x5851F42D4C957F2Du;
    bool always = true;
    for (const auto& [atom, c] : terms.form(form)) {
      const NameMemory::Name name = NameOfAtom(atom);
      always = always && name.at == NameMemory::kAlways;
      h += Mix(name.name, static_cast<uint64_t>(c));
    }
    return NameMemory::At(known.forms, form) = {always ? NameMemory::kAlways : known.now, h};
  }
  // Of this state, or of all: nothing in it has to do with iterations.
  bool Holds(const NameMemory::Name& name) const {
    return name.at == known.now || name.at == NameMemory::kAlways;
  }
  int64_t Shift(int32_t form) {
    int64_t shift = 0;
    for (const auto& [atom, c] : terms.form(form))
      if (terms.atom(atom).kind == Atom::Kind::kFrame) shift += c * Base(atom);
    return shift;
  }
  int64_t Add(const Scalar& v) { return v.add - Shift(v.form); }
  uint64_t Of(const Scalar& v) { return Mix(OfForm(v.form), static_cast<uint64_t>(Add(v))); }

  // Can somebody still ask about it? Forgetting is always allowed. What is made of several
  // iterations' values is as old as the youngest of them.
  bool Stale(int32_t form) {
    if (!terms.Framed(form)) return false;
    if (const NameMemory::Age& age = NameMemory::At(known.ages, form); age.at == known.now)
      return age.stale;
    const bool stale = IsStale(form);
    NameMemory::At(known.ages, form) = {known.now, stale};
    return stale;
  }
  bool IsStale(int32_t form) {
    NameMemory::Spoken& of = NameMemory::At(known.spoken, form);
    if (!of.known) {
      of.known = true;
      Speak(form, false, 0, &of);
    }
    if (std::any_of(of.frames.begin(), of.frames.end(), [&](int32_t frame) { return Over(frame); }))
      return true;
    return std::any_of(of.youngest.begin(), of.youngest.end(), [&](const auto& one) {
      return one.second - Slowest(one.first) < -StepOf(terms.atom(one.first));
    });
  }
  void Speak(int32_t form, bool inside, int64_t add, NameMemory::Spoken* of) const {
    if (!terms.Framed(form)) return;
    for (const auto& [atom, c] : terms.form(form)) {
      const Atom& a = terms.atom(atom);
      if (a.kind == Atom::Kind::kFrame) {
        of->frames.push_back(atom);
        if (inside) {
          const int64_t position = FloorOf(c > 0 ? add : -add, std::abs(c));
          const auto it = std::find_if(of->youngest.begin(), of->youngest.end(),
                                       [&](const auto& one) { return one.first == atom; });
          if (it == of->youngest.end())
            of->youngest.push_back({atom, position});
          else
            it->second = std::max(it->second, position);
        }
      }
      for (const Scalar& arg : a.args)
        if (a.kind != Atom::Kind::kTrips || a.tag == 0) Speak(arg.form, true, arg.add, of);
    }
  }
  // A length that changes with the iteration of a loop around, whose own loop everybody has left.
  bool Done(int32_t form, Terms& all) {
    if (!terms.OfFrames(form)) return false;
    bool begun = false;
    for (const Role& r : s.roles)
      for (const auto& [loop, count] : r.runs) {
        if (loop.first != form) continue;
        begun = true;
        const Scalar frame =
            all.Of({Atom::Kind::kFrame, loop.second, count - 1, {Scalar{form, 0}}});
        if (!Over(terms.form(frame.form)[0].first)) return false;
      }
    return begun;
  }
};

}  // namespace tilec::ir::warp_check
