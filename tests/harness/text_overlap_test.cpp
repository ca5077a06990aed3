// F1, ROUGE and calibration against numbers that were computed by hand.
#include "harness/calibration.hpp"
#include "harness/text_overlap.hpp"

#include <array>
#include <cmath>
#include <doctest/doctest.h>

using namespace hekla::harness;
using Words = std::vector<std::string>;

TEST_CASE("SQuAD's F1 ignores case, punctuation and articles") {
    CHECK(squad_words("The  cat, a DOG;\tan eel's (tail)") == Words{"cat", "dog", "eels", "tail"});
    CHECK(squad_f1("the cat sat", "a cat") == doctest::Approx(2.0 / 3.0)); // precision 1/2, recall 1
    CHECK(squad_f1("cat cat cat", "cat cat dog") == doctest::Approx(2.0 / 3.0));
    CHECK(squad_f1("In 1066!", "in 1066") == 1.0);
    CHECK(squad_f1("the", "a.") == 1.0);
    CHECK(squad_f1("the", "cat") == 0.0);
    CHECK(squad_f1("dog", "cat") == 0.0);
}

TEST_CASE("ROUGE counts shared n-grams and the longest common subsequence") {
    CHECK(rouge_words("It's 3-D: The end.") == Words{"it", "s", "3", "d", "the", "end"});
    const char* const reference = "the cat sat on the mat"; // 6 words, 5 pairs
    const char* const prediction = "the cat the mat on";    // 5 words, 4 pairs
    // Words in common: the (2), cat, mat, on: 5 of 5 and of 6.
    CHECK(rouge_n(prediction, reference, 1) == doctest::Approx(2.0 * 1.0 * (5.0 / 6.0) / (1.0 + 5.0 / 6.0)));
    // Pairs in common: "the cat", "the mat": 2 of 4 and of 5.
    CHECK(rouge_n(prediction, reference, 2) == doctest::Approx(2.0 * 0.5 * 0.4 / 0.9));
    // The longest common subsequence is "the cat the mat": 4 of 5 and of 6.
    CHECK(rouge_l(prediction, reference) == doctest::Approx(2.0 * 0.8 * (4.0 / 6.0) / (0.8 + 4.0 / 6.0)));
    CHECK(rouge_l("a b c", "c b a") == doctest::Approx(1.0 / 3.0));
    CHECK(rouge_n("", "cat", 1) == 0.0);
    CHECK(rouge_n("cat", "cat", 2) == 0.0);
    CHECK(rouge_l("Cat!", "cat") == 1.0);
}

TEST_CASE("probabilities, Brier scores and the expected calibration error") {
    const std::array logarithms{-1000.0, -1000.0 + std::log(3.0)};
    const std::vector<double> p = softmax(logarithms);
    CHECK(p[0] == doctest::Approx(0.25));
    CHECK(p[1] == doctest::Approx(0.75));
    CHECK(brier(p, 1) == doctest::Approx(0.125));
    CHECK(brier(p, 0) == doctest::Approx(1.125));
    Calibration calibration(10);
    CHECK(calibration.expected_error() == 0.0);
    calibration.add(0.95, true);
    calibration.add(0.91, false);
    calibration.add(0.55, true);
    calibration.add(0.5, true); // (0.4, 0.5]
    calibration.add(1.0, true);
    const std::vector<ConfidenceBin> bins = calibration.bins();
    CHECK(bins[9].count == 3);
    CHECK(bins[9].confidence == doctest::Approx(2.86 / 3.0));
    CHECK(bins[9].accuracy == doctest::Approx(2.0 / 3.0));
    CHECK(bins[5].count == 1);
    CHECK(bins[4].count == 1);
    // (3 |2/3 - 2.86/3| + |1 - 0.55| + |1 - 0.5|) / 5
    CHECK(calibration.expected_error() == doctest::Approx((0.86 + 0.45 + 0.5) / 5.0));
}
