#include "tables.hpp"

#include <algorithm>

namespace aligner {

PairArrays hashed(const int64_t* keys, const int64_t* counts, size_t size, size_t sources) {
    PairArrays made;
    std::vector<uint32_t> lengths(sources, 0);
    for (size_t k = 0; k < size; ++k) ++lengths[keys[k] >> 32];
    made.starts.resize(sources + 1);
    made.starts[0] = 1;
    for (size_t source = 0; source < sources; ++source) {
        const int64_t buckets = lengths[source] ? int64_t(lengths[source] * uint64_t(2) / 5) + 1 : 0;  // never all full
        made.starts[source + 1] = made.starts[source] + buckets;
    }
    made.targets.assign(size_t(made.starts[sources]) * 4, PairTable::EMPTY);
    made.counts.assign(size_t(made.starts[sources]) * 4, 0.0);
    for (size_t k = 0; k < size; ++k) {
        const size_t start = size_t(made.starts[keys[k] >> 32]), end = size_t(made.starts[(keys[k] >> 32) + 1]);
        const uint32_t target = uint32_t(keys[k]);
        size_t slot = (start + size_t(PairTable::bucket_of(target, end - start))) * 4;
        while (made.targets[slot] != PairTable::EMPTY) slot = slot + 1 == end * 4 ? start * 4 : slot + 1;
        made.targets[slot] = target;
        made.counts[slot] = double(counts[k]) / double(ONE);
    }
    return made;
}

const char* PairTable::fault(size_t buckets) const {
    if (starts_[0] != 1 || size_t(starts_[sources_]) != buckets) return "pairs of words in as many buckets as there are";
    for (size_t source = 0; source < sources_; ++source) {
        if (starts_[source] > starts_[source + 1]) return "buckets in ascending order";
    }
    for (size_t slot = 0; slot < buckets * 4; ++slot) {
        const bool empty = targets_[slot] == EMPTY;
        if (!(empty || targets_[slot] < sources_) || (slot < 4 && !empty)) return "pairs of known words";
        if (!(counts_[slot] >= 0.0 && counts_[slot] < 1e15) || (empty && counts_[slot] != 0.0)) return "counts of at least 0";
    }
    for (size_t source = 0; source < sources_; ++source) {
        bool ends = starts_[source] == starts_[source + 1];
        for (int64_t bucket = starts_[source]; !ends && bucket < starts_[source + 1]; ++bucket) {
            ends = targets_[bucket * 4 + 3] == EMPTY;
        }
        if (!ends) return "a bucket with an empty place for each word";
    }
    return nullptr;
}

void PairCounter::Writer::flush(size_t shard) {
    std::lock_guard<std::mutex> lock(counter_.shards_[shard].mutex);
    for (const Entry& entry : pending_[shard]) counter_.shards_[shard].add(entry);
    pending_[shard].clear();
}

size_t PairCounter::Shard::slot_of(uint64_t key) const {  // the slot of the key, or the free slot for it
    const uint64_t hash = (key * 0x9E3779B97F4A7C15u) >> 32;
    size_t slot = (hash * slots.size()) >> 32;
    while (slots[slot].key != key && slots[slot].key != NO_KEY) slot = slot + 1 == slots.size() ? 0 : slot + 1;
    return slot;
}

void PairCounter::Shard::add(Entry entry) {
    if ((used + 1) * 5 > slots.size() * 4) grow();
    Entry& slot = slots[slot_of(entry.key)];
    used += slot.key == NO_KEY;
    slot = {entry.key, slot.count + entry.count};
}

void PairCounter::Shard::grow() {
    std::vector<Entry> before(std::max<size_t>(64, slots.size() / 2 * 3), Entry{NO_KEY, 0});
    before.swap(slots);
    for (const Entry& entry : before) {
        if (entry.key != NO_KEY) slots[slot_of(entry.key)] = entry;
    }
}

PairCounts PairCounter::take(size_t sources) {
    std::vector<size_t> starts(sources + 1, 0);
    for (const Shard& shard : shards_) {
        for (const Entry& entry : shard.slots) {
            if (entry.key != NO_KEY) ++starts[(entry.key >> 32) + 1];
        }
    }
    for (size_t source = 0; source < sources; ++source) starts[source + 1] += starts[source];
    PairCounts all;
    all.keys.resize(starts[sources]);
    all.counts.resize(starts[sources]);
    for (size_t s = 0; s < SHARDS; ++s) {
        std::vector<Entry> entries;
        entries.swap(shards_[s].slots);
        shards_[s].used = 0;
        entries.erase(
            std::remove_if(entries.begin(), entries.end(), [](const Entry& entry) { return entry.key == NO_KEY; }),
            entries.end());
        std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
        for (size_t k = 0, place = 0; k < entries.size(); ++k, ++place) {
            const size_t source = entries[k].key >> 32;
            if (k == 0 || source != entries[k - 1].key >> 32) place = starts[source];
            all.keys[place] = int64_t(entries[k].key);
            all.counts[place] = entries[k].count;
        }
    }
    return all;
}

}  // namespace aligner
