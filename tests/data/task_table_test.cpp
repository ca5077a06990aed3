// The rows of a table as a task's examples: special tokens in texts, and truth values as numbers.
#include "text/support.hpp"

#include "data/task_table.hpp"
#include "text/text_encoder.hpp"
#include "text/tokenizer_trainer.hpp"

using namespace hekla;
using namespace hekla::data;
using namespace hekla::test;

namespace {

TaskTable table_of(const TestFolder& folder, const std::string& name, const std::string& text) {
    TaskTableOptions options;
    options.inputs = {folder.write(name, text).string()};
    options.columns = {{.name = "text", .source = ""},
                       {.name = "label", .kind = HK_COLUMN_NUMBERS, .target = true, .source = ""}};
    return must(TaskTable::read(options));
}

std::unique_ptr<text::Tokenizer> letters() {
    const auto trainer = text::make_character_trainer({{"<end>", {text::TokenRole::eos}}});
    REQUIRE(trainer->add("abden<>", {}).ok());
    return must(trainer->finish());
}

} // namespace

TEST_CASE("task table: a special token in a text is that token, unless the rules leave it as characters") {
    const TestFolder folder;
    const TaskTable table = table_of(folder, "rows.jsonl", "{\"text\": \"a<end>\", \"label\": 1}\n");
    const auto tokenizer = letters();
    const std::vector<int32_t> parsed{tokenizer->find("a").value(), tokenizer->find("<end>").value()};
    const auto ids = [&](text::TextRules rules) {
        const auto encoded = must(table.encode(text::TextEncoder(*tokenizer, rules), {}));
        return (*encoded.examples)[0].columns[0].ids;
    };
    CHECK(ids({}) == parsed);
    CHECK(ids({.parses_special = false}).size() == 6); // a < e n d >
    CHECK(ids(text::kRulesBeforeRecord).size() == 6);
}

TEST_CASE("task table: truth values of JSON and of pandas are the numbers 1 and 0, and other words are named") {
    const TestFolder folder;
    const auto tokenizer = letters();
    const text::TextEncoder encoder(*tokenizer);
    for (const auto& [name, text] :
         {std::pair("t.csv", "text,label\na,True\nb,False\na,1\nb,0.5\n"),
          std::pair("t.jsonl", "{\"text\": \"a\", \"label\": true}\n{\"text\": \"b\", \"label\": false}\n"
                               "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 0.5}\n")}) {
        const auto encoded = must(table_of(folder, name, text).encode(encoder, {}));
        REQUIRE(encoded.examples->size() == 4);
        for (const auto& [row, number] :
             {std::pair(0, 1.0F), std::pair(1, 0.0F), std::pair(2, 1.0F), std::pair(3, 0.5F)})
            CHECK((*encoded.examples)[static_cast<uint64_t>(row)].columns[1].numbers == std::vector<float>{number});
    }
    const Status yes = table_of(folder, "bad.csv", "text,label\na,1\nb,yes\n").encode(encoder, {}).status();
    CHECK_MESSAGE(yes.message().find("line 3") != std::string::npos, yes.message());
    CHECK_MESSAGE(yes.message().find("\"label\": 'yes' is not a number") != std::string::npos, yes.message());
}
