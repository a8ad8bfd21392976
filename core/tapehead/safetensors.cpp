// SPDX-License-Identifier: MIT
#include <tapehead/safetensors.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <tapehead/detail/safetensors_header.h>
#include <tapehead/detail/stored.h>
#include <tapehead/error.h>

namespace tapehead {
namespace {

using detail::InputFile;
using detail::SafetensorsEntry;
using detail::shown;

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the reference implementation's

[[noreturn]] void fail(const InputFile& file, const std::string& what) {
  throw FormatError(fmt::format("load_safetensors: {}: {}", file.path(), what));
}

std::string read_header(const InputFile& file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) {
    fail(file, fmt::format("a file of {} bytes is too short; the length of the header takes 8", file.size()));
  }
  file.read(0, &length, sizeof length);
  if (length > kMaxHeader) fail(file, fmt::format("the header has {} bytes; expected at most {}", length, kMaxHeader));
  if (length > file.size() - sizeof length) {
    fail(file, fmt::format("the header has {} bytes, but {} follow its length", length, file.size() - sizeof length));
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(sizeof length, text.data(), text.size());
  return text;
}

const detail::StoredType& type_of(const InputFile& file, const SafetensorsEntry& entry) {
  const detail::StoredType* type = detail::stored_type_named(entry.dtype);
  if (type == nullptr) {
    fail(file,
         fmt::format("tensor \"{}\" has the element type \"{}\"; expected F16, BF16, F32, F64, BOOL or an integer",
                     shown(entry.name), shown(entry.dtype)));
  }
  return *type;
}

// Data must lie one after the other from 0 to `size`, each as long as type and shape say.
void check_layout(const InputFile& file, const std::vector<SafetensorsEntry>& entries, Index size) {
  Index at = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string name = shown(entry.name);
    if (entry.begin > entry.end) {
      fail(file, fmt::format("tensor \"{}\" begins at byte {} and ends at {}", name, entry.begin, entry.end));
    }
    if (entry.end > size) {
      fail(file, fmt::format("tensor \"{}\" ends at byte {}, the data at {}", name, entry.end, size));
    }
    if (entry.begin != at) {
      fail(file,
           fmt::format("tensor \"{}\" begins at byte {}, but the one before it ends at {}", name, entry.begin, at));
    }
    const Index bytes = detail::stored_bytes(entry.sizes, type_of(file, entry).bytes);
    if (bytes != entry.end - entry.begin) {
      fail(file, fmt::format("tensor \"{}\", {} [{}], takes {} bytes, but its data has {}", name, entry.dtype,
                             fmt::join(entry.sizes, ", "), bytes < 0 ? "more than 2^60" : std::to_string(bytes),
                             entry.end - entry.begin));
    }
    at = entry.end;
  }
  if (at != size)
    fail(file, fmt::format("{} bytes are left over after the last tensor, which ends at {}", size - at, at));
}

std::string quoted(const char* role, const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw ValueError(fmt::format("save_safetensors: the {} \"{}\" is not UTF-8", role, shown(text)));
  }
}

std::string header_text(const std::vector<const NamedTensor*>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    text += fmt::format("{}{}:{}", text.empty() ? "{\"__metadata__\":{" : ",", quoted("metadata key", key),
                        quoted("metadata", value));
  }
  text += metadata.empty() ? "{" : "}";
  std::size_t at = 0;
  for (const NamedTensor* entry : tensors) {
    const Tensor& x = entry->tensor;
    const detail::StoredType& type = detail::stored_type_of(x.dtype());
    const std::size_t end = at + static_cast<std::size_t>(x.numel()) * type.bytes;
    text += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", text == "{" ? "" : ",",
                        quoted("name", entry->name), type.name, fmt::join(x.shape(), ","), at, end);
    at = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');  // the data begins at a multiple of 8
  return text;
}

}  // namespace

Safetensors load_safetensors(const std::string& path) {
  const InputFile file("load_safetensors", path);
  Safetensors out;
  std::uint64_t data = sizeof(std::uint64_t);
  std::vector<SafetensorsEntry> entries;
  {
    const std::string text = read_header(file);
    data += text.size();
    detail::SafetensorsHeader header = detail::parse_safetensors_header(path, text);
    out.metadata = std::move(header.metadata);
    entries = std::move(header.entries);
  }
  std::ranges::stable_sort(entries, {}, [](const SafetensorsEntry& e) { return std::pair(e.begin, e.end); });
  check_layout(file, entries, static_cast<Index>(file.size() - data));
  out.tensors.reserve(entries.size());
  for (SafetensorsEntry& entry : entries) {
    Tensor values = detail::read_elements(file, data + static_cast<std::uint64_t>(entry.begin), type_of(file, entry),
                                          Shape(entry.sizes), false, fmt::format("tensor \"{}\"", shown(entry.name)));
    out.tensors.push_back({std::move(entry.name), std::move(values)});
  }
  return out;
}

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<const NamedTensor*> sorted;
  for (const NamedTensor& entry : tensors) {
    if (entry.name == "__metadata__") throw ValueError("save_safetensors: no tensor can be called \"__metadata__\"");
    if (!entry.tensor.defined()) {
      throw StateError(fmt::format("save_safetensors: tensor \"{}\" is empty", shown(entry.name)));
    }
    sorted.push_back(&entry);
  }
  // Large elements first, so that all are aligned; the order of the reference implementation.
  std::ranges::sort(sorted, {}, [](const NamedTensor* entry) {
    constexpr int order[] = {2, 1, 0, 3};  // i64, f64, f32, bool
    return std::pair<int, std::string_view>(order[static_cast<int>(entry->tensor.dtype())], entry->name);
  });
  std::vector<std::string_view> names;
  for (const NamedTensor& entry : tensors) names.push_back(entry.name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    throw ValueError(fmt::format("save_safetensors: two tensors are called \"{}\"", shown(*twice)));
  }
  const std::string header = header_text(sorted, metadata);
  if (header.size() > kMaxHeader) {
    throw ValueError(fmt::format("save_safetensors: names and metadata take {} bytes; at most {} are read",
                                 header.size(), kMaxHeader));
  }
  const auto length = std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(header.size()));
  detail::OutputFile file("save_safetensors", path);
  file.write(length.data(), length.size());
  file.write(header);
  for (const NamedTensor* entry : sorted) detail::write_elements(file, entry->tensor);
  file.commit();
}

}  // namespace tapehead
