// The Python module: NumPy arrays in and out, checked here once; everything behind it trusts them.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "model.hpp"
#include "training.hpp"

namespace py = pybind11;

namespace aligner {
namespace {

template <typename T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

void require(bool holds, const char* expected) {
    if (!holds) throw py::value_error(std::string("expected ") + expected);
}

template <typename T>
void require_between(const Array<T>& values, T least, T below, const char* expected) {
    for (py::ssize_t k = 0; k < values.size(); ++k) require(least <= values.data()[k] && values.data()[k] < below, expected);
}

template <typename T>
py::array_t<T> to_array(std::vector<T>&& values) {  // without a copy
    auto* kept = new std::vector<T>(std::move(values));
    py::capsule owner(kept, [](void* pointer) { delete static_cast<std::vector<T>*>(pointer); });
    return py::array_t<T>(py::ssize_t(kept->size()), kept->data(), owner);
}

constexpr int64_t MAX_NUMBER = 0x7FFFFFFF;

struct PyModel : Model {
    Array<float> kept_fertilities;  // read in place

    PyModel(
        const Array<int64_t>& stem_of_word, size_t stems_, const Array<int64_t>& source_frequency,
        const Array<int64_t>& target_frequency, const Array<int64_t>& keys, const Array<int64_t>& counts, bool by_stem,
        const Array<double>& jumps, const py::object& fertilities_) {
        words = size_t(stem_of_word.size());
        stems = stems_;
        require(int64_t(words) < MAX_NUMBER && int64_t(stems) < MAX_NUMBER, "fewer than 2^31 words");
        require_between<int64_t>(stem_of_word, 0, int64_t(stems), "the number of a stem for each word");
        require(source_frequency.size() == int64_t(words) && target_frequency.size() == int64_t(words),
                "two frequencies of each word");
        require_between<int64_t>(source_frequency, 0, int64_t(1) << 52, "frequencies of at least 0");
        require_between<int64_t>(target_frequency, 0, int64_t(1) << 52, "frequencies of at least 0");
        require(keys.size() == counts.size(), "a count for each pair of words");
        require_between<int64_t>(counts, 0, int64_t(1) << 52, "counts of at least 0");
        const int64_t numbers = int64_t(by_stem ? stems : words);
        for (py::ssize_t k = 0; k < keys.size(); ++k) {
            const int64_t key = keys.data()[k];
            require(key >= 0 && (key >> 32) < numbers && (key & 0xFFFFFFFF) < numbers, "pairs of known words");
            require(k == 0 || keys.data()[k - 1] < key, "pairs of words in ascending order");
        }
        require(jumps.ndim() == 2 && jumps.shape(0) == 2 && jumps.shape(1) == JUMPS, "two rows of jump weights");
        for (py::ssize_t k = 0; k < jumps.size(); ++k) {
            require(jumps.data()[k] >= 1e-9 && jumps.data()[k] <= 1e18, "positive jump weights");
        }
        for (int way = 0; way < 2; ++way) {
            jump_weights[way].assign(jumps.data() + way * JUMPS, jumps.data() + (way + 1) * JUMPS);
        }
        if (!fertilities_.is_none()) {
            kept_fertilities = py::cast<Array<float>>(fertilities_);
            const Array<float>& table = kept_fertilities;
            require(table.ndim() == 3 && table.shape(0) == 2 && table.shape(1) == int64_t(words) + 1 && table.shape(2) == F,
                    "two tables of fertilities, with a row for each word and one more");
            require_between<float>(table, 0.0f, 1.001f, "fertilities that are probabilities");
            fertilities[0] = table.data();
            fertilities[1] = table.data() + (words + 1) * F;
        }

        const int64_t* stem_of = stem_of_word.data();
        const int64_t* source_of = source_frequency.data();
        const int64_t* target_of = target_frequency.data();
        const int64_t *key = keys.data(), *count = counts.data();
        const size_t size = size_t(keys.size());
        py::gil_scoped_release release;
        count_side(source, source_of, stem_of);
        count_side(target, target_of, stem_of);
        if (by_stem) {
            set_stems(key, count, size);
            return;
        }
        word_pairs = PairTable(key, count, size, words);
        add_links(key, count, size, source.links_W, target.links_W);
        PairCounter counter;
        PairCounter::Writer writer(counter);
        for (size_t k = 0; k < size; ++k) {
            writer.add(uint32_t(stem_of[key[k] >> 32]), uint32_t(stem_of[key[k] & 0xFFFFFFFF]), count[k]);
        }
        writer.flush();
        const PairCounts of_stems = counter.take(stems);
        set_stems(of_stems.keys.data(), of_stems.counts.data(), of_stems.keys.size());
    }

    py::tuple align_(const struct PyCorpus& corpus, const Settings& settings, double min_score, int max_words, int threads) const;
    py::tuple align_directed_(const struct PyCorpus& corpus, const Settings& settings, int max_words, int threads) const;

private:
    void count_side(Side& side, const int64_t* frequency, const int64_t* stem_of) {
        side.frequency_W.assign(words + 1, 0.0);
        side.stem_frequency_S.assign(stems + 1, 0.0);
        side.links_W.assign(words + 1, 0.0);
        side.stem_links_S.assign(stems + 1, 0.0);
        for (size_t word = 0; word < words; ++word) {
            side.frequency_W[word] = double(frequency[word]);
            side.stem_frequency_S[stem_of[word]] += double(frequency[word]);
            side.frequency_sum += double(frequency[word]);
        }
        side.stem_frequency_sum = side.frequency_sum;
    }
    static void add_links(
        const int64_t* keys, const int64_t* counts, size_t size, std::vector<double>& source, std::vector<double>& target) {
        for (size_t k = 0; k < size; ++k) {
            source[keys[k] >> 32] += double(counts[k]);  // whole numbers below 2^53: exact
            target[keys[k] & 0xFFFFFFFF] += double(counts[k]);
        }
        for (double& links : source) links /= double(ONE);
        for (double& links : target) links /= double(ONE);
    }
    void set_stems(const int64_t* keys, const int64_t* counts, size_t size) {
        stem_pairs = PairTable(keys, counts, size, stems);
        add_links(keys, counts, size, source.stem_links_S, target.stem_links_S);
    }
};

struct PyCorpus : Corpus {
    Array<int32_t> source_words, target_words, stems_of_words;
    Array<int64_t> source_offsets, target_offsets;
    std::vector<Cells> cells;

    PyCorpus(
        Array<int32_t> source_words_, Array<int64_t> source_offsets_, Array<int32_t> target_words_,
        Array<int64_t> target_offsets_, Array<int32_t> stems_of_words_)
        : source_words(std::move(source_words_)), target_words(std::move(target_words_)),
          stems_of_words(std::move(stems_of_words_)), source_offsets(std::move(source_offsets_)),
          target_offsets(std::move(target_offsets_)) {
        check(source_words, source_offsets);
        check(target_words, target_offsets);
        require(source_offsets.size() == target_offsets.size(), "as many source as target sentences");
        require_between<int32_t>(stems_of_words, 0, int32_t(MAX_NUMBER), "the number of a stem for each word");
        source = {source_words.data(), source_offsets.data()};
        target = {target_words.data(), target_offsets.data()};
        pairs = size_t(source_offsets.size()) - 1;
        stem_of_word = stems_of_words.data();
        require(pairs < size_t(MAX_NUMBER), "fewer than 2^31 sentence pairs");
        cells.resize((pairs + BLOCK - 1) / BLOCK);
    }

    py::tuple expect_(const PyModel& model, const Settings& settings, bool hmm, bool agree, bool keep, const PyModel* before, int threads) {
        require(stems_of_words.size() == int64_t(model.words), "a model of the corpus's own vocabulary");
        require_between<int32_t>(stems_of_words, 0, int32_t(model.stems), "a model of the corpus's own vocabulary");
        require(!before || before->words == model.words, "two models of one vocabulary");
        if (order.size() < pairs) {
            order.resize(pairs);
            std::iota(order.begin(), order.end(), 0u);
            // The longest first: no thread is left alone with them at the end.
            std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
                return std::make_pair(source.length(a), target.length(a)) >
                       std::make_pair(source.length(b), target.length(b));
            });
        }
        for (size_t n = 0; n < pairs; ++n) {
            require(source.length(n) > 0 && target.length(n) > 0, "words on both sides of each sentence pair");
        }
        Expected expected;
        {
            py::gil_scoped_release release;
            const Pass pass = {hmm ? Kind::hmm : Kind::model2, settings, agree, keep, before};
            expected = expect(*this, model, pass, cells, threads);
        }
        py::array_t<double> jumps({2, JUMPS});
        py::list fertilities;
        for (int way = 0; way < 2; ++way) {
            for (int jump = 0; jump < JUMPS; ++jump) jumps.mutable_at(way, jump) = double(expected.jumps[way][jump]) * JUMP_UNIT;
            fertilities.append(to_array(std::move(expected.fertilities[way])).attr("reshape")(-1, F));
        }
        return py::make_tuple(
            to_array(std::move(expected.links.keys)), to_array(std::move(expected.links.counts)), jumps, fertilities,
            double(expected.log_likelihood) * LIKELIHOOD_UNIT);
    }

private:
    void check(const Array<int32_t>& words, const Array<int64_t>& offsets) const {
        require_between<int32_t>(words, 0, int32_t(stems_of_words.size()), "words that have a stem");
        require(offsets.size() > 0 && offsets.data()[0] == 0, "offsets from 0");
        for (py::ssize_t n = 1; n < offsets.size(); ++n) {
            const int64_t length = offsets.data()[n] - offsets.data()[n - 1];
            require(0 <= length && length < MAX_NUMBER, "offsets in ascending order");
        }
        require(offsets.data()[offsets.size() - 1] == words.size(), "offsets up to the number of words");
    }
};

py::tuple to_arrays(const std::vector<FoundLink>& links, size_t lists) {
    std::vector<int64_t> counts(lists, 0);
    std::vector<int32_t> sources(links.size()), targets(links.size());
    std::vector<double> scores(links.size());
    for (size_t n = 0; n < links.size(); ++n) {
        ++counts[links[n].list];
        sources[n] = int32_t(links[n].source);
        targets[n] = int32_t(links[n].target);
        scores[n] = links[n].score;
    }
    return py::make_tuple(
        to_array(std::move(counts)), to_array(std::move(sources)), to_array(std::move(targets)),
        to_array(std::move(scores)));
}

py::tuple PyModel::align_(const PyCorpus& corpus, const Settings& settings, double min_score, int max_words, int threads) const {
    std::vector<FoundLink> links;
    {
        py::gil_scoped_release release;
        links = align(corpus, *this, settings, min_score, max_words, threads);
    }
    return to_arrays(links, corpus.pairs);
}

py::tuple PyModel::align_directed_(const PyCorpus& corpus, const Settings& settings, int max_words, int threads) const {
    std::vector<FoundLink> links;
    {
        py::gil_scoped_release release;
        links = align_directed(corpus, *this, settings, max_words, threads);
    }
    return to_arrays(links, 2 * corpus.pairs);
}

}  // namespace
}  // namespace aligner

PYBIND11_MODULE(_native, module) {
    using namespace aligner;
    module.doc() = "The word aligner's arithmetic: word numbers in, expected counts and links out.";
    module.attr("ONE") = ONE;
    module.attr("LEAST") = LEAST;
    module.attr("MAX_JUMP") = MAX_JUMP;
    module.attr("F") = F;
    py::class_<Settings>(module, "Settings")
        .def(py::init<double, double, double, double>(), py::kw_only(), py::arg("diagonal_tension"),
             py::arg("empty_probability"), py::arg("backoff"), py::arg("identical"));
    py::class_<PyModel>(module, "Model")
        .def(py::init<
                 const Array<int64_t>&, size_t, const Array<int64_t>&, const Array<int64_t>&, const Array<int64_t>&,
                 const Array<int64_t>&, bool, const Array<double>&, const py::object&>(),
             py::kw_only(), py::arg("stem_of_word"), py::arg("stems"), py::arg("source_frequency"),
             py::arg("target_frequency"), py::arg("keys"), py::arg("counts"), py::arg("by_stem"), py::arg("jumps"),
             py::arg("fertilities"))
        .def("align", &PyModel::align_, py::arg("corpus"), py::arg("settings"), py::kw_only(), py::arg("min_score"), py::arg("max_words"),
             py::arg("threads"),
             "Links: how many each sentence pair has; then of each link the source word, the target word, the score.")
        .def("align_directed", &PyModel::align_directed_, py::arg("corpus"), py::arg("settings"), py::kw_only(), py::arg("max_words"),
             py::arg("threads"), "Each word's most probable partner, as `align` gives links: forward, then backward of each pair.");
    py::class_<PyCorpus>(module, "Corpus")
        .def(py::init<Array<int32_t>, Array<int64_t>, Array<int32_t>, Array<int64_t>, Array<int32_t>>(), py::kw_only(),
             py::arg("source_words"), py::arg("source_offsets"), py::arg("target_words"), py::arg("target_offsets"),
             py::arg("stem_of_word"))
        .def("expect", &PyCorpus::expect_, py::arg("model"), py::arg("settings"), py::kw_only(), py::arg("hmm"), py::arg("agree"),
             py::arg("keep"), py::arg("before"), py::arg("threads"),
             "One pass: keys and counts of the links, (2, jumps) jump counts, two (W, F) tables of fertility counts, the log-likelihood.");
}
