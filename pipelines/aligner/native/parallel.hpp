// Distributes blocks of work among threads. Chance decides which thread takes which block, so sums must not depend on
// it.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace aligner {

// Calls make_worker() once in each thread and then the worker that it returns with the numbers of blocks, each block
// once. The first exception stops all threads and is thrown again here.
template <typename MakeWorker>
void for_each_block(size_t blocks, int threads, MakeWorker make_worker) {
    std::atomic<size_t> next{0};
    std::exception_ptr failure;
    std::mutex failing;
    auto run = [&] {
        try {
            auto worker = make_worker();
            for (size_t block; (block = next.fetch_add(1)) < blocks;) worker(block);
        } catch (...) {
            next = blocks;
            std::lock_guard<std::mutex> lock(failing);
            if (!failure) failure = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    try {
        for (int thread = 1; thread < threads && size_t(thread) < blocks; ++thread) others.emplace_back(run);
    } catch (const std::system_error&) {  // the system has no more threads: those that run do the work
    }
    run();
    for (std::thread& other : others) other.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace aligner
