// One pass of expectation-maximisation over a corpus, in both directions at once (Liang et al. 2006).
#pragma once

#include <cstdint>
#include <vector>

#include "model.hpp"
#include "tables.hpp"

namespace aligner {

// The words of one side of a list of sentences, one after another: sentence n is words[offsets[n]]..words[offsets[n + 1]].
struct Sentences {
    const int32_t* words;
    const int64_t* offsets;
    int length(size_t n) const { return int(offsets[n + 1] - offsets[n]); }
};

struct Corpus {
    Sentences source, target;
    size_t pairs;
    const int32_t* stem_of_word;
    std::vector<uint32_t> order;  // the order of training: pairs of equal lengths follow each other
    SentencePair pair(size_t n) const {
        return {
            source.words + source.offsets[n], target.words + target.offsets[n], source.length(n), target.length(n)};
    }
};

// What each cell of a block of sentence pairs added to the counts in the last pass: the distance from the last cell that
// added something, then the count, row by row; seven bits of a number per byte, the lowest first; the eighth bit says
// that more follow. For a large corpus this takes most of the memory, usually less than three bytes per cell.
using Cells = std::vector<uint8_t>;

constexpr size_t BLOCK = 64;  // sentence pairs

enum class Kind { model2, hmm };

struct Pass {
    Kind kind;
    Settings settings;
    bool agree;                 // true: count the product of both directions, for words; false: their mean, for stems
    bool keep;                  // whether to keep what each cell added to the counts
    const Model* before;        // the first pass keeps nothing; the second gets its model to compute that again
};

constexpr double JUMP_UNIT = 1.0 / (1 << 30);
constexpr double LIKELIHOOD_UNIT = 1.0 / (1 << 20);

struct Expected {
    PairCounts links;                        // of words or of stems
    int64_t jumps[2][JUMPS] = {};            // in units of JUMP_UNIT
    int64_t log_likelihood = 0;              // of both directions, before this pass; in units of LIKELIHOOD_UNIT
    std::vector<int64_t> fertilities[2];     // (W, F) each, in units of 1 / ONE; empty after Model 2
};

// `cells` has one entry for each block of the corpus.
Expected expect(const Corpus& corpus, const Model& model, const Pass& pass, std::vector<Cells>& cells, int threads);

struct FoundLink {
    uint32_t list, source, target;  // the list belongs to a sentence pair or to one of its directions
    double score;                   // the mean of both directions' posteriors
};

// Returns the links whose score exceeds `min_score`, sorted by pair, source and target; the list is the pair's number.
// Pairs with an empty or too long side have no links.
std::vector<FoundLink> align(
    const Corpus& corpus, const Model& model, const Settings& settings, double min_score, int max_words, int threads);

// Returns each word's most probable partner in the other sentence, the first of equals, unless having none is at least
// as probable. Lists are 2 * pair for target words and 2 * pair + 1 for source words, each sorted by that word.
std::vector<FoundLink> align_directed(
    const Corpus& corpus, const Model& model, const Settings& settings, int max_words, int threads);

}  // namespace aligner
