// SPDX-License-Identifier: MIT
#include "common/digest.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include <fmt/format.h>

namespace examples {

std::string digest(const std::vector<tapehead::NamedTensor>& parameters) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  };
  for (const auto& [name, parameter] : parameters) {
    add(std::as_bytes(std::span(name)));
    tapehead::visit_any(parameter.dtype(),
                        [&, &tensor = parameter](auto zero) { add(std::as_bytes(tensor.read<decltype(zero)>())); });
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace examples
