// SPDX-License-Identifier: MIT
#include <tapehead/detail/pool.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <fmt/format.h>

#include <tapehead/error.h>
#include <tapehead/runtime.h>

#if defined(__SANITIZE_ADDRESS__)
#define TAPEHEAD_POOL_KEEPS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TAPEHEAD_POOL_KEEPS 0
#endif
#endif
#ifndef TAPEHEAD_POOL_KEEPS
#define TAPEHEAD_POOL_KEEPS 1  // the address sanitizer must see every free
#endif
#if !TAPEHEAD_POOL_KEEPS
#include <sanitizer/asan_interface.h>
#endif

namespace tapehead {
namespace detail {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kHuge = std::size_t{2} << 20;          // a huge page on x86-64 and Arm
constexpr std::size_t kThreadBlock = std::size_t{1} << 20;   // larger blocks go straight to the shared lists
constexpr std::size_t kThreadBytes = std::size_t{64} << 20;  // what one thread may keep for itself
constexpr int kClasses = 4 * 58;

// Four classes to each power of two: at most a quarter of a block is unused.
struct SizeClass {
  int index;
  std::size_t bytes;
};

SizeClass size_class(std::size_t bytes) {
  const std::size_t units = bytes <= kAlign ? 1 : (bytes + kAlign - 1) / kAlign;
  if (units <= 4) return {static_cast<int>(units) - 1, units * kAlign};
  const int shift = static_cast<int>(std::bit_width(units - 1)) - 3;
  const std::size_t quarter = ((units - 1) >> shift) + 1;  // 5 to 8 quarters of a power of two
  return {4 * shift + static_cast<int>(quarter) - 1, (quarter << shift) * kAlign};
}

struct Block {
  Block* next;
};

std::atomic<std::size_t> live{0};

void* system_allocate(std::size_t bytes) {
  const std::size_t align = bytes >= kHuge ? kHuge : kAlign;
  void* block = std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (block == nullptr) {
    throw ValueError(fmt::format("allocate: the system has no {} bytes left; {} bytes are in use", bytes, live.load()));
  }
#if defined(__linux__)
  if (bytes >= kHuge) madvise(block, bytes, MADV_HUGEPAGE);  // a hint; refusal costs speed only
#endif
  return block;
}

class FreeLists {
 public:
  void* take(int index, std::size_t bytes) {
    Block* block = heads_[static_cast<std::size_t>(index)];
    if (block == nullptr) return nullptr;
    heads_[static_cast<std::size_t>(index)] = block->next;
    kept_ -= bytes;
    return block;
  }
  void put(int index, std::size_t bytes, void* memory) {
    Block* block = static_cast<Block*>(memory);
    block->next = heads_[static_cast<std::size_t>(index)];
    heads_[static_cast<std::size_t>(index)] = block;
    kept_ += bytes;
  }
  void free_all() {
    for (Block*& head : heads_) {
      while (head != nullptr) std::free(std::exchange(head, head->next));
    }
    kept_ = 0;
  }
  std::size_t kept() const { return kept_; }

 private:
  std::array<Block*, kClasses> heads_{};
  std::size_t kept_ = 0;
};

struct SharedLists {
  std::mutex mutex;
  FreeLists lists;
};

SharedLists& shared() {
  static SharedLists* lists = new SharedLists;  // outlives every static tensor
  return *lists;
}

thread_local bool thread_ended = false;  // trivially destructible: readable to the very end

struct ThreadLists {
  FreeLists lists;
  ~ThreadLists() {
    thread_ended = true;
    lists.free_all();
  }
};

ThreadLists& mine() {
  thread_local ThreadLists lists;
  return lists;
}

void* take_or_allocate([[maybe_unused]] int index, std::size_t bytes) {
#if TAPEHEAD_POOL_KEEPS
  if (bytes <= kThreadBlock && !thread_ended) {
    if (void* block = mine().lists.take(index, bytes)) return block;
  } else {
    SharedLists& all = shared();
    const std::lock_guard lock(all.mutex);
    if (void* block = all.lists.take(index, bytes)) return block;
  }
#endif
  return system_allocate(bytes);
}

#ifdef TAPEHEAD_POOL_FILLS
// As f64 a signalling NaN, as f32 a quiet and a signalling one in turn, no bool, and an index beyond every axis.
void fill(void* block, std::size_t bytes) {
  constexpr std::uint64_t kUnwritten = 0x7FF47FF47FA07FA0;
  std::fill_n(static_cast<std::uint64_t*>(block), bytes / sizeof kUnwritten, kUnwritten);
}
#endif

}  // namespace

void* allocate(std::size_t bytes) {
  const SizeClass size = size_class(bytes);
  live.fetch_add(size.bytes, std::memory_order_relaxed);
  try {
    void* block = take_or_allocate(size.index, size.bytes);
#ifdef TAPEHEAD_POOL_FILLS
    fill(block, size.bytes);
#endif
#if !TAPEHEAD_POOL_KEEPS
    ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(block) + bytes, size.bytes - bytes);
#endif
    return block;
  } catch (...) {
    live.fetch_sub(size.bytes, std::memory_order_relaxed);
    throw;
  }
}

void deallocate(void* block, std::size_t bytes) noexcept {
  const SizeClass size = size_class(bytes);
  live.fetch_sub(size.bytes, std::memory_order_relaxed);
#if TAPEHEAD_POOL_KEEPS
  if (thread_ended) {
    std::free(block);
  } else if (size.bytes > kThreadBlock) {
    SharedLists& all = shared();
    const std::lock_guard lock(all.mutex);
    all.lists.put(size.index, size.bytes, block);
  } else if (ThreadLists& own = mine(); own.lists.kept() < kThreadBytes) {
    own.lists.put(size.index, size.bytes, block);
  } else {
    std::free(block);
  }
#else
  std::free(block);
#endif
}

}  // namespace detail

std::size_t live_bytes() { return detail::live.load(std::memory_order_relaxed); }

void release_cached_memory() {
  if (!detail::thread_ended) detail::mine().lists.free_all();
  detail::SharedLists& all = detail::shared();
  const std::lock_guard lock(all.mutex);
  all.lists.free_all();
}

}  // namespace tapehead
