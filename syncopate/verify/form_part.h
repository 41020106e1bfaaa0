// What the checks of a plan's form have in common. Internal to verify/.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "syncopate/core/region.h"
#include "syncopate/plan/plan.h"
#include "syncopate/verify/claim.h"

namespace syncopate {

template <typename T>
bool in_range(int index, const std::vector<T>& list) {
  return index >= 0 && static_cast<std::size_t>(index) < list.size();
}

/// What a message says of `argument`. Functions are asked, so that names are made for messages only.
template <typename Argument>
auto show(const Argument& argument) {
  if constexpr (std::is_invocable_v<Argument>) {
    return argument();
  } else if constexpr (std::is_same_v<Argument, Region>) {
    return argument.to_string();
  } else if constexpr (std::is_convertible_v<Argument, std::string_view>) {
    return std::string_view(argument);
  } else {
    return argument;
  }
}

template <typename Argument>
using Shown = decltype(show(std::declval<const Argument&>()));

/// A part of the proof: notes its checks in a claim that it shares with the others.
class FormPart {
 protected:
  FormPart(const Plan& plan, Claim& claim) : plan_(plan), claim_(claim) {}

  template <typename... Arguments>
  bool require(bool holds, fmt::format_string<Shown<Arguments>...> text, const Arguments&... arguments) {
    return claim_.check(holds, [&] { return fmt::format(text, show(arguments)...); });
  }

  /// `owner` says whose region it is.
  template <typename Owner>
  bool region_is_good(const Buffer& buffer, const Region& region, Owner&& owner) {
    const auto fits = [&] {
      if (static_cast<std::size_t>(region.dimensions()) != buffer.shape.size()) return false;
      for (int d = 0; d < region.dimensions(); ++d)
        if (region[d].begin < 0 || region[d].end < region[d].begin ||
            region[d].end > buffer.shape[static_cast<std::size_t>(d)])
          return false;
      return true;
    };
    return claim_.check(fits(), [&] {
      return fmt::format("{}: {}{} is not inside the buffer, whose shape is {}", owner(), buffer.name,
                         region.to_string(), to_string(buffer.shape));
    }) && claim_.check(keeps_to_one_fold(buffer, region), [&] {
      return fmt::format("{}: {}{} is in several folds of the buffer", owner(), buffer.name, region.to_string());
    });
  }

  const Plan& plan_;
  Claim& claim_;
};

}  // namespace syncopate
