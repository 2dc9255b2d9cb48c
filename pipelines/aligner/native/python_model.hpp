// A trained model as arrays in the layout of its file: making them, checking them, reading them in place.
#pragma once

#include <string>
#include <string_view>

#include "model.hpp"
#include "python_arrays.hpp"
#include "tables.hpp"

namespace aligner {

// The words of a vocabulary as UTF-8, one after another: word w is text[offsets[w]:offsets[w + 1]]. They are sorted.
struct PyWords {
    Array<uint8_t> text;
    Array<int64_t> offsets;
    Array<int32_t> stem_of_word;
    size_t words, stems;

    PyWords(Array<uint8_t> text_, Array<int64_t> offsets_, Array<int32_t> stem_of_word_)
        : text(std::move(text_)), offsets(std::move(offsets_)), stem_of_word(std::move(stem_of_word_)) {
        require(offsets.size() > 0 && offsets.size() < MAX_NUMBER, "fewer than 2^31 words");
        words = size_t(offsets.size()) - 1;
        require(offsets.data()[0] == 0 && offsets.data()[words] == text.size(), "offsets from 0 to the end of the words");
        for (size_t w = 0; w < words; ++w) require(offsets.data()[w] <= offsets.data()[w + 1], "offsets in ascending order");
        for (size_t w = 1; w < words; ++w) require(word(w - 1) < word(w), "words in ascending order");
        require(stem_of_word.size() == int64_t(words), "the number of a stem for each word");
        int32_t last = -1;
        for (size_t w = 0; w < words; ++w) {
            const int32_t stem = stem_of_word.data()[w];
            require(stem >= 0 && (stem == last || stem == last + 1), "stems in ascending order");
            last = stem;
        }
        stems = size_t(last + 1);
    }
    std::string_view word(size_t w) const {
        const int64_t start = offsets.data()[w];
        return {reinterpret_cast<const char*>(text.data()) + start, size_t(offsets.data()[w + 1] - start)};
    }
    int64_t find(const py::bytes& wanted_, bool prefix) const {
        const std::string_view wanted = wanted_;
        size_t first = 0, last = words;  // the first word that is not before the wanted one is between them
        while (first < last) {
            const size_t middle = first + (last - first) / 2;
            if (word(middle) < wanted) {
                first = middle + 1;
            } else {
                last = middle;
            }
        }
        if (first == words) return -1;
        const std::string_view found = word(first);
        return (prefix ? found.substr(0, wanted.size()) : found) == wanted ? int64_t(first) : -1;
    }
};

// Makes the arrays that `Model` reads from the estimates of training.
inline py::dict tables(
    const Array<int32_t>& stem_of_word, size_t stems, const Array<int64_t>& source_frequency,
    const Array<int64_t>& target_frequency, const Array<int64_t>& keys, const Array<int64_t>& counts, bool by_stem) {
    const size_t words = size_t(stem_of_word.size()), size = size_t(keys.size());
    require(int64_t(words) < MAX_NUMBER && int64_t(stems) < MAX_NUMBER, "fewer than 2^31 words");
    require_between<int32_t>(stem_of_word, 0, int32_t(stems), "the number of a stem for each word");
    require(source_frequency.size() == int64_t(words) && target_frequency.size() == int64_t(words),
            "two frequencies of each word");
    require_between<int64_t>(source_frequency, 0, int64_t(1) << 52, "frequencies of at least 0");
    require_between<int64_t>(target_frequency, 0, int64_t(1) << 52, "frequencies of at least 0");
    require(keys.size() == counts.size(), "a count for each pair of words");
    require_between<int64_t>(counts, 0, int64_t(1) << 52, "counts of at least 0");
    const int64_t *key = keys.data(), *count = counts.data();
    const int64_t numbers = int64_t(by_stem ? stems : words);
    for (size_t k = 0; k < size; ++k) {
        require(key[k] >= 0 && (key[k] >> 32) < numbers && (key[k] & 0xFFFFFFFF) < numbers, "pairs of known words");
        require(k == 0 || key[k - 1] < key[k], "pairs of words in ascending order");
    }

    py::dict made;
    auto keep = [&](const std::string& name, auto&& values) { made[name.c_str()] = to_array(std::move(values)); };
    auto keep_pairs = [&](const std::string& what, const int64_t* keys, const int64_t* counts, size_t size, size_t sources) {
        PairArrays found;
        std::vector<double> links[2] = {std::vector<double>(sources + 1, 0.0), std::vector<double>(sources + 1, 0.0)};
        {
            py::gil_scoped_release release;
            found = hashed(keys, counts, size, sources);
            for (size_t k = 0; k < size; ++k) {
                links[0][keys[k] >> 32] += double(counts[k]);  // whole numbers below 2^53: exact
                links[1][keys[k] & 0xFFFFFFFF] += double(counts[k]);
            }
            for (std::vector<double>& side : links) {
                for (double& sum : side) sum /= double(ONE);
            }
        }
        keep(what + "_starts", found.starts);
        keep(what + "_targets", found.targets);
        keep(what + "_counts", found.counts);
        keep("source_" + what + "_links", links[0]);
        keep("target_" + what + "_links", links[1]);
    };
    for (int side = 0; side < 2; ++side) {
        const int64_t* frequency = (side == 0 ? source_frequency : target_frequency).data();
        std::vector<double> of_word(words + 1, 0.0), of_stem(stems + 1, 0.0);
        for (size_t word = 0; word < words; ++word) {
            of_word[word] = double(frequency[word]);
            of_stem[size_t(stem_of_word.data()[word])] += double(frequency[word]);
        }
        keep(side == 0 ? "source_word_frequency" : "target_word_frequency", of_word);
        keep(side == 0 ? "source_stem_frequency" : "target_stem_frequency", of_stem);
    }
    if (by_stem) {
        keep_pairs("word", nullptr, nullptr, 0, words);
        keep_pairs("stem", key, count, size, stems);
        return made;
    }
    keep_pairs("word", key, count, size, words);
    PairCounts of_stems;
    {
        py::gil_scoped_release release;
        PairCounter counter;
        PairCounter::Writer writer(counter);
        const int32_t* stem_of = stem_of_word.data();
        for (size_t k = 0; k < size; ++k) {
            writer.add(uint32_t(stem_of[key[k] >> 32]), uint32_t(stem_of[key[k] & 0xFFFFFFFF]), count[k]);
        }
        writer.flush();
        of_stems = counter.take(stems);
    }
    keep_pairs("stem", of_stems.keys.data(), of_stems.counts.data(), of_stems.keys.size(), stems);
    return made;
}

// Reads its arrays in place. They may come from a file, so it checks once that no look-up can go out of bounds.
struct PyModel : Model {
    std::vector<py::object> kept;

    explicit PyModel(const py::dict& arrays, const Array<double>& jumps, const py::object& fertilities_) {
        word_pairs = pair_table(arrays, "word", words);
        stem_pairs = pair_table(arrays, "stem", stems);
        for (Side* side : {&source, &target}) {
            const std::string name = side == &source ? "source" : "target";
            side->frequency_W = sums(arrays, name + "_word_frequency", words);
            side->stem_frequency_S = sums(arrays, name + "_stem_frequency", stems);
            side->links_W = sums(arrays, name + "_word_links", words);
            side->stem_links_S = sums(arrays, name + "_stem_links", stems);
            for (size_t word = 0; word < words; ++word) side->frequency_sum += side->frequency_W[word];
            side->stem_frequency_sum = side->frequency_sum;
        }
        require(jumps.ndim() == 2 && jumps.shape(0) == 2 && jumps.shape(1) == JUMPS, "two rows of jump weights");
        for (py::ssize_t k = 0; k < jumps.size(); ++k) {
            require(jumps.data()[k] >= 1e-9 && jumps.data()[k] <= 1e18, "positive jump weights");
        }
        for (int way = 0; way < 2; ++way) {
            jump_weights[way].assign(jumps.data() + way * JUMPS, jumps.data() + (way + 1) * JUMPS);
        }
        if (!fertilities_.is_none()) {
            const auto table = py::cast<Array<float>>(fertilities_);
            kept.push_back(table);
            require(table.ndim() == 3 && table.shape(0) == 2 && table.shape(1) == int64_t(words) + 1 && table.shape(2) == F,
                    "two tables of fertilities, with a row for each word and one more");
            require_between<float>(table, 0.0f, 1.001f, "fertilities that are probabilities");
            fertilities[0] = table.data();
            fertilities[1] = table.data() + (words + 1) * F;
        }
    }

private:
    template <typename T>
    Array<T> keep(const py::dict& arrays, const std::string& name) {
        require(arrays.contains(name), name.c_str());
        const auto array = py::cast<Array<T>>(arrays[name.c_str()]);
        kept.push_back(array);
        return array;
    }
    PairTable pair_table(const py::dict& arrays, const std::string& what, size_t& numbers) {
        const auto starts = keep<int64_t>(arrays, what + "_starts");
        const auto targets = keep<uint32_t>(arrays, what + "_targets");
        const auto counts = keep<double>(arrays, what + "_counts");
        require(starts.size() > 0 && starts.size() < MAX_NUMBER, "fewer than 2^31 words");
        require(targets.size() > 0 && targets.size() % 4 == 0 && targets.size() / 4 <= MAX_NUMBER, "buckets of four");
        require(targets.size() == counts.size(), "a count for each pair of words");
        numbers = size_t(starts.size()) - 1;
        const PairTable table(starts.data(), numbers, targets.data(), counts.data());
        const char* fault = table.fault(size_t(targets.size()) / 4);
        require(!fault, fault);
        return table;
    }
    const double* sums(const py::dict& arrays, const std::string& name, size_t numbers) {
        const auto array = keep<double>(arrays, name);
        require(array.size() == int64_t(numbers) + 1, "sums for each word, and one more");
        require_between<double>(array, 0.0, 1e15, "sums of at least 0");
        return array.data();
    }
};

}  // namespace aligner
