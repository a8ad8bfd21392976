// SPDX-License-Identifier: MIT
// What a tensor handle points to.
#pragma once

#include <string>

#include <tapehead/detail/ref.h>
#include <tapehead/detail/storage.h>
#include <tapehead/dtype.h>
#include <tapehead/shape.h>

namespace tapehead {
class Node;
}

namespace tapehead::detail {

class Sweep;

struct TensorBody : RefCounted {
  TensorBody(Ref<Storage> elements, const Shape& sizes, DType type);
  ~TensorBody();
  static void destroy(TensorBody* body) noexcept;

  bool requires_grad() const { return wants_grad || made_by; }

  DType dtype;
  bool wants_grad = false;
  Ref<Storage> storage;
  Shape shape;
  Ref<Node> made_by;            // empty for leaves
  Ref<TensorBody> grad;         // leaves only
  std::string* name = nullptr;  // leaves that somebody named
  Sweep* sweep = nullptr;       // the playback that has reached this leaf
};

/// A tensor over existing storage, off the tape.
Ref<TensorBody> make_body(Ref<Storage> storage, const Shape& shape, DType dtype);

}  // namespace tapehead::detail
