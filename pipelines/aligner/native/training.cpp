#include "training.hpp"

#include <algorithm>
#include <cmath>

#include "parallel.hpp"
#include "posteriors.hpp"

namespace aligner {

namespace {

size_t blocks_of(const Corpus& corpus) { return (corpus.pairs + BLOCK - 1) / BLOCK; }

// Combines both directions' posteriors of every cell into a whole number in units of 1 / ONE, (I, J).
void share(const Workspace& work, const SentencePair& pair, bool agree, std::vector<uint16_t>& shared) {
    shared.resize(size_t(pair.I) * pair.J);
    const double* forward_JI = work.forward.states.data() + 1;
    for (int i = 0; i < pair.I; ++i, ++forward_JI) {
        const double* backward_J = work.backward.states.data() + size_t(i) * work.backward.stride + 1;
        uint16_t* shared_J = shared.data() + size_t(i) * pair.J;
        for (int j = 0; j < pair.J; ++j) {
            const double forward = forward_JI[size_t(j) * work.forward.stride], backward = backward_J[j];
            const double both = agree ? forward * backward : (forward + backward) / 2.0;
            const double count = both * double(ONE) + 4503599627370496.0;  // rounded, ties to even
            const int units = int(std::min(count - 4503599627370496.0, double(ONE)));
            shared_J[j] = uint16_t(agree && units < LEAST ? 0 : units);
        }
    }
}

void put(Cells& cells, size_t number) {
    for (; number > 0x7F; number >>= 7) cells.push_back(uint8_t(number | 0x80));
    cells.push_back(uint8_t(number));
}

void write(Cells& cells, size_t& distance, const std::vector<uint16_t>& shared) {
    for (const uint16_t count : shared) {
        ++distance;
        if (!count) continue;
        put(cells, distance);
        put(cells, count);
        distance = 0;
    }
}

// Goes through the cells of a block, one sentence pair after another.
class Reader {
public:
    explicit Reader(const Cells& cells) : byte_(cells.data()), end_(byte_ + cells.size()) { advance(); }
    void read(size_t size, std::vector<double>& own) {
        own.assign(size, 0.0);
        for (; next_ < start_ + size; advance()) own[next_ - start_] = double(take()) / double(ONE);
        start_ += size;
    }

private:
    void advance() { next_ = byte_ == end_ ? ~size_t(0) : next_ + take(); }
    size_t take() {
        size_t number = 0;
        for (int shift = 0;; shift += 7) {
            number |= size_t(*byte_ & 0x7F) << shift;
            if (!(*byte_++ & 0x80)) return number;
        }
    }
    const uint8_t *byte_, *end_;
    size_t start_ = 1, next_ = 0;  // cells count from 1: the first one's distance is 1
};

void add(int64_t& sum, int64_t count) { __atomic_fetch_add(&sum, count, __ATOMIC_RELAXED); }

// Digits beyond these may differ between processors.
double four_decimals(double value) { return std::rint(value * 1e4) / 1e4; }

// Returns the links that find(work, n, links) adds for each sentence pair n, in the order of the pairs.
template <typename Find>
std::vector<FoundLink> links_of_all(
    const Corpus& corpus, const Model& model, const Settings& settings, int max_words, int threads, Find find) {
    std::vector<std::vector<FoundLink>> found(blocks_of(corpus));
    for_each_block(found.size(), threads, [&] {
        return [&, work = Workspace()](size_t block) mutable {
            for (size_t n = block * BLOCK; n < std::min(corpus.pairs, (block + 1) * BLOCK); ++n) {
                const SentencePair pair = corpus.pair(n);
                if (std::min(pair.I, pair.J) == 0 || std::max(pair.I, pair.J) > max_words) continue;
                work.own.assign(size_t(pair.I) * pair.J, 0.0);
                hmm_posteriors(work, model, settings, pair, corpus.stem_of_word, false);
                find(work, n, found[block]);
            }
        };
    });
    std::vector<FoundLink> links;
    for (const std::vector<FoundLink>& part : found) links.insert(links.end(), part.begin(), part.end());
    return links;
}

}  // namespace

Expected expect(const Corpus& corpus, const Model& model, const Pass& pass, std::vector<Cells>& cells, int threads) {
    Expected expected;
    PairCounter counter;
    if (pass.kind == Kind::hmm) {
        for (std::vector<int64_t>& fertilities : expected.fertilities) fertilities.assign(model.words * F, 0);
    }
    for_each_block(blocks_of(corpus), threads, [&] {
        return [&, work = Workspace(), writer = PairCounter::Writer(counter), shared = std::vector<uint16_t>(),
                distribution = std::vector<double>(), written = Cells()](size_t block) mutable {
            Reader reader(cells[block]);
            written.clear();
            size_t distance = 0;
            for (size_t n = block * BLOCK; n < std::min(corpus.pairs, (block + 1) * BLOCK); ++n) {
                const SentencePair pair = corpus.pair(corpus.order[n]);
                if (pass.before) {
                    work.own.assign(size_t(pair.I) * pair.J, 0.0);
                    model2_posteriors(work, *pass.before, pass.settings, pair, corpus.stem_of_word);
                    share(work, pair, false, shared);
                    for (size_t cell = 0; cell < shared.size(); ++cell) work.own[cell] = shared[cell] / double(ONE);
                } else {
                    reader.read(size_t(pair.I) * pair.J, work.own);
                }
                if (pass.kind == Kind::model2) {
                    model2_posteriors(work, model, pass.settings, pair, corpus.stem_of_word);
                } else {
                    hmm_posteriors(work, model, pass.settings, pair, corpus.stem_of_word, true);
                    for (int way = 0; way < 2; ++way) {
                        const Posteriors& found = way == 0 ? work.forward : work.backward;
                        const int32_t* words = way == 0 ? pair.source : pair.target;
                        for (int jump = 0; jump < JUMPS; ++jump) {
                            const double count = work.jump_counts[way][jump] / JUMP_UNIT;
                            if (count > 0.0 && count < 1e18) add(expected.jumps[way][jump], std::llrint(count));
                        }
                        fertility_distribution(found, distribution);
                        for (int s = 0; s < found.S; ++s) {
                            for (int f = 0; f < F; ++f) {
                                const int64_t count = std::llrint(distribution[size_t(s) * F + f] * double(ONE));
                                if (count) add(expected.fertilities[way][size_t(words[s]) * F + f], count);
                            }
                        }
                    }
                }
                for (const Posteriors* found : {&work.forward, &work.backward}) {
                    add(expected.log_likelihood, std::llrint(found->log_likelihood / LIKELIHOOD_UNIT));
                }
                share(work, pair, pass.agree, shared);
                for (int i = 0; i < pair.I; ++i) {
                    for (int j = 0; j < pair.J; ++j) {
                        const uint16_t count = shared[size_t(i) * pair.J + j];
                        if (!count) continue;
                        if (pass.agree) {
                            writer.add(pair.source[i], pair.target[j], count);
                        } else {
                            writer.add(corpus.stem_of_word[pair.source[i]], corpus.stem_of_word[pair.target[j]], count);
                        }
                    }
                }
                if (pass.keep) write(written, distance, shared);
            }
            if (pass.keep) cells[block] = Cells(written.begin(), written.end());  // a copy has no spare capacity
            writer.flush();
        };
    });
    expected.links = counter.take(pass.agree ? model.words : model.stems);
    return expected;
}

std::vector<FoundLink> align(
    const Corpus& corpus, const Model& model, const Settings& settings, double min_score, int max_words, int threads) {
    return links_of_all(corpus, model, settings, max_words, threads, [&](const Workspace& work, size_t n, std::vector<FoundLink>& links) {
        for (int i = 0; i < work.forward.S; ++i) {
            for (int j = 0; j < work.forward.T; ++j) {
                const double mean = (work.forward.at(i, j) + work.backward.at(j, i)) / 2.0;
                if (!(mean > min_score - 1e-4)) continue;
                const double score = four_decimals(mean);
                if (score > min_score) links.push_back({uint32_t(n), uint32_t(i), uint32_t(j), score});
            }
        }
    });
}

std::vector<FoundLink> align_directed(
    const Corpus& corpus, const Model& model, const Settings& settings, int max_words, int threads) {
    return links_of_all(corpus, model, settings, max_words, threads, [&](const Workspace& work, size_t n, std::vector<FoundLink>& links) {
        for (int way = 0; way < 2; ++way) {
            const Posteriors &found = way == 0 ? work.forward : work.backward, &other = way == 0 ? work.backward : work.forward;
            for (int t = 0; t < found.T; ++t) {
                int partner = -1;
                double most = four_decimals(found.empty[t]);
                for (int s = 0; s < found.S; ++s) {
                    if (!(found.at(s, t) > most)) continue;
                    const double posterior = four_decimals(found.at(s, t));
                    if (posterior > most) most = posterior, partner = s;
                }
                if (partner < 0) continue;
                const double score = four_decimals((found.at(partner, t) + other.at(t, partner)) / 2.0);
                const uint32_t source = uint32_t(way == 0 ? partner : t), target = uint32_t(way == 0 ? t : partner);
                links.push_back({uint32_t(2 * n + way), source, target, score});
            }
        }
    });
}

}  // namespace aligner
