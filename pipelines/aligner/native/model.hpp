// The model that gives the posteriors of a sentence pair: counts, jumps, fertilities and settings.
#pragma once

#include <cstdint>
#include <vector>

#include "tables.hpp"

namespace aligner {

constexpr int MAX_JUMP = 50;
constexpr int JUMPS = 2 * MAX_JUMP + 1;
constexpr int F = 11;  // fertilities 0..F-1; the last one means F-1 or more

struct Settings {
    double diagonal_tension, empty_probability, backoff, identical;  // as in AlignerConfig
};

// Counts of one language's words and stems; the last row of each table is for unknown ones.
struct Side {
    const double *frequency_W, *stem_frequency_S;
    const double *links_W, *stem_links_S;  // sums of the expected counts of the word's (stem's) links
    double frequency_sum = 0.0, stem_frequency_sum = 0.0;
};

// Reads arrays that it does not own: those of a trained model or of a mapped file.
struct Model {
    size_t words = 0, stems = 0;
    PairTable word_pairs, stem_pairs;
    Side source, target;
    // The first of two is for target words given source words, the second the reverse.
    std::vector<double> jump_weights[2];             // JUMPS each
    const float* fertilities[2] = {nullptr, nullptr};  // (W + 1, F) each, or none
};

// One sentence pair: numbers of words. Numbers from W on (and stems from S on) are not in the vocabulary.
struct SentencePair {
    const int32_t *source, *target;
    int I, J;
};

}  // namespace aligner
