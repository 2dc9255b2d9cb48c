#include "posteriors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

// The functions that take most of the time are compiled twice, for processors with and without AVX2. Both give the same
// bits: no sum runs across lanes, and multiplications are not fused with additions (-ffp-contract=off).
// The version is chosen while the library is loaded, when a sanitizer is not ready yet.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace aligner {

namespace {

typedef double Lanes __attribute__((vector_size(32)));
typedef double UnalignedLanes __attribute__((vector_size(32), aligned(8), may_alias));
constexpr int LANES = 4;

int padded(int size) { return (size + LANES - 1) / LANES * LANES; }

double* sized(std::vector<double>& values, size_t size) {
    if (values.size() < size) values.resize(size);
    return values.data();
}

ALWAYS_INLINE Lanes load(const double* from) { return *reinterpret_cast<const UnalignedLanes*>(from); }
ALWAYS_INLINE void store(double* to, Lanes lanes) { *reinterpret_cast<UnalignedLanes*>(to) = lanes; }
ALWAYS_INLINE double divisor(double value) { return value > 0.0 ? value : 1.0; }

// Rounds to the nearest whole number, ties to even, for 0 <= value < 2^51; NaN stays NaN.
ALWAYS_INLINE double rounded(double value) {
    constexpr double magic = 4503599627370496.0;
    return (value + magic) - magic;
}

template <int N>
ALWAYS_INLINE void weighted_sum_of(
    double* out, const double* x, ptrdiff_t x_step, int terms, const double* rows, ptrdiff_t row_step) {
    Lanes sums[N];
    for (int n = 0; n < N; ++n) sums[n] = Lanes{0.0, 0.0, 0.0, 0.0};
    for (int term = 0; term < terms; ++term) {
        const double weight = x[term * x_step];
        const Lanes weights = {weight, weight, weight, weight};
        const double* row = rows + term * row_step;
        for (int n = 0; n < N; ++n) sums[n] += weights * load(row + n * LANES);
    }
    for (int n = 0; n < N; ++n) store(out + n * LANES, sums[n]);
}

// out[k] = sum over terms of x[term * x_step] * rows[term * row_step + k], in the order of the terms. `size` is padded.
ALWAYS_INLINE void weighted_sum(
    double* out, int size, const double* x, ptrdiff_t x_step, int terms, const double* rows, ptrdiff_t row_step) {
    while (size > 0) {
        const int taken = std::min(size, 8 * LANES);
        switch (taken / LANES) {
            case 8: weighted_sum_of<8>(out, x, x_step, terms, rows, row_step); break;
            case 7: weighted_sum_of<7>(out, x, x_step, terms, rows, row_step); break;
            case 6: weighted_sum_of<6>(out, x, x_step, terms, rows, row_step); break;
            case 5: weighted_sum_of<5>(out, x, x_step, terms, rows, row_step); break;
            case 4: weighted_sum_of<4>(out, x, x_step, terms, rows, row_step); break;
            case 3: weighted_sum_of<3>(out, x, x_step, terms, rows, row_step); break;
            case 2: weighted_sum_of<2>(out, x, x_step, terms, rows, row_step); break;
            default: weighted_sum_of<1>(out, x, x_step, terms, rows, row_step);
        }
        size -= taken;
        out += taken;
        rows += taken;
    }
}

ALWAYS_INLINE double largest(const double* values, int size) {  // at least 0; `size` is padded
    Lanes found = {0.0, 0.0, 0.0, 0.0};
    for (int k = 0; k < size; k += LANES) {
        const Lanes lanes = load(values + k);
        found = lanes > found ? lanes : found;
    }
    return std::max(std::max(found[0], found[1]), std::max(found[2], found[3]));
}

// p(target word | source word) and p(source word | target word) of every cell, leave-one-out, backing off to stems,
// spelling and frequency.
FOR_EACH_PROCESSOR
void emissions(
    Workspace& work, const Model& model, const Settings& settings, const SentencePair& pair, const int32_t* stem_of_word, bool stems_only) {
    const int I = pair.I, J = pair.J;
    const double kappa = settings.backoff, identical = settings.identical;
    double* counts_IJ = sized(work.counts, size_t(I) * J);
    double* stem_counts_IJ = sized(work.stem_counts, size_t(I) * J);
    for (int i = 0; i < I; ++i) {
        const PairTable::Row& stem_row = model.stem_pairs.row(stem_of_word[pair.source[i]]);
        for (int j = 0; j < J; ++j) {
            stem_counts_IJ[size_t(i) * J + j] = model.stem_pairs.count(stem_row, stem_of_word[pair.target[j]]);
        }
        if (stems_only) continue;
        const PairTable::Row& row = model.word_pairs.row(pair.source[i]);
        for (int j = 0; j < J; ++j) counts_IJ[size_t(i) * J + j] = model.word_pairs.count(row, pair.target[j]);
    }

    for (int way = 0; way < 2; ++way) {
        Workspace::Direction& direction = work.directions[way];
        const Side& given = way == 0 ? model.source : model.target;
        const Side& emitted = way == 0 ? model.target : model.source;
        const int32_t* given_words = way == 0 ? pair.source : pair.target;
        const int32_t* emitted_words = way == 0 ? pair.target : pair.source;
        const int S = way == 0 ? I : J, T = way == 0 ? J : I;
        double* links = sized(direction.links, S);
        double* stem_links = sized(direction.stem_links, S);
        for (int s = 0; s < S; ++s) {
            links[s] = given.links_W[std::min<size_t>(given_words[s], model.words)];
            stem_links[s] = given.stem_links_S[std::min<size_t>(stem_of_word[given_words[s]], model.stems)];
        }
        double* word_given_stem = sized(direction.word_given_stem, T);
        double* stem_share = sized(direction.stem_share, T);
        double* empty_emission = sized(direction.empty_emission, T);
        const double frequencies = emitted.frequency_sum + 0.5 * double(model.words + 1);
        const double stem_frequencies = emitted.stem_frequency_sum + 0.5 * double(model.stems + 1);
        for (int t = 0; t < T; ++t) {
            const double frequency = emitted.frequency_W[std::min<size_t>(emitted_words[t], model.words)];
            const double of_stem =
                emitted.stem_frequency_S[std::min<size_t>(stem_of_word[emitted_words[t]], model.stems)];
            word_given_stem[t] = (frequency + 0.5) / (of_stem + 1.0);
            stem_share[t] = (1.0 - identical) * ((of_stem + 0.5) / stem_frequencies);
            empty_emission[t] = (frequency + 0.5) / frequencies;
        }
        const int stride = padded(S + 1);
        double* emission = sized(direction.emission, size_t(T) * stride);
        std::memset(emission, 0, sizeof(double) * T * stride);
    }

    const Workspace::Direction &forward = work.directions[0], &backward = work.directions[1];
    double* forward_JI = work.directions[0].emission.data();
    double* backward_IJ = work.directions[1].emission.data();
    const int forward_stride = padded(I + 1), backward_stride = padded(J + 1);
    double* __restrict row_J = sized(work.scratch, J);
    for (int i = 0; i < I; ++i) {
        const double *own = &work.own[size_t(i) * J], *count = counts_IJ + size_t(i) * J;
        const double* stem_count = stem_counts_IJ + size_t(i) * J;
        const int32_t word = pair.source[i], stem = stem_of_word[word];
        const double links = forward.links[i], stem_links = forward.stem_links[i];
        const double word_given_stem = backward.word_given_stem[i], stem_share = backward.stem_share[i];
        double* __restrict backward_J = backward_IJ + size_t(i) * backward_stride + 1;
        for (int j = 0; j < J; ++j) {  // only stems
            const double same = stem_of_word[pair.target[j]] == stem ? identical : 0.0;
            row_J[j] = forward.word_given_stem[j] *
                       ((stem_count[j] - own[j] + kappa * (forward.stem_share[j] + same)) /
                        (stem_links - own[j] + kappa));
            backward_J[j] = word_given_stem * ((stem_count[j] - own[j] + kappa * (stem_share + same)) /
                                               (backward.stem_links[j] - own[j] + kappa));
        }
        if (!stems_only) {
            for (int j = 0; j < J; ++j) {
                const double same = pair.target[j] == word ? identical : 0.0;
                row_J[j] = (count[j] - own[j] + kappa * ((1.0 - identical) * row_J[j] + same)) /
                           (links - own[j] + kappa);
                backward_J[j] = (count[j] - own[j] + kappa * ((1.0 - identical) * backward_J[j] + same)) /
                                (backward.links[j] - own[j] + kappa);
            }
        }
        for (int j = 0; j < J; ++j) forward_JI[size_t(j) * forward_stride + i + 1] = row_J[j];
    }
}

// p(a word is emitted by word s) of each of T words, (T, S), by the distance from the diagonal.
void diagonal_prior(std::vector<double>& prior_TS, int S, int T, const Settings& settings) {
    double* prior = sized(prior_TS, size_t(T) * S);
    for (int t = 0; t < T; ++t, prior += S) {
        double sum = 0.0;
        for (int s = 0; s < S; ++s) {
            // Nine decimals: the last bit of an exponential differs between processors.
            const double distance = std::abs((s + 0.5) / S - (t + 0.5) / T);
            prior[s] = rounded(std::exp(-settings.diagonal_tension * distance) * 1e9) / 1e9;
            sum += prior[s];
        }
        const double norm = (1.0 - settings.empty_probability) / std::max(sum, 1e-9);
        for (int s = 0; s < S; ++s) prior[s] *= norm;
    }
}

FOR_EACH_PROCESSOR
void model2(Posteriors& found, const Workspace::Direction& direction, const double* prior, double empty_probability) {
    const int S = found.S, T = found.T, stride = found.stride;
    found.log_likelihood = 0.0;
    for (int t = 0; t < T; ++t, prior += S) {
        const double* emission = &direction.emission[size_t(t) * stride + 1];
        double* states = &found.states[size_t(t) * stride + 1];
        for (int s = 0; s < S; ++s) states[s] = prior[s] * emission[s];
        double total = 0.0;
        for (int s = 0; s < S; ++s) total += states[s];
        total = divisor(total + empty_probability * direction.empty_emission[t]);
        for (int s = 0; s < S; ++s) states[s] /= total;
        found.log_likelihood += std::log(total);
    }
}

// Forward-backward. Memories m: 0 is "before the first word", m is word m - 1; empty states remember the last position.
// `jumps[d]` is the weight of a jump by d words, `reversed_jumps[d]` that of one by -d.
FOR_EACH_PROCESSOR
void forward_backward(
    Posteriors& found, const Workspace::Direction& direction, const double* jumps, const double* reversed_jumps,
    double empty_probability, double* jump_counts, std::vector<double>& scratch) {
    const int S = found.S, T = found.T, M = found.stride;
    double* space = sized(scratch, size_t(M) * (4 * T + 6));
    auto take = [&](int rows) {
        double* taken = space;
        space += size_t(rows) * M;
        return taken;
    };
    double *before_TM = take(T), *moved_TM = take(T), *from_TM = take(T), *arrive_TM = take(T);
    double *leave = take(1), *memory = take(1), *left = take(1), *after = take(1), *here = take(1);

    const double one = 1.0;
    weighted_sum(leave, M, &one, 0, S, reversed_jumps - 1, -1);
    for (int m = 0; m < M; ++m) leave[m] = m <= S ? (1.0 - empty_probability) / leave[m] : 0.0;
    for (int m = 0; m < M; ++m) memory[m] = m == 0;
    for (int t = 0; t < T; ++t) {
        const double* emission = &direction.emission[size_t(t) * M];
        const double stay = empty_probability * direction.empty_emission[t];
        double *before = before_TM + size_t(t) * M, *moved = moved_TM + size_t(t) * M;
        for (int m = 0; m < M; ++m) before[m] = memory[m];
        for (int m = 0; m < M; ++m) left[m] = memory[m] * leave[m];
        weighted_sum(moved, M, left, 1, S + 1, jumps, -1);
        for (int m = 0; m < M; ++m) moved[m] *= emission[m];
        for (int m = 0; m < M; ++m) memory[m] = memory[m] * stay + moved[m];
        const double scale = divisor(largest(memory, M));
        for (int m = 0; m < M; ++m) memory[m] /= scale;
    }

    for (int m = 0; m < M; ++m) after[m] = m <= S;
    found.log_likelihood = 0.0;
    for (int t = T - 1; t >= 0; --t) {
        const double* emission = &direction.emission[size_t(t) * M];
        const double stay = empty_probability * direction.empty_emission[t];
        const double *before = before_TM + size_t(t) * M, *moved = moved_TM + size_t(t) * M;
        double *arrive = arrive_TM + size_t(t) * M, *from = from_TM + size_t(t) * M;
        for (int m = 0; m < M; ++m) arrive[m] = emission[m] * after[m];
        weighted_sum(here, M, arrive + 1, 1, S, reversed_jumps - 1, -1);
        double scale = 0.0;
        for (int m = 0; m < M; ++m) here[m] = here[m] * leave[m] + stay * after[m];
        for (int m = 0; m <= S; ++m) scale += before[m] * here[m];
        scale = divisor(scale);
        double* states = &found.states[size_t(t) * M];
        for (int m = 0; m < M; ++m) states[m] = moved[m] * after[m] / scale;
        const double norm = t ? divisor(largest(here, M)) : scale;  // the last one has the whole likelihood
        if (jump_counts) {
            found.log_likelihood += std::log(norm);
            for (int m = 0; m < M; ++m) from[m] = before[m] * leave[m] / scale;
        }
        for (int m = 0; m < M; ++m) after[m] = here[m] / norm;
        double emitted = 0.0;
        for (int m = 1; m <= S; ++m) emitted += states[m];
        found.empty[t] = std::max(1.0 - emitted, 0.0);
    }

    if (!jump_counts) return;
    double* moves = take(1);
    std::fill(jump_counts, jump_counts + JUMPS, 0.0);
    for (int m = 0; m <= S; ++m) {  // moves[k]: from memory m to memory k, without the jump's weight
        weighted_sum(moves, M, from_TM + m, M, T, arrive_TM, M);
        for (int k = 1; k <= S; ++k) {
            jump_counts[std::clamp(k - m, -MAX_JUMP, MAX_JUMP) + MAX_JUMP] += jumps[k - m] * moves[k];
        }
    }
}

// Multiplies posteriors by P(n + 1 | word) / P(n | word), for a state that is expected to emit n other words.
FOR_EACH_PROCESSOR
void reweight(
    Posteriors& found, const int32_t* words, size_t known_words, const float* fertilities_WF,
    std::vector<double>& scratch) {
    const int S = found.S, T = found.T, M = found.stride;
    double* totals = sized(scratch, M);
    std::fill(totals, totals + M, 0.0);
    for (int t = 0; t < T; ++t) {
        for (int m = 0; m < M; ++m) totals[m] += found.states[size_t(t) * M + m];
    }
    for (int t = 0; t < T; ++t) {
        double* states = &found.states[size_t(t) * M];
        double total = 0.0;
        for (int m = 1; m <= S; ++m) {
            const float* fertilities = fertilities_WF + std::min<size_t>(words[m - 1], known_words) * F;
            double others = totals[m] - states[m];
            others = others > 0.0 ? std::min(others, double(F - 2)) : 0.0;
            const int n = std::min(int(others), F - 3);
            const double part = others - n;  // between two whole numbers of words, probabilities are interpolated
            const float p0 = fertilities[n], p1 = fertilities[n + 1], p2 = fertilities[n + 2];
            const float second = p2 - p1, first = p1 - p0;
            states[m] = states[m] * (double(p1) + part * double(second)) / (double(p0) + part * double(first));
            total += states[m];
        }
        total += found.empty[t];
        if (total == 0.0) total = 1.0;
        for (int m = 0; m < M; ++m) states[m] /= total;
        found.empty[t] /= total;
    }
}

void extended(std::vector<double>& jumps, const std::vector<double>& weights, int reach, int sign) {
    jumps.resize(2 * reach + 1);
    for (int d = -reach; d <= reach; ++d) {
        jumps[d + reach] = weights[std::clamp(sign * d, -MAX_JUMP, MAX_JUMP) + MAX_JUMP];
    }
}

}  // namespace

void Posteriors::resize(int states_, int times) {
    S = states_, T = times, stride = padded(S + 1);
    states.assign(size_t(T) * stride, 0.0);
    empty.assign(T, 0.0);
}

void model2_posteriors(Workspace& work, const Model& model, const Settings& settings, const SentencePair& pair, const int32_t* stem_of_word) {
    emissions(work, model, settings, pair, stem_of_word, true);
    work.forward.resize(pair.I, pair.J);
    work.backward.resize(pair.J, pair.I);
    if (pair.I != work.prior_I || pair.J != work.prior_J) {
        diagonal_prior(work.priors[0], pair.I, pair.J, settings);
        diagonal_prior(work.priors[1], pair.J, pair.I, settings);
        work.prior_I = pair.I, work.prior_J = pair.J;
    }
    model2(work.forward, work.directions[0], work.priors[0].data(), settings.empty_probability);
    model2(work.backward, work.directions[1], work.priors[1].data(), settings.empty_probability);
}

void hmm_posteriors(
    Workspace& work, const Model& model, const Settings& settings, const SentencePair& pair, const int32_t* stem_of_word, bool count) {
    emissions(work, model, settings, pair, stem_of_word, false);
    work.forward.resize(pair.I, pair.J);
    work.backward.resize(pair.J, pair.I);
    for (int way = 0; way < 2; ++way) {
        Posteriors& found = way == 0 ? work.forward : work.backward;
        const int reach = found.stride + LANES;
        extended(work.jumps, model.jump_weights[way], reach, 1);
        extended(work.reversed_jumps, model.jump_weights[way], reach, -1);
        forward_backward(
            found, work.directions[way], work.jumps.data() + reach, work.reversed_jumps.data() + reach,
            settings.empty_probability, count ? work.jump_counts[way] : nullptr, work.scratch);
        if (model.fertilities[way]) {
            reweight(found, way == 0 ? pair.source : pair.target, model.words, model.fertilities[way], work.scratch);
        }
    }
}

FOR_EACH_PROCESSOR
void fertility_distribution(const Posteriors& posteriors, std::vector<double>& distribution_SF) {
    const int S = posteriors.S, T = posteriors.T, M = posteriors.stride;
    double* distribution = sized(distribution_SF, size_t(M) * F);
    for (int m = 0; m < M; m += LANES) {  // LANES states at once; state s is at m = s + 1
        Lanes chances[F];
        for (int n = 0; n < F; ++n) chances[n] = Lanes{0.0, 0.0, 0.0, 0.0};
        chances[0] += 1.0;
        for (int t = 0; t < T; ++t) {
            const Lanes emits = load(&posteriors.states[size_t(t) * M + m]);
            Lanes one_more[F];
            for (int n = 0; n < F; ++n) {
                one_more[n] = chances[n] * emits;
                chances[n] -= one_more[n];
            }
            for (int n = 1; n < F; ++n) chances[n] += one_more[n - 1];
            chances[F - 1] += one_more[F - 1];
        }
        for (int lane = 0; lane < LANES; ++lane) {
            const int s = m + lane - 1;
            if (s < 0 || s >= S) continue;
            for (int n = 0; n < F; ++n) distribution[size_t(s) * F + n] = std::max(chances[n][lane], 0.0);
        }
    }
}

}  // namespace aligner
