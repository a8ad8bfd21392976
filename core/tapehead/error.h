// SPDX-License-Identifier: MIT
// What can go wrong, as types. Every message starts with the operation, names each operand with its
// role and shape, gives the numbers that disagree, and says what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace tapehead {

/// Base of everything that Tapehead throws.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Shapes that do not fit together.
class ShapeError : public Error {
  using Error::Error;
};

/// An element type that the operation does not take; nothing is promoted silently.
class DTypeError : public Error {
  using Error::Error;
};

/// An axis, index or target outside its range.
class IndexError : public Error {
  using Error::Error;
};

/// A question to the tape that it cannot answer: played twice, edited, severed.
class GraphError : public Error {
  using Error::Error;
};

/// An argument with a value that makes no sense: a negative rate, zero heads.
class ValueError : public Error {
  using Error::Error;
};

/// The operating system refused: a missing file, a full disk.
class IoError : public Error {
  using Error::Error;
};

/// A file whose content is damaged or of another kind.
class FormatError : public Error {
  using Error::Error;
};

/// An object used before it is ready or after it was emptied.
class StateError : public Error {
  using Error::Error;
};

}  // namespace tapehead
