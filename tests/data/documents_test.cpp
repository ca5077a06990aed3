#include "text/support.hpp"

#include "data/documents.hpp"
#include "text/tokenizer_trainer.hpp"

using namespace hekla;
using namespace hekla::data;
using namespace hekla::test;

namespace {

std::vector<std::string> strings(const std::vector<std::string_view>& views) { return {views.begin(), views.end()}; }

} // namespace

TEST_CASE("documents: their ends") {
    const std::string text = "one\ntwo\n\n  \nthree\n = Title = \nfour\n = = Part = = \nfive\n";
    using Strings = std::vector<std::string>;
    CHECK(strings(split_documents(text, DocumentEnd::file)).size() == 1);
    CHECK(strings(split_documents(text, DocumentEnd::line)).size() == 7);
    CHECK(strings(split_documents(text, DocumentEnd::blank_line)) ==
          Strings{"one\ntwo", "three\n = Title = \nfour\n = = Part = = \nfive"});
    CHECK(strings(split_documents(text, DocumentEnd::heading)) ==
          Strings{"one\ntwo\n\n  \nthree", "= Title = \nfour\n = = Part = = \nfive"});
    CHECK(split_documents("", DocumentEnd::line).empty());
    CHECK(!document_end_of_name("page").ok());
}

TEST_CASE("documents: sentences") {
    CHECK(strings(split_sentences("One. Two! \"Three?\" four 3.5 e.g\nFive")) ==
          std::vector<std::string>{"One.", "Two!", "\"Three?\"", "four 3.5 e.g", "Five"});
    CHECK(split_sentences(" \n ").empty());
}

TEST_CASE("documents: examples of consecutive whole sentences") {
    const TestFolder folder;
    const std::string file = folder.write("text.txt", "aa. bb. cc. dd.\n\nee. ff.\n").string();
    const auto trainer = text::make_character_trainer();
    REQUIRE(trainer->add("abcdef. ", {}).ok());
    const auto tokenizer = must(trainer->finish());
    const auto examples = must(open_documents(text::TextEncoder(*tokenizer), {{file}, DocumentEnd::blank_line, 7}));
    REQUIRE(examples->size() == 3); // two sentences of three characters fit into seven
    CHECK((*examples)[0].columns[0].parts == std::vector<uint64_t>{0, 3});
    CHECK((*examples)[0].document == 0);
    CHECK((*examples)[1].document == 0);
    CHECK((*examples)[2].document == 1);
    CHECK((*examples)[2].index == 2);
    CHECK(!open_documents(text::TextEncoder(*tokenizer), {{file + ".none"}, DocumentEnd::line, 7}).ok());
}
