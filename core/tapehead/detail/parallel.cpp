// SPDX-License-Identifier: MIT
#include <tapehead/detail/parallel.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include <fmt/format.h>

#include <tapehead/detail/blas.h>
#include <tapehead/error.h>

namespace tapehead {
namespace {

// Processors in the affinity mask, lowered to the container's quota where there is one.
int usable_processors() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) count = CPU_COUNT(&mask);
  std::string quota;
  double period = 0;
  if (std::ifstream("/sys/fs/cgroup/cpu.max") >> quota >> period && quota != "max" && period > 0) {
    const double share = std::strtod(quota.c_str(), nullptr) / period;
    count = std::min(count, std::max(1, static_cast<int>(share + 0.5)));
  }
#endif
  return std::max(1, count);
}

int initial_threads() {
  if (const char* text = std::getenv("TAPEHEAD_NUM_THREADS")) {
    const int wanted = std::atoi(text);
    if (wanted >= 1) return wanted;
  }
  return usable_processors();
}

// The chunks that one thread begins with: neighbours, and the same ones in every job of as many chunks, so that it
// finds what it wrote before in its own cache.
struct alignas(64) Share {
  std::atomic<Index> next;
  Index end;
};

struct Job {
  detail::ChunkFunction function;
  void* context;
  std::span<Share> shares;
  std::atomic<int> helpers{0};  // workers that joined and have not left
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex error_mutex;

  // First the thread's own share, then what is left of the others'.
  void work(std::size_t thread) {
    for (std::size_t i = 0; i < shares.size(); ++i) {
      Share& share = shares[(thread + i) % shares.size()];
      for (Index chunk; !failed && (chunk = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
        try {
          function(context, chunk);
        } catch (...) {
          const std::lock_guard lock(error_mutex);
          if (!error) error = std::current_exception();
          failed = true;
        }
      }
    }
  }
};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

thread_local bool inside = false;  // a worker, or a caller in the middle of a job: nested work stays serial

class Pool {
 public:
  ~Pool() { resize(1); }

  int threads() const { return threads_.load(std::memory_order_relaxed); }

  void resize(int threads) {
    const std::lock_guard one(resize_mutex_);
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      generation_.fetch_add(1);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    started_.store(false);
    threads_.store(threads);
    const std::lock_guard lock(mutex_);
    stopping_ = false;
  }

  bool submit(Job& job) {
    if (!started_.load(std::memory_order_acquire)) start();
    {
      const std::lock_guard lock(mutex_);
      if (job_ != nullptr || stopping_) return false;  // another thread's job has the workers
      job_ = &job;
      generation_.fetch_add(1, std::memory_order_release);
    }
    if (sleeping_.load() > 0) wake_.notify_all();
    return true;
  }

  void finish(Job& job) {
    {
      const std::lock_guard lock(mutex_);
      job_ = nullptr;
    }
    while (job.helpers.load(std::memory_order_acquire) != 0) relax();
  }

 private:
  void start() {
    const std::lock_guard one(resize_mutex_);
    if (started_.load()) return;
    for (int i = 1; i < threads(); ++i) {
      workers_.emplace_back([this, i] { serve(static_cast<std::size_t>(i)); });
    }
    started_.store(true, std::memory_order_release);
  }

  void serve(std::size_t thread) {
    inside = true;
    detail::blas_prepare_thread();
    std::uint64_t seen = 0;
    while (true) {
      wait_for_change(seen);
      Job* job = nullptr;
      {
        const std::lock_guard lock(mutex_);
        seen = generation_.load(std::memory_order_relaxed);
        if (stopping_) return;
        job = job_;
        if (job != nullptr) job->helpers.fetch_add(1, std::memory_order_relaxed);
      }
      if (job == nullptr) continue;
      job->work(thread);
      job->helpers.fetch_sub(1, std::memory_order_release);
    }
  }

  // Spins for about 50 microseconds, the gap between two operations of a training step, then sleeps.
  void wait_for_change(std::uint64_t seen) {
    const auto changed = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    while (std::chrono::steady_clock::now() < until) {
      for (int i = 0; i < 32; ++i) {
        if (changed()) return;
        relax();
      }
    }
    std::unique_lock lock(mutex_);
    sleeping_.fetch_add(1);
    wake_.wait(lock, changed);
    sleeping_.fetch_sub(1);
  }

  std::mutex mutex_;
  std::mutex resize_mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<int> threads_{initial_threads()};
  std::atomic<bool> started_{false};
  Job* job_ = nullptr;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

Pool& pool() {
  static Pool instance;
  return instance;
}

}  // namespace

int num_threads() { return pool().threads(); }

void set_num_threads(int threads) {
  if (threads < 1) throw ValueError(fmt::format("set_num_threads: at least 1 thread, got {}", threads));
  if (threads != num_threads()) pool().resize(threads);
}

namespace detail {

void run_chunks(Index chunks, ChunkFunction function, void* context) {
  const auto alone = [&] {
    for (Index chunk = 0; chunk < chunks; ++chunk) function(context, chunk);
  };
  const Index threads = num_threads();
  if (inside || threads == 1) return alone();
  thread_local std::vector<Share> shares;
  const auto count = static_cast<std::size_t>(threads);
  if (shares.size() != count) shares = std::vector<Share>(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto from = static_cast<Index>(i);
    shares[i].next.store(chunks * from / threads, std::memory_order_relaxed);
    shares[i].end = chunks * (from + 1) / threads;
  }
  Job job;
  job.function = function;
  job.context = context;
  job.shares = shares;
  if (!pool().submit(job)) return alone();
  inside = true;
  job.work(0);
  inside = false;
  pool().finish(job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace detail
}  // namespace tapehead
