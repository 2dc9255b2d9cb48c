// Sparse tables of expected counts: how often a source word (or stem) and a target word (or stem) are linked.
//
// Counts are whole numbers in units of 1 / ONE. Their sums are exact, so they depend neither on the order of the corpus nor on
// the number of threads. W words and S stems of the vocabulary.
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

// Keys are sorted; a key is (source << 32) + target.
struct PairCounts {
    std::vector<int64_t> keys, counts;
};

// Looks counts up by source, then target. Each source has a small hash of its own, so that the words of one sentence
// pair touch as many cache lines as it has source words, not as it has cells. A hash is made of buckets of four targets,
// all four compared without a branch, because a processor cannot predict whether a cell has a count.
//
// It consists of three arrays in the layout of the file and owns none of them: processes may share a mapped file.
struct PairArrays {
    std::vector<int64_t> starts;    // the first bucket of each source, and the end of the last one's
    std::vector<uint32_t> targets;  // four per bucket, filled from the front; the first bucket belongs to no source and is empty
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

    // Returns what is wrong with arrays of `buckets` buckets that `hashed` did not make, or null. In wrong arrays a
    // look-up could go out of bounds or never end.
    const char* fault(size_t buckets) const;

    Row row(size_t source) const {
        if (source >= sources_) return {0, 1};
        const uint64_t start = uint64_t(starts_[source]), end = uint64_t(starts_[source + 1]);
        return start == end ? Row{0, 1} : Row{start, end - start};
    }

    double count(const Row& row, uint32_t target) const {  // in units of 1; 0 if the table has none
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

    // Buffers one thread's counts for the counter. Call `flush` before the counter is read.
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

    // Returns all counts, sorted by key, and empties the counter.
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
