// Sparse tables of expected counts: how often a source word (or stem) and a target word (or stem) are linked.
//
// Counts are whole numbers in units of 1 / ONE. Their sums are exact, so neither the order of the corpus nor the number
// of threads leaves a trace in them. W words and S stems of the vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace aligner {

constexpr int64_t ONE = 65535;
constexpr int LEAST = 33;  // once both directions agree, a cell that would add less (0.0005) adds nothing

// Keys ascend; a key is (source << 32) + target.
struct PairCounts {
    std::vector<int64_t> keys, counts;
};

// Looks counts up by source, then target. Each source has a small hash of its own, so that the words of one sentence
// pair touch as many cache lines as it has source words, not as it has cells. A hash is made of buckets of four targets,
// all four compared without a branch: whether a cell has a count is what a processor cannot predict.
//
// It is three arrays, stored as they are looked up, and owns none of them: many processes may share a mapped file.
struct PairArrays {
    std::vector<int64_t> starts;    // the first bucket of each source, and the end of the last one's
    std::vector<uint32_t> targets;  // four to a bucket, filled from the front; the first bucket is nobody's, and empty
    std::vector<double> counts;     // of each target, in units of 1
};

PairArrays hashed(const int64_t* keys, const int64_t* counts, size_t size, size_t sources);

class PairTable {
public:
    struct Row {
        uint64_t start, buckets;
    };
    static constexpr uint32_t EMPTY = 0xFFFFFFFFu;

    PairTable() = default;
    PairTable(const int64_t* starts, size_t sources, const uint32_t* targets, const double* counts)
        : starts_(starts), sources_(sources), targets_(targets), counts_(counts) {}

    // What is wrong with arrays of `buckets` buckets that did not come from `hashed`, or null: without this, a look-up
    // could leave them, or never end.
    const char* fault(size_t buckets) const;

    Row row(size_t source) const {
        if (source >= sources_) return {0, 1};
        const uint64_t start = uint64_t(starts_[source]), end = uint64_t(starts_[source + 1]);
        return start == end ? Row{0, 1} : Row{start, end - start};
    }

    double count(const Row& row, uint32_t target) const {  // in units of 1; 0 where the table has none
        for (uint64_t place = bucket_of(target, row.buckets);;) {
            const size_t bucket = (row.start + place) * 4;
            const unsigned found = lanes_equal(&targets_[bucket], target);
            if ((found != 0) | (targets_[bucket + 3] == EMPTY)) {
                return counts_[(bucket + size_t(__builtin_ctz(found | 16))) & (size_t(0) - (found != 0))];
            }
            if (++place == row.buckets) place = 0;
        }
    }

    static uint64_t bucket_of(uint32_t target, uint64_t buckets) {  // of fewer than 2^32
        return (uint64_t(target * 0x9E3779B1u) * buckets) >> 32;
    }

private:
    static unsigned lanes_equal(const uint32_t* targets, uint32_t target) {  // one bit for each of four
#if defined(__SSE2__)
        const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(targets));
        return unsigned(_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(four, _mm_set1_epi32(int(target))))));
#else
        unsigned lanes = 0;
        for (unsigned lane = 0; lane < 4; ++lane) lanes |= unsigned(targets[lane] == target) << lane;
        return lanes;
#endif
    }
    const int64_t* starts_ = nullptr;
    size_t sources_ = 0;
    const uint32_t* targets_ = nullptr;
    const double* counts_ = nullptr;
};

// Adds counts up, from many threads.
class PairCounter {
public:
    struct Entry {
        uint64_t key;
        int64_t count;
    };

    // One thread's counts on their way into the counter. `flush` before the counter is read.
    class Writer {
    public:
        explicit Writer(PairCounter& counter) : counter_(counter), pending_(SHARDS) {}
        void add(uint32_t source, uint32_t target, int64_t count) {
            std::vector<Entry>& entries = pending_[source % SHARDS];
            entries.push_back({(uint64_t(source) << 32) + target, count});
            if (entries.size() == PENDING) flush(source % SHARDS);
        }
        void flush() {
            for (size_t shard = 0; shard < SHARDS; ++shard) flush(shard);
        }

    private:
        void flush(size_t shard);
        PairCounter& counter_;
        std::vector<std::vector<Entry>> pending_;
    };

    PairCounter() : shards_(SHARDS) {}

    // All counts, by key. Leaves the counter empty.
    PairCounts take(size_t sources);

private:
    static constexpr size_t SHARDS = 64, PENDING = 512;
    static constexpr uint64_t NO_KEY = ~uint64_t(0);
    struct Shard {
        std::mutex mutex;
        std::vector<Entry> slots;
        size_t used = 0;
        void add(Entry entry);
        size_t slot_of(uint64_t key) const;
        void grow();
    };
    std::vector<Shard> shards_;
};

}  // namespace aligner
