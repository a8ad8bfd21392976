// SPDX-License-Identifier: MIT
#include <tapehead/file.h>

#include <tapehead/detail/file.h>

namespace tapehead {

void write_file(const std::string& path, std::string_view text) {
  detail::OutputFile file("write_file", path);
  file.write(text);
  file.commit();
}

}  // namespace tapehead
