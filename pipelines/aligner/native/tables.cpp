#include "tables.hpp"

#include <algorithm>

namespace aligner {

PairTable::PairTable(const int64_t* keys, const int64_t* counts, size_t size, size_t sources) : rows_(sources) {
    std::vector<uint32_t> lengths(sources, 0);
    for (size_t k = 0; k < size; ++k) ++lengths[keys[k] >> 32];
    uint64_t buckets = 1;
    for (size_t source = 0; source < sources; ++source) {
        if (!lengths[source]) continue;
        rows_[source] = {buckets, uint32_t(lengths[source] * uint64_t(2) / 5) + 1};  // never all full
        buckets += rows_[source].buckets;
    }
    targets_.assign(buckets * 4, EMPTY);
    counts_.assign(buckets * 4, 0.0);
    for (size_t k = 0; k < size; ++k) {
        const Row& row = rows_[keys[k] >> 32];
        const uint32_t target = uint32_t(keys[k]);
        size_t slot = size_t(bucket_of(target, row.buckets)) * 4;
        while (targets_[row.start * 4 + slot] != EMPTY) slot = slot + 1 == size_t(row.buckets) * 4 ? 0 : slot + 1;
        targets_[row.start * 4 + slot] = target;
        counts_[row.start * 4 + slot] = double(counts[k]) / double(ONE);
    }
}

void PairCounter::Writer::flush(size_t shard) {
    std::lock_guard<std::mutex> lock(counter_.shards_[shard].mutex);
    for (const Entry& entry : pending_[shard]) counter_.shards_[shard].add(entry);
    pending_[shard].clear();
}

size_t PairCounter::Shard::slot_of(uint64_t key) const {  // where it is, or would be
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
