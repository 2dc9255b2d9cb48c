#include "tables.hpp"

#include <algorithm>

namespace aligner {

namespace {

int bits_for(uint64_t slots) {  // the smallest b of at least 1 with 2^b >= slots
    int bits = 1;
    while ((uint64_t(1) << bits) < slots) ++bits;
    return bits;
}

}  // namespace

PairTable::PairTable(const int64_t* keys, const int64_t* counts, size_t size, size_t sources) : rows_(sources) {
    std::vector<size_t> lengths(sources, 0);
    for (size_t k = 0; k < size; ++k) ++lengths[keys[k] >> 32];
    uint64_t slots = 2;
    for (size_t source = 0; source < sources; ++source) {
        if (!lengths[source]) continue;
        const int bits = bits_for(lengths[source] + lengths[source] / 2 + 1);  // at least one slot stays empty
        rows_[source] = {slots, uint32_t(64 - bits), uint32_t((uint64_t(1) << bits) - 1)};
        slots += uint64_t(1) << bits;
    }
    targets_.assign(slots, EMPTY);
    counts_.assign(slots, 0.0);
    for (size_t k = 0; k < size; ++k) {
        const Row& row = rows_[keys[k] >> 32];
        const uint32_t target = uint32_t(keys[k]);
        uint64_t slot = scattered(target) >> row.shift;
        while (targets_[row.start + slot] != EMPTY) slot = (slot + 1) & row.mask;
        targets_[row.start + slot] = target;
        counts_[row.start + slot] = double(counts[k]) / double(ONE);
    }
}

void PairCounter::Writer::flush(size_t shard) {
    std::lock_guard<std::mutex> lock(counter_.shards_[shard].mutex);
    for (const Entry& entry : pending_[shard]) counter_.shards_[shard].add(entry);
    pending_[shard].clear();
}

void PairCounter::Shard::add(Entry entry) {
    if ((used + 1) * 4 > slots.size() * 3) grow();
    const size_t mask = slots.size() - 1;
    size_t slot = (scattered(entry.key) >> 32) & mask;
    while (slots[slot].key != entry.key && slots[slot].key != NO_KEY) slot = (slot + 1) & mask;
    used += slots[slot].key == NO_KEY;
    slots[slot].key = entry.key;
    slots[slot].count += entry.count;
}

void PairCounter::Shard::grow() {
    std::vector<Entry> before(std::max<size_t>(64, slots.size() * 2), Entry{NO_KEY, 0});
    before.swap(slots);
    used = 0;
    for (const Entry& entry : before) {
        if (entry.key != NO_KEY) add(entry);
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
