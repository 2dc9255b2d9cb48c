// Posteriors of one sentence pair, in both directions. Every sum has the order of the NumPy reference, so that both give
// the same numbers to the last bit. Only the sums of jumps have another order; they are rounded.
#pragma once

#include <cstdint>
#include <vector>

#include "model.hpp"

namespace aligner {

// p(word t is emitted by word s | both sentences), row by row: at t * stride + s + 1. The rest of a row is 0.
struct Posteriors {
    int S = 0, T = 0, stride = 0;
    std::vector<double> states, empty;
    double log_likelihood = 0.0;  // ln p(the T words | the S words), before any reweighting; `hmm` only, on request
    void resize(int states_, int times);
    double at(int s, int t) const { return states[size_t(t) * stride + s + 1]; }
};

// The buffers of one thread, for one set of settings, with the results of its last sentence pair.
struct Workspace {
    Posteriors forward, backward;    // target words emitted by source words; the reverse
    double jump_counts[2][JUMPS];    // `hmm` only, on request: expected jumps by -MAX_JUMP..MAX_JUMP words
    std::vector<double> own;         // (I, J), set by the caller: what each cell itself adds to the counts

    struct Direction {
        std::vector<double> emission, empty_emission;  // laid out like Posteriors::states and ::empty
        // What `emissions` looks up once per sentence, for each emitting word, then for each emitted word.
        std::vector<double> links, stem_links, word_given_stem, stem_share;
    } directions[2];
    std::vector<double> counts, stem_counts, scratch, jumps, reversed_jumps;
    int prior_I = 0, prior_J = 0;  // the lengths that `priors` are for; consecutive sentence pairs often have the same
    std::vector<double> priors[2];
};

// IBM Model 2 over stems, with a prior for the diagonal (Dyer et al. 2013).
void model2_posteriors(Workspace& work, const Model& model, const Settings& settings, const SentencePair& pair, const int32_t* stem_of_word);

// The HMM (Vogel et al. 1996; empty states as in Och and Ney 2003), reweighted by fertility.
void hmm_posteriors(
    Workspace& work, const Model& model, const Settings& settings, const SentencePair& pair, const int32_t* stem_of_word, bool count);

// p(a state emits n words), n in 0..F-1, if words choose their states independently: rows of F in `distribution` (S, F).
void fertility_distribution(const Posteriors& posteriors, std::vector<double>& distribution);

}  // namespace aligner
