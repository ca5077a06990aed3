// Rows as common data sets have them: ShareGPT, Alpaca, pairs, preferences; JSON arrays, parts of messages, Parquet.
#include "text/support.hpp"

#include "data/examples.hpp"

#include <fmt/format.h>

using namespace hekla;
using namespace hekla::data;
using namespace hekla::test;

namespace row_form_test {
namespace {

ColumnRequest column(const char* name, bool required = true) {
    ColumnRequest one;
    one.name = name;
    one.required = required;
    one.or_messages = true;
    return one;
}

std::vector<ColumnRequest> conversation() {
    std::vector<ColumnRequest> columns{column("messages")};
    columns.back().is_conversation = true;
    return columns;
}
std::vector<ColumnRequest> completion() { return {column("prompt"), column("completion")}; }
std::vector<ColumnRequest> preference() { return {column("prompt", false), column("chosen"), column("rejected")}; }

struct Read {
    std::vector<std::string> rows; // the columns of each with "|" between them, absent ones as "-"
    std::string form;              // without the file
};

Result<Read> read(const std::string& name, const std::string& content, std::vector<ColumnRequest> columns,
                  OnBadExample on_bad = OnBadExample::refuse) {
    const TestFolder folder;
    ExampleOptions options;
    options.inputs = {folder.write(name, content).string()};
    options.columns = std::move(columns);
    options.on_bad = on_bad;
    HK_ASSIGN(const std::unique_ptr<ExampleReader> reader, open_examples(options));
    Read all;
    if (const std::string form = reader->form(); !form.empty()) all.form = form.substr(options.inputs[0].size() + 2);
    for (Example example;;) {
        HK_ASSIGN(const bool more, reader->next(example));
        if (!more) return all;
        std::string row;
        for (const Value& value : example.values)
            row += (row.empty() ? "" : "|") + (value.present ? value.text : std::string("-"));
        all.rows.push_back(row);
    }
}

std::string error(const std::string& name, const std::string& content, std::vector<ColumnRequest> columns) {
    const Result<Read> result = read(name, content, std::move(columns));
    REQUIRE(!result.ok());
    return result.message();
}

const char* const kHello =
    R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}])"; // of all conversations below

} // namespace

TEST_CASE("conversations are recognized in the forms of common data sets") {
    const auto check = [](const std::string& row, const char* form) {
        // One object a line, and one array over several lines with a byte order mark.
        const Read lines = must(read("a.jsonl", row + "\r\n" + row + "\n\n", conversation()));
        CHECK(lines.rows == std::vector<std::string>(2, kHello));
        CHECK(lines.form == form);
        const Read array = must(read("a.json", "\xEF\xBB\xBF\n[\n " + row + ",\n" + row + "\n]\n", conversation()));
        CHECK(array.rows == lines.rows);
        CHECK(array.form == fmt::format("{}, in one JSON array", form));
    };
    check(R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})",
          "rows of messages (role, content)");
    check(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "H"}, "i"]}, )"
          R"({"role": "assistant", "content": [{"text": "Hello"}]}], "prompt": "Hi"})",
          "rows of messages (role, content)");
    check(R"({"id": 3, "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]})",
          "ShareGPT rows (conversations: from, value)");
    check(R"({"conversations": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})",
          "rows of conversations (role, content)");
    check(R"({"instruction": "Hi", "input": "", "output": "Hello", "system": null, "history": []})",
          "Alpaca rows (instruction, input, output), each read as a conversation");
    check(R"({"instruction": "Hi", "response": "Hello", "category": "open_qa"})",
          "Dolly rows (instruction, response), each read as a conversation");
    check(R"({"question": "Hi", "answer": "Hello"})", "rows of question and answer, each read as a conversation");
    check(R"({"prompt": "Hi", "response": "Hello"})", "rows of prompt and response, each read as a conversation");
    check(
        R"({"prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant", "content": "Hello"}]})",
        "rows of prompt and completion, each read as a conversation");
}

TEST_CASE("conversations keep systems, inputs, earlier turns and other keys") {
    const auto row = [](const std::string& text) {
        return must(read("a.jsonl", text + "\n", conversation())).rows.at(0);
    };
    CHECK(row(R"({"system": "Be brief", "conversations": [{"from": "human", "value": "Hi"}]})") ==
          R"([{"role":"system","content":"Be brief"},{"role":"user","content":"Hi"}])");
    CHECK(row(R"({"system": "no", "conversations": [{"from": "system", "value": "yes"}]})") ==
          R"([{"role":"system","content":"yes"}])");
    CHECK(row(R"({"instruction": "Add", "input": "1 + 1", "output": 2, "history": [["a", "b"]], "system": "s"})") ==
          R"([{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
          R"({"role":"user","content":"Add\n\n1 + 1"},{"role":"assistant","content":"2"}])");
    CHECK(row(R"({"messages": [{"name": "x", "role": "assistant", "thinking": "t", "content": "c"}]})") ==
          R"([{"name":"x","role":"assistant","thinking":"t","content":"c"}])");
}

TEST_CASE("completions and preferences are recognized") {
    CHECK(must(read("a.jsonl", R"({"question": "Hi", "answer": "Hello"})", completion())).rows[0] == "Hi|Hello");
    const Read alpaca = must(read("a.jsonl",
                                  "{\"instruction\": \"Add\", \"input\": \"1\", \"output\": \"2\"}\n"
                                  "{\"instruction\": \"Sing\", \"output\": \"la\"}\n",
                                  completion()));
    CHECK(alpaca.form == "Alpaca rows (instruction, input, output), with Alpaca's prompt around instructions");
    CHECK(alpaca.rows[0].ends_with("### Instruction:\nAdd\n\n### Input:\n1\n\n### Response:\n|2"));
    CHECK(alpaca.rows[1].ends_with("the request.\n\n### Instruction:\nSing\n\n### Response:\n|la"));

    CHECK(must(read("a.jsonl", R"({"chosen": "a", "rejected": "b"})", preference())).rows[0] == "-|a|b");
    CHECK(must(read("a.jsonl", R"({"question": "q", "chosen": "a", "rejected": "b"})", preference())).rows[0] ==
          "q|a|b");
    const Read shared = must(read("a.json",
                                  R"([{"conversations": [{"from": "human", "value": "q"}],
                                       "chosen": {"from": "gpt", "value": "a"}, "rejected": {"from": "gpt", "value": "b"}}])",
                                  preference()));
    CHECK(shared.form == "rows of conversations, chosen and rejected (messages), in one JSON array");
    CHECK(shared.rows[0] == R"([{"role":"user","content":"q"}]|[{"role":"assistant","content":"a"}]|)"
                            R"([{"role":"assistant","content":"b"}])");
    const Read alone = must(read("a.jsonl",
                                 R"({"prompt": "q", "chosen": [{"role": "assistant", "content": "a"}], )"
                                 R"("rejected": [{"role": "assistant", "content": "b"}]})",
                                 preference()));
    CHECK(alone.rows[0].starts_with(R"([{"role":"user","content":"q"}]|)"));
    // A column that the recipe names is read from there.
    ColumnRequest named = column("completion");
    named.source = "b";
    const Read read_as_named =
        must(read("a.jsonl", R"({"prompt": "p", "b": "x", "completion": "y"})", {column("prompt"), named}));
    CHECK(read_as_named.rows[0] == "p|x");
    CHECK(read_as_named.form.empty());
}

TEST_CASE("every row must have the form of the first ones") {
    const std::string pair = R"({"question": "q", "answer": "a"})",
                      list = R"({"conversations": [{"from": "human", "value": "q"}]})";
    std::string rows;
    for (int i = 0; i < 20; ++i) rows += list + "\n";
    CHECK(error("a.jsonl", rows + pair + "\n", conversation())
              .ends_with("a.jsonl: line 21: there is no \"conversations\", which the first rows have; rows of a file "
                         "have one form; correct it"));
    const Read skipped = must(read("a.jsonl", rows + pair + "\n" + list, conversation(), OnBadExample::skip));
    CHECK(skipped.rows.size() == 21);
    const std::string none = error("a.jsonl", R"({"foo": 1})", conversation());
    CHECK(none.find("line 1: there is no \"messages\" (rows that are read without data.columns have messages") !=
          std::string::npos);
    const auto wrong = [](const std::string& row) { return error("a.jsonl", row, conversation()); };
    CHECK(
        wrong(R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})")
            .find("line 1: \"messages\": message 1: part 1 of \"content\" is of type \"image_url\", and only \"text\" "
                  "can be trained on") != std::string::npos);
    CHECK(wrong(R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})").find("has no \"text\"") !=
          std::string::npos);
    CHECK(wrong(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "alien", "value": "b"}]})")
              .find("message 2: \"from\" is 'alien'; expected human") != std::string::npos);
    CHECK(wrong(R"({"instruction": "", "output": "b"})").find("\"instruction\" is empty") != std::string::npos);
    CHECK(wrong(R"({"instruction": ["a"], "output": "b"})").find("\"instruction\" is array") != std::string::npos);
    CHECK(wrong(R"({"instruction": "a", "output": 123456789012345678901234})").find("would lose digits") !=
          std::string::npos);
    CHECK(wrong(R"({"instruction": "a", "output": "b", "history": "c"})").find("\"history\" is not a list") !=
          std::string::npos);
}

TEST_CASE("a JSON array is read element by element, and its errors have a line") {
    const auto rows = [](const std::string& text) { return must(read("a.json", text, completion())).rows; };
    const std::string pair = R"({"prompt": "[,\"]\\", "completion": "}"})";
    CHECK(rows("[" + pair + "]") == std::vector<std::string>{R"([,"]\|})"});
    CHECK(rows("  \n[\n" + pair + "\n,\n" + pair + "\n]\n \n").size() == 2);
    CHECK(rows("[ ]").empty());
    const auto wrong = [](const std::string& text) { return error("a.json", text, completion()); };
    CHECK(wrong("[" + pair + ",\n" + pair)
              .ends_with("line 2: the file ends inside of the array: its last element begins "
                         "on line 2"));
    CHECK(wrong("[").ends_with("line 1: the file ends inside of the array: `]` was expected"));
    CHECK(wrong("[" + pair + ",\n]").ends_with("line 2: the array has nothing before `]`; an object was expected"));
    CHECK(wrong("[" + pair + "]\n[" + pair + "]").find("line 2: more text follows the array") != std::string::npos);
    CHECK(wrong("[" + pair + ",\n\n 7]").find("line 3: the element of the array is JSON but not an object") !=
          std::string::npos);
    CHECK(wrong("{\n\"data\": []}").find("expected one object a line, or one array of objects") != std::string::npos);
    std::string large = "[" + pair + ",\n{\"prompt\": \"" + std::string(std::size_t{1} << 20, 'x') + "\"}]";
    CHECK(wrong(large).find("line 2: the line is longer than 1048576 bytes") != std::string::npos);
}

TEST_CASE("a Parquet file is refused with the command that converts it") {
    for (const char* name : {"a.parquet", "a.jsonl"}) {
        const std::string text = error(name, "PAR1\x15\x04", completion());
        CHECK(text.find("a Parquet file, which is not read; convert it to JSON lines") != std::string::npos);
        CHECK(text.find("pip install duckdb && python3 -c \"import duckdb; duckdb.sql('''COPY (FROM '") !=
              std::string::npos);
        CHECK(text.ends_with("a.jsonl' (FORMAT json)''')\""));
    }
    CHECK(error("it's.parquet", "PAR1", completion()).find("(FROM 'FILE.parquet') TO 'FILE.jsonl'") !=
          std::string::npos);
}

} // namespace row_form_test
