// Scores against values computed by hand, and against those of scikit-learn 1.9, SciPy 1.17, NLTK 3.10 and sacreBLEU's
// definitions.
#include "score/classification.hpp"
#include "score/regression.hpp"
#include "score/translation.hpp"

#include <array>
#include <cmath>
#include <doctest/doctest.h>

using namespace hekla;
using namespace hekla::score;

namespace {

using Texts = std::vector<std::string>;

template<class T>
T must(Result<T> result) {
    REQUIRE_MESSAGE(result.ok(), result.message());
    return result.take();
}

ConfusionMatrix matrix(std::size_t classes, const std::vector<int64_t>& truth, const std::vector<int64_t>& predicted) {
    Texts names;
    for (std::size_t c = 0; c < classes; ++c) names.push_back("class " + std::to_string(c));
    ConfusionMatrix confusion(names);
    REQUIRE(confusion.add(truth, predicted).ok());
    return confusion;
}

// In full precision: the three digits that the libraries print are not enough.
doctest::Approx near(double value) { return doctest::Approx(value).epsilon(1e-12); }

} // namespace

TEST_CASE("classes: a two by two table, by hand") {
    // 3 true positives, 1 false positive, 2 false negatives, 4 true negatives.
    const ConfusionMatrix c = matrix(2, {1, 1, 1, 1, 1, 0, 0, 0, 0, 0}, {1, 1, 1, 0, 0, 1, 0, 0, 0, 0});
    CHECK(c.count(1, 1) == 3);
    CHECK(c.count(0, 1) == 1);
    CHECK(c.accuracy() == near(0.7));
    CHECK(c.of_class(1).precision == near(3.0 / 4.0));
    CHECK(c.of_class(1).recall == near(3.0 / 5.0));
    CHECK(c.of_class(1).f1 == near(2.0 * 0.75 * 0.6 / (0.75 + 0.6)));
    CHECK(c.of_class(1).support == 5);
    CHECK(c.matthews() == near((3.0 * 4.0 - 1.0 * 2.0) / std::sqrt(4.0 * 5.0 * 5.0 * 6.0)));
    CHECK(c.micro().f1 == near(0.7));
}

TEST_CASE("classes: scikit-learn's numbers") {
    const ConfusionMatrix three = matrix(3, {0, 0, 1, 1, 2, 2, 2, 0, 1, 2}, {0, 1, 1, 1, 2, 0, 2, 0, 2, 2});
    CHECK(three.accuracy() == near(0.7));
    CHECK(three.matthews() == near(0.5454545454545454));
    CHECK(three.macro().f1 == near(0.6944444444444443));
    CHECK(three.of_class(2).recall == near(0.75));
    // A class that never occurs is not counted; one that is never predicted has precision 0.
    const ConfusionMatrix absent = matrix(4, {0, 0, 0, 1, 1, 3}, {0, 0, 1, 1, 1, 1});
    CHECK(absent.macro().precision == near(0.5));
    CHECK(absent.macro().recall == near(0.5555555555555555));
    CHECK(absent.macro().f1 == near(0.48888888888888893));
    CHECK(absent.matthews() == near(0.5330017908890261));
}

TEST_CASE("classes: one class only, none, and values out of range") {
    CHECK(matrix(2, {1, 1}, {1, 1}).matthews() == 0.0);
    CHECK(matrix(2, {1, 1}, {1, 1}).accuracy() == 1.0);
    CHECK(matrix(2, {}, {}).accuracy() == 0.0);
    CHECK(matrix(2, {}, {}).macro().f1 == 0.0);
    ConfusionMatrix two({"a", "b"});
    CHECK(two.add(2, 0).message() == "the true class is 2; there are 2 classes, from 0");
    CHECK(!two.add(0, -1).ok());
    CHECK(!two.add(std::vector<int64_t>{0}, std::vector<int64_t>{}).ok());
    REQUIRE(two.add(0, 1, 5).ok());
    CHECK(two.table().find("a     0.0000  0.0000  0.0000        5 |") != std::string::npos);
}

TEST_CASE("exact match: white space at the ends does not count") {
    CHECK(must(exact_match(Texts{"a b", " c\n", "D"}, Texts{"a b", "c", "d"})) == near(2.0 / 3.0));
    CHECK(!exact_match(Texts{"a"}, Texts{}).ok());
    CHECK(!exact_match(Texts{}, Texts{}).ok());
}

TEST_CASE("correlation: SciPy's numbers, ties, and constant lists") {
    const std::vector<double> x = {1.0, 2.5, 2.5, 4.0, -1.0, 7.0}, y = {2.0, 1.0, 3.0, 3.0, -5.0, 9.5};
    CHECK(must(pearson(x, y)) == near(0.9439218726404153));
    CHECK(must(spearman(x, y)) == near(0.8676470588235294));
    CHECK(must(pearson(x, x)) == near(1.0));
    CHECK(must(mean_squared_error(std::vector<double>{1, 2}, std::vector<double>{3, 5})) == near(6.5));
    CHECK(!pearson(x, std::vector<double>{1.0}).ok());
    CHECK(pearson(std::vector<double>{0.1, 0.1, 0.1}, std::vector<double>{1, 2, 3}).message().find("same number") !=
          std::string::npos);
    CHECK(!spearman(std::vector<double>{1, 2}, std::vector<double>{NAN, 1}).ok());
    CHECK(!pearson(std::vector<double>{1}, std::vector<double>{1}).ok());
}

TEST_CASE("likelihood: perplexity and bits per byte") {
    CHECK(must(perplexity(10.0 * std::log(8.0), 10.0)) == near(8.0));
    CHECK(must(bits_per_byte(6.0 * std::log(2.0), 4.0)) == near(1.5));
    CHECK(!perplexity(1.0, 0.0).ok());
    CHECK(!bits_per_byte(1.0, 0.0).ok());
}

TEST_CASE("BLEU: tokenization 13a") {
    CHECK(tokenize_13a("Hello, world! It's 3.14, \"quoted\" (yes) - well-known 10-20 e.g. A.B.") ==
          Texts{"Hello", ",",          "world", "!", "It's", "3.14", ",", "\"", "quoted", "\"", "(", "yes", ")",
                "-",     "well-known", "10",    "-", "20",   "e",    ".", "g",  ".",      "A",  ".", "B",   "."});
    CHECK(tokenize_13a("&quot;Hi&quot; &amp; &lt;b&gt; 1,000.50 $5 50% a/b c_d [x] {y} ~z #1 @me ...") ==
          Texts{"\"", "Hi", "\"", "&", "<", "b", ">", "1,000.50", "$", "5", "50", "%", "a",  "/", "b", "c", "_",
                "d",  "[",  "x",  "]", "{", "y", "}", "~",        "z", "#", "1",  "@", "me", ".", ".", "."});
    CHECK(tokenize_13a("C'est l'\xC3\xA9t\xC3\xA9, n'est-ce pas?\xC2\xA0Oui: \xC2\xAB non \xC2\xBB.. 5.") ==
          Texts{"C'est", "l'\xC3\xA9t\xC3\xA9", ",", "n'est-ce", "pas", "?", "Oui", ":", "\xC2\xAB", "non", "\xC2\xBB",
                ".", ".", "5", "."});
    CHECK(tokenize_13a("").empty());
}

TEST_CASE("BLEU: by hand, and sacreBLEU's numbers") {
    // 4 of 5 words, 2 of 4 pairs, none of 3 triples and none of 2 fours, which count as 1/2 and 1/4.
    const Bleu hand = must(bleu(Texts{"a b c d e"}, std::vector<Texts>{{"a b x d e"}}));
    CHECK(hand.precisions[0] == near(80.0));
    CHECK(hand.precisions[1] == near(50.0));
    CHECK(hand.precisions[2] == near(100.0 / 6.0));
    CHECK(hand.precisions[3] == near(100.0 / 8.0));
    CHECK(hand.score == near(std::pow(80.0 * 50.0 * (100.0 / 6.0) * 12.5, 0.25)));

    const Texts system = {"The cat sat on the mat.", "There is a dog, 3 years-old, in the garden", "Hello"};
    const Texts first = {"The cat is sitting on the mat.", "There is a dog, 3 years old, in the garden.",
                         "Hello there"};
    const Texts second = {"A cat sat on the mat .", "A dog is in the garden, 3 years old", "Hi"};
    const Bleu one = must(bleu(system, std::vector<Texts>{first}));
    CHECK(one.score == near(51.220805759139665));
    CHECK(one.brevity_penalty == near(0.8101577349324267));
    CHECK(one.system_length == 19);
    CHECK(one.reference_length == 23);
    CHECK(one.signature == "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:hekla-0.1");
    CHECK(one.text() == "BLEU = 51.22 89.5/75.0/57.1/41.7 (BP = 0.810 ratio = 0.826 hyp_len = 19 ref_len = 23)");
    const Bleu two = must(bleu(system, std::vector<Texts>{first, second}));
    CHECK(two.score == near(76.66178529600225));
    CHECK(two.reference_length == 18);
    CHECK(two.brevity_penalty == 1.0);
    // NLTK's corpus_bleu on the same tokens, in a case without smoothing.
    CHECK(must(bleu(Texts{system[0], system[1]}, std::vector<Texts>{{first[0], first[1]}})).score ==
          near(53.4296647279287));
    CHECK(must(bleu(Texts{"a b"}, std::vector<Texts>{{"c d"}})).score == 0.0);
    CHECK(must(bleu(Texts{"a"}, std::vector<Texts>{{"a"}})).score == 0.0); // too short for a 4-gram
    CHECK(must(bleu(Texts{""}, std::vector<Texts>{{"a"}})).score == 0.0);
    CHECK(must(bleu(first, std::vector<Texts>{first})).score == near(100.0));
    CHECK(!bleu(Texts{}, std::vector<Texts>{{}}).ok());
    CHECK(!bleu(Texts{"a"}, std::vector<Texts>{}).ok());
    CHECK(!bleu(Texts{"a"}, std::vector<Texts>{{"a", "b"}}).ok());
    CHECK(bleu(Texts{"a", "\xFF"}, std::vector<Texts>{{"a", "b"}})
              .status()
              .message()
              .starts_with("sentence 2: hypothesis: "));

    BleuCounts sum; // of sentences that are counted alone
    for (std::size_t i = 0; i < system.size(); ++i)
        sum.add(must(bleu_counts(system[i], std::array{first[i], second[i]})));
    CHECK(sum.score() == two.score);
    CHECK(sum.reference_length == two.reference_length);
    CHECK(!bleu_counts("a", {}).ok());
    CHECK(BleuCounts().score() == 0.0);
}

TEST_CASE("chrF: by hand, and sacreBLEU's numbers") {
    // "ab" against "ac": half the characters, none of the pairs; higher orders occur in neither.
    const double quarter = 0.25; // precision and recall, averaged over two orders
    CHECK(must(chrf(Texts{"a b"}, std::vector<Texts>{{"a c"}})).score ==
          near(100.0 * 5.0 * quarter * quarter / (4.0 * quarter + quarter)));
    const Texts system = {"The cat sat on the mat.", "There is a dog, 3 years-old, in the garden", "Hello"};
    const Texts first = {"The cat is sitting on the mat.", "There is a dog, 3 years old, in the garden.",
                         "Hello there"};
    const Texts second = {"A cat sat on the mat .", "A dog is in the garden, 3 years old", "Hi"};
    CHECK(must(chrf(system, std::vector<Texts>{first})).score == near(69.21743992362812));
    CHECK(must(chrf(system, std::vector<Texts>{first, second})).score == near(82.35167055264611));
    CHECK(must(chrf(system, std::vector<Texts>{first})).signature ==
          "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:hekla-0.1");
    CHECK(must(chrf(Texts{"a"}, std::vector<Texts>{{"a"}})).score == near(100.0));
    CHECK(must(chrf(Texts{"a"}, std::vector<Texts>{{"b"}})).score == 0.0);
    CHECK(must(chrf(Texts{""}, std::vector<Texts>{{""}})).score == 0.0);
    CHECK(!chrf(Texts{}, std::vector<Texts>{}).ok());

    ChrfCounts sum; // of sentences that are counted alone
    for (std::size_t i = 0; i < system.size(); ++i)
        sum.add(must(chrf_counts(system[i], std::array{first[i], second[i]})));
    CHECK(sum.score() == must(chrf(system, std::vector<Texts>{first, second})).score);
    CHECK(!chrf_counts("a", {}).ok());
    CHECK(ChrfCounts().score() == 0.0);
}
