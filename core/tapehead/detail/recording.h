// SPDX-License-Identifier: MIT
#pragma once

namespace tapehead::detail {

/// While it lives, operations in this thread are recorded, or are not.
class [[nodiscard]] SetRecording {
 public:
  explicit SetRecording(bool on);
  ~SetRecording();
  SetRecording(const SetRecording&) = delete;
  SetRecording& operator=(const SetRecording&) = delete;

 private:
  bool before_;
};

}  // namespace tapehead::detail
