// The Python module. It checks the NumPy arrays that it is given once; the code behind it trusts them.

#include <algorithm>
#include <numeric>

#include "python_arrays.hpp"
#include "python_model.hpp"
#include "training.hpp"

namespace aligner {
namespace {

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
            // The longest pairs come first, so that no thread is still busy with one when the others have finished.
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

py::tuple align_(const PyModel& model, const PyCorpus& corpus, const Settings& settings, double min_score, int max_words, int threads) {
    std::vector<FoundLink> links;
    {
        py::gil_scoped_release release;
        links = align(corpus, model, settings, min_score, max_words, threads);
    }
    return to_arrays(links, corpus.pairs);
}

py::tuple align_directed_(const PyModel& model, const PyCorpus& corpus, const Settings& settings, int max_words, int threads) {
    std::vector<FoundLink> links;
    {
        py::gil_scoped_release release;
        links = align_directed(corpus, model, settings, max_words, threads);
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
    module.attr("EMPTY") = PairTable::EMPTY;
    py::class_<Settings>(module, "Settings")
        .def(py::init<double, double, double, double>(), py::kw_only(), py::arg("diagonal_tension"),
             py::arg("empty_probability"), py::arg("backoff"), py::arg("identical"));
    module.def(
        "tables", &tables, py::kw_only(), py::arg("stem_of_word"), py::arg("stems"), py::arg("source_frequency"),
        py::arg("target_frequency"), py::arg("keys"), py::arg("counts"), py::arg("by_stem"),
        "Returns the arrays that `Model` reads, by name.");
    py::class_<PyWords>(module, "Words")
        .def(py::init<Array<uint8_t>, Array<int64_t>, Array<int32_t>>(), py::arg("text"), py::arg("offsets"),
             py::arg("stem_of_word"))
        .def_readonly("stems", &PyWords::stems)
        .def("find", &PyWords::find, py::arg("word"), py::arg("prefix") = false,
             "Returns the number of the word, or with `prefix` of the first word that begins with it; -1 if there is none.");
    py::class_<PyModel>(module, "Model")
        .def(py::init<const py::dict&, const Array<double>&, const py::object&>(), py::arg("tables"), py::kw_only(),
             py::arg("jumps"), py::arg("fertilities"))
        .def_readonly("words", &PyModel::words)
        .def_readonly("stems", &PyModel::stems)
        .def("align", &align_, py::arg("corpus"), py::arg("settings"), py::kw_only(), py::arg("min_score"), py::arg("max_words"),
             py::arg("threads"),
             "Returns the number of links of each sentence pair, then source word, target word and score of each link.")
        .def("align_directed", &align_directed_, py::arg("corpus"), py::arg("settings"), py::kw_only(), py::arg("max_words"),
             py::arg("threads"), "Returns each word's most probable partner in the form of `align`: for each pair forward, then backward.");
    py::class_<PyCorpus>(module, "Corpus")
        .def(py::init<Array<int32_t>, Array<int64_t>, Array<int32_t>, Array<int64_t>, Array<int32_t>>(), py::kw_only(),
             py::arg("source_words"), py::arg("source_offsets"), py::arg("target_words"), py::arg("target_offsets"),
             py::arg("stem_of_word"))
        .def("expect", &PyCorpus::expect_, py::arg("model"), py::arg("settings"), py::kw_only(), py::arg("hmm"), py::arg("agree"),
             py::arg("keep"), py::arg("before"), py::arg("threads"),
             "Runs one pass. Returns keys and counts of the links, jump counts (2, jumps), two tables of fertility counts (W, F), the log-likelihood.");
}
