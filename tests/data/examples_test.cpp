// Examples from files in common formats, valid and invalid.
#include "text/support.hpp"

#include "data/examples.hpp"
#include "data/line_reader.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

using namespace hekla;
using namespace hekla::data;
using namespace hekla::test;

namespace {

using Rows = std::vector<std::vector<std::string>>;

// Prints a list as its items with "|" between them, an absent value as "-".
Result<Rows> read_all(const ExampleOptions& options, Skipped* skipped = nullptr) {
    HK_ASSIGN(const std::unique_ptr<ExampleReader> reader, open_examples(options));
    Rows rows;
    Example example;
    for (;;) {
        HK_ASSIGN(const bool any, reader->next(example));
        if (!any) break;
        std::vector<std::string>& row = rows.emplace_back();
        for (const Value& value : example.values) {
            std::string text = value.present ? value.text : "-";
            for (const std::string& item : value.items) text += (&item == value.items.data() ? "" : "|") + item;
            row.push_back(text);
        }
    }
    if (skipped != nullptr) *skipped = reader->skipped();
    CHECK(!must(reader->next(example)));
    return rows;
}

struct Case {
    TestFolder folder;
    ExampleOptions options;
    Case(const std::string& name, std::string_view content, std::vector<ColumnRequest> columns) {
        options.inputs = {folder.write(name, content).string()};
        options.columns = std::move(columns);
    }
    Rows rows() const { return must(read_all(options)); }
    std::string error() const {
        const auto result = read_all(options);
        REQUIRE(!result.ok());
        return result.message();
    }
};

std::string gzip(std::string_view text) {
    z_stream state{};
    REQUIRE(deflateInit2(&state, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string out(deflateBound(&state, text.size()) + 64, '\0');
    state.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(text.data()));
    state.avail_in = static_cast<uInt>(text.size());
    state.next_out = reinterpret_cast<Bytef*>(out.data());
    state.avail_out = static_cast<uInt>(out.size());
    REQUIRE(deflate(&state, Z_FINISH) == Z_STREAM_END);
    out.resize(state.total_out);
    deflateEnd(&state);
    return out;
}

std::string zstandard(std::string_view text) {
    std::string out(ZSTD_compressBound(text.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
    return out;
}

const std::vector<ColumnRequest> kTextLabel = {{"text"}, {"label"}};
const std::vector<ColumnRequest> kByNumber = {{"text", "1"}, {"label", "2"}};

} // namespace

TEST_CASE("lines: compressed and plain, long and short, across the reader's block boundaries") {
    std::string text = "\xEF\xBB\xBFone\r\ntwo\n\n";
    text += std::string(200'000, 'x') + "\nlast";
    const TestFolder folder;
    for (const auto& [name, content] :
         {std::pair("plain", text), std::pair("a.gz", gzip(text)), std::pair("a.zst", zstandard(text)),
          std::pair("two.gz", gzip(text.substr(0, 9)) + gzip(text.substr(9))),
          std::pair("two.zst", zstandard(text.substr(0, 9)) + zstandard(text.substr(9)))}) {
        CAPTURE(name);
        LineReader lines = must(LineReader::open(folder.write(name, content), 150'000));
        std::vector<std::string> found;
        while (const std::optional<Line> line = must(lines.next()))
            found.push_back(fmt::format("{}:{}:{}{}", line->number, line->text, line->end.size(),
                                        line->too_long ? " too long" : ""));
        CHECK(found == std::vector<std::string>{"1:one:2", "2:two:1", "3::1", "4::1 too long", "5:last:0"});
    }
    for (const std::string& packed : {gzip(text), zstandard(text)})
        for (const std::size_t kept : {packed.size() / 2, packed.size() - 1, packed.size() - 6}) {
            LineReader lines = must(LineReader::open(folder.write("cut", packed.substr(0, kept)), 1 << 20));
            Result<std::optional<Line>> line = lines.next();
            while (line.ok() && line.value()) line = lines.next();
            CHECK(line.code() == Code::corrupt);
            CHECK(contains(line.message(), "ends too early"));
        }
    std::string broken = gzip(text);
    broken[20] = static_cast<char>(broken[20] ^ 0x55);
    LineReader lines = must(LineReader::open(folder.write("broken", broken), 1 << 20));
    Result<std::optional<Line>> line = lines.next();
    while (line.ok() && line.value()) line = lines.next();
    CHECK(line.code() == Code::corrupt);
}

TEST_CASE("JSON lines: texts, numbers, conversations, and missing fields") {
    const Case plain("a.jsonl", "{\"text\":\"a b\",\"label\":1}\n{\"label\":true,\"text\":\"\\u00e9\"}\r\n",
                     kTextLabel);
    CHECK(plain.rows() == Rows{{"a b", "1"}, {"\xC3\xA9", "true"}});
    const Case pairs("a.jsonl", R"({"prompt":"p","completion":"c"})", {{"prompt"}, {"completion"}, {"x", "", false}});
    CHECK(pairs.rows() == Rows{{"p", "c", "-"}});
    const Case chat(
        "a.jsonl", R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}],"m":{"id":7}})",
        {{"roles", "messages.role", true, true}, {"turns", "messages.content", true, true}, {"id", "m.id"}});
    CHECK(chat.rows() == Rows{{"user|assistant", "hi|yo", "7"}});
    const auto error = [](std::string_view line) {
        return Case("a.jsonl", "{\"text\":\"t\",\"label\":0}\n" + std::string(line) + "\n", kTextLabel).error();
    };
    CHECK(contains(error(R"({"text":"t"})"), "a.jsonl: line 2: there is no \"label\""));
    CHECK(contains(error(R"({"text":"  ","label":1})"), "line 2: \"text\" is empty"));
    CHECK(contains(error(R"({"text":["t"],"label":1})"), "\"text\" is a list, a text was expected"));
    CHECK(contains(error(R"({"text":"t","label")"), "line 2: the line: column 20: not valid JSON"));
    CHECK(contains(error(R"([1])"), "JSON but not an object"));
    CHECK(contains(error("{\"text\":\"\xFF\",\"label\":1}"), "line 2: byte 10 of the line (0xFF) is not valid UTF-8"));
    CHECK(contains(error(std::string("{\"text\":\"\0\",\"label\":1}", 21)), "is NUL"));
    CHECK(contains(error("\n{\"text\":\"t\",\"label\":1}"), "line 2: the line is empty"));
    CHECK(contains(error("{\"text\":\"" + std::string(10'000'000, 'a') + "\",\"label\":1}"),
                   "line 2: the line is longer"));
}

TEST_CASE("empty lines at the end of a file are no rows, of any length and after a line of any format") {
    for (const std::string& tail : {std::string("\n"), std::string("  \n\n"), std::string("\r\n \t"),
                                    std::string(200'000, '\n') + std::string(100'000, ' ')}) {
        CAPTURE(tail.size());
        const Rows expected{{"a", "1"}};
        CHECK(Case("a.jsonl", "{\"text\":\"a\",\"label\":1}\n" + tail, kTextLabel).rows() == expected);
        CHECK(Case("a.csv", "text,label\na,1\n" + tail, kTextLabel).rows() == expected);
        CHECK(Case("a.tsv", "a\t1\n" + tail, kByNumber).rows() == expected);
        CHECK(contains(Case("a.tsv", "a\t1\n\n" + tail + "\nb\t2\n", kByNumber).error(), "line 2: the line is empty"));
    }
    // A quoted empty field is not an empty line.
    CHECK(contains(Case("a.csv", "x\n\"\"\n", {{"a", "1"}}).error(), "line 2: the line is empty"));
}

TEST_CASE("numbers of JSON survive, or are refused by their digits") {
    const auto row = [](const std::string& number) {
        return Case("a.jsonl", R"({"text":"a 12300000000000000000000 \" 1","label":)" + number + "}\n", kTextLabel);
    };
    for (const char* number : {"18446744073709551615", "-9223372036854775808", "1e+30", "\"12300000000000000000000\""})
        CHECK(row(number).rows()[0][1] == (number[0] == '"' ? "12300000000000000000000" : number));
    for (const std::string number : {"12300000000000000000000", "-9223372036854775809", "18446744073709551616"}) {
        CAPTURE(number);
        CHECK(contains(row(number).error(), "line 1: \"label\" is " + number + ", which has more than 64 bits"));
        CHECK(contains(Case("a.jsonl", R"({"text":["b",)" + number + "]}\n", {{"text", "", true, true}}).error(),
                       number));
    }
}

TEST_CASE("lines that end in CR alone are named") {
    for (const auto& [name, text] : {std::pair("a.csv", "text,label\ra,1\rb,2\r"), std::pair("a.tsv", "a\t1\rb\t2"),
                                     std::pair("a.jsonl", "{\"text\":\"a\",\"label\":1}\r{}\r")})
        CHECK(contains(Case(name, text, std::string_view(name) == "a.tsv" ? kByNumber : kTextLabel).error(),
                       "its lines end in CR alone"));
}

TEST_CASE("CSV: quotes as in RFC 4180") {
    const std::string text = "label,text\r\n1,\"a, \"\"b\"\"\r\nc\"\r\n0,plain\r\n";
    CHECK(Case("a.csv", text, kTextLabel).rows() == Rows{{"a, \"b\"\r\nc", "1"}, {"plain", "0"}});
    CHECK(Case("a.csv", "x,\n,\"\"\n", {{"a", "1", false}, {"b", "2", false}}).rows() == Rows{{"x", "-"}, {"-", "-"}});
    CHECK(contains(Case("a.csv", "text,label\n\"a\"b,1\n", kTextLabel).error(), "after the closing quote of field 1"));
    CHECK(contains(Case("a.csv", "text,label\nx,1\n\"a,1\nb,2\n", kTextLabel).error(),
                   "line 3: a quote is opened and not closed"));
    CHECK(contains(Case("a.csv", "text,label\na,1,2\n", kTextLabel).error(), "line 2: the line has 3 columns, 2 were"));
    CHECK(contains(Case("a.csv", "text,tag\na,1\n", kTextLabel).error(),
                   "has no column \"label\"; its columns are: text, tag"));
    CHECK(contains(Case("a.csv", "text,text\na,1\n", {{"text"}}).error(), "two columns are called \"text\""));
    CHECK(contains(Case("a.csv", "", kTextLabel).error(), "is empty; a line with the columns' names"));
}

TEST_CASE("TSV: no quotes, with and without column names") {
    CHECK(Case("a.tsv", "he said \"no\t1\n\"\t0", kByNumber).rows() == Rows{{"he said \"no", "1"}, {"\"", "0"}});
    CHECK(Case("a.tsv", "id\tlabel\ttext\n1\tx\ty\n", kTextLabel).rows() == Rows{{"y", "x"}});
    CHECK(Case("a.tsv", "gj04\t1\t\tThe sailors.\n", {{"text", "4"}, {"mark", "3", false}, {"label", "2"}}).rows() ==
          Rows{{"The sailors.", "-", "1"}});
    CHECK(contains(Case("a.tsv", "a\t1\nb\n", kByNumber).error(), "a.tsv: line 2: the line has 1 columns, 2 were"));
    CHECK(contains(Case("a.tsv", "a\nb\n", kByNumber).error(), "read from column 2, but line 1 has 1 column"));
    Case named("a.tsv", "a\t1\n", kTextLabel);
    named.options.header = false;
    CHECK(contains(named.error(), "give the column's number"));
    CHECK(contains(Case("a.tsv", "a\t1\n\nb\t2\n", kByNumber).error(), "line 2: the line is empty"));
    CHECK(contains(Case("a.bin", "a", kByNumber).error(), "set it to one of jsonl, csv"));
    CHECK(contains(Case("a.tsv", "a", {{"words", "1", true, true}}).error(), "it is one text, and a list"));
}

TEST_CASE("bad examples are counted and reported if the recipe skips them") {
    std::string text = "good\t1\nragged\n\t0\nb\xFF\t1\nn";
    text.push_back('\0');
    text += "\t1\n" + std::string(10'000'000, 'l') + "\t1\nlast\t0\n";
    Case bad("a.tsv", text, kByNumber);
    bad.options.on_bad = OnBadExample::skip;
    Skipped skipped;
    CHECK(must(read_all(bad.options, &skipped)) == Rows{{"good", "1"}, {"last", "0"}});
    CHECK(skipped.total() == 5);
    CHECK(contains(skipped.describe(), "1 ragged (first: "));
    CHECK(contains(skipped.describe(), "a.tsv: line 2: the line has 1 columns, 2 were expected)"));
    CHECK(contains(skipped.describe(), "1 not UTF-8"));
    CHECK(contains(skipped.describe(), "line 6: the line is longer"));
    bad.options.on_bad = OnBadExample::refuse;
    CHECK_FALSE(contains(bad.error(), "data.on_bad")); // only a recipe has this key
    bad.options.of_recipe = true;
    CHECK(contains(bad.error(), "line 2"));
    CHECK(contains(bad.error(), "data.on_bad"));
}

TEST_CASE("CoNLL-U and tagged words") {
    const std::string text = "# sent_id = s1\n# text = I can't\n1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n"
                             "2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\t_\n2\tca\tcan\tAUX\tMD\t_\t0\troot\t_\t_\n"
                             "3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_\n3.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n\n"
                             "1\tNo\tno\tINTJ\tUH\t_\t0\troot\t_\t_";
    const std::vector<ColumnRequest> columns = {
        {"words", "", true, true}, {"tags", "", true, true}, {"xpos", "", true, true}, {"text", "", false}};
    CHECK(Case("a.conllu", text, columns).rows() ==
          Rows{{"I|ca|n't", "PRON|AUX|PART", "PRP|MD|RB", "I can't"}, {"No", "INTJ", "UH", "-"}});
    CHECK(contains(Case("a.conllu", "1\tI\tI\n", columns).error(), "line 1 has 3 columns, CoNLL-U has 10"));
    CHECK(contains(Case("a.conllu", "x\tI\t_\t_\t_\t_\t_\t_\t_\t_\n", columns).error(), "the id is \"x\""));
    CHECK(contains(Case("a.conllu", text, {{"text", "", true, true}}).error(), "it is one text, and a list"));

    const std::vector<ColumnRequest> tagged = {
        {"words", "", true, true}, {"tags", "", true, true}, {"fine", "3", true, true}};
    CHECK(Case("a.pos.tsv", "I\tP\tPRP\nam\tV\tVB\n\nNo\tI\tUH\n", tagged).rows() ==
          Rows{{"I|am", "P|V", "PRP|VB"}, {"No", "I", "UH"}});
    Case ragged("a.pos.tsv", "I\tP\tPRP\n\nam\tV\nx\ty\tz\n\nNo\tI\tUH\n", tagged);
    CHECK(contains(ragged.error(), "a.pos.tsv: line 3: line 3 has 2 columns, 3 were expected"));
    ragged.options.on_bad = OnBadExample::skip;
    CHECK(ragged.rows() == Rows{{"I", "P", "PRP"}, {"No", "I", "UH"}});
}

TEST_CASE("plain text: lines, documents, and two files line by line") {
    CHECK(Case("a.txt", "", {{"text"}}).rows().empty());
    Case lines("a.txt", "one\n \n two\n", {{"text"}});
    lines.options.format = ExampleFormat::lines;
    CHECK(lines.rows() == Rows{{"one"}, {" two"}});
    const Case documents("a.txt", "\n a b\nc\n \nd", {{"text"}, {"lines", "", true, true}});
    CHECK(documents.rows() == Rows{{" a b\nc", " a b|c"}, {"d", "d"}});
    const TestFolder folder;
    ExampleOptions options;
    options.format = ExampleFormat::parallel;
    options.columns = {{"source", folder.write("a.en", "one\ntwo\n").string()},
                       {"target", folder.write("a.fr.gz", gzip("un\ndeux")).string()}};
    CHECK(must(read_all(options)) == Rows{{"one", "un"}, {"two", "deux"}});
    folder.write("a.en", "one\ntwo\nthree\n");
    CHECK(contains(read_all(options).message(), "one ends after line 2, another continues"));
    folder.write("a.en", "one\n\n");
    CHECK(contains(read_all(options).message(), "line 2: "));
}

TEST_CASE("examples: every available labeled set has its number of rows") {
    const std::filesystem::path data = real_data("sst2");
    if (data.empty()) return;
    const std::filesystem::path all = data.parent_path();
    const auto count = [&](const std::string& file, std::optional<ExampleFormat> format,
                           std::vector<ColumnRequest> columns) {
        ExampleOptions options;
        options.inputs = {(all / file).string()};
        options.format = format;
        options.columns = std::move(columns);
        return must(read_all(options)).size();
    };
    CHECK(count("sst2/train.tsv", {}, kByNumber) == 6920);
    CHECK(count("sst2/test.tsv", {}, kByNumber) == 1821);
    CHECK(count("cola/in_domain_train.tsv", {}, {{"label", "2"}, {"text", "4"}}) == 8551);
    CHECK(count("sick/SICK_train.txt", ExampleFormat::tsv,
                {{"text_a", "sentence_A"}, {"text_b", "sentence_B"}, {"label", "entailment_judgment"}}) == 4500);
    CHECK(count("tatoeba_fra_eng/val.tsv", {}, {{"source", "1"}, {"target", "2"}}) == 1000);
    const std::vector<ColumnRequest> tagged = {{"words", "", true, true}, {"tags", "", true, true}};
    CHECK(count("ud_english_ewt/en_ewt-ud-train.conllu.gz", {}, tagged) == 12544);
    CHECK(count("ud_english_ewt/dev.pos.tsv", {}, tagged) == count("ud_english_ewt/en_ewt-ud-dev.conllu", {}, tagged));
}

namespace {

// Reads a file to the end.
Status read_to_end(const std::filesystem::path& path, const ReadOptions& options) {
    HK_ASSIGN(LineReader lines, LineReader::open(path, 1 << 20, options));
    for (;;) {
        HK_ASSIGN(const std::optional<Line> line, lines.next());
        if (!line) return {};
    }
}

} // namespace

TEST_CASE("the size that a small compressed file expands to is limited") {
    const TestFolder folder;
    std::string text;
    while (text.size() < (std::size_t{24} << 20)) text += "the same line again and again\n";
    for (const auto& [name, content] : {std::pair("bomb.gz", gzip(text)), std::pair("bomb.zst", zstandard(text))}) {
        CAPTURE(name);
        const std::filesystem::path path = folder.write(name, content);
        REQUIRE(static_cast<double>(text.size()) > 250.0 * static_cast<double>(content.size()));
        const Status ratio = read_to_end(path, {});
        CHECK(ratio.code() == Code::invalid_argument);
        CHECK(contains(ratio.message(), name));
        CHECK(contains(ratio.message(), "data.max_compression_ratio"));
        CHECK(read_to_end(path, {{uint64_t{1} << 30, 1e9}, {}}).ok());
        const Status total = read_to_end(path, {{uint64_t{20} << 20, 1e9}, {}});
        CHECK(total.code() == Code::invalid_argument);
        CHECK(contains(total.message(), "more than 20971520 bytes"));
        CHECK(contains(total.message(), "data.max_decompressed_bytes"));
    }
    // The ratio is not applied to small files: one with a single repeated character is valid.
    CHECK(read_to_end(folder.write("small.gz", gzip(std::string(1 << 20, 'x') + "\n")), {}).ok());
    // Uncompressed text has no limit.
    CHECK(read_to_end(folder.write("plain.txt", text), {{1000, 1.0}, {}}).ok());
}

TEST_CASE("reading can be cancelled, also inside a line that never ends") {
    const TestFolder folder;
    int asked = 0;
    const ReadOptions stopping{{}, StopPoll([&asked] { return ++asked > 0; })};
    const std::filesystem::path path = folder.write("long.gz", gzip(std::string(8 << 20, 'x')));
    CHECK(read_to_end(path, stopping).code() == Code::cancelled);
    CHECK(asked == 1);
    ExampleOptions options;
    options.inputs = {folder.write("a.jsonl", "{\"text\":\"a\"}\n").string()};
    options.columns = {{"text"}};
    options.reading = {{}, StopPoll([] { return true; })};
    CHECK(read_all(options).code() == Code::cancelled);
    options.reading = {{}, StopPoll([] { return false; })};
    CHECK(must(read_all(options)) == Rows{{"a"}});
}

TEST_CASE("a text that is composed of several columns, by the first template whose columns have text") {
    const auto templates = [](std::initializer_list<const char*> texts) {
        std::vector<TextTemplate> all;
        for (const char* text : texts) all.push_back(must(TextTemplate::parse(text)));
        return all;
    };
    const auto column = [&](std::initializer_list<const char*> texts, bool required = true) {
        ColumnRequest request;
        request.name = "prompt";
        request.required = required;
        request.templates = templates(texts);
        return request;
    };
    const char* rows = "{\"task\": \"add\", \"input\": \"1 2\", \"output\": \"3\"}\n"
                       "{\"task\": \"greet\", \"input\": \" \", \"output\": \"hello\"}\n"
                       "{\"input\": \"4\", \"output\": \"5\"}\n";
    Case both("rows.jsonl", rows, {column({"{task}: { input }\n{{{task}}}=", "{task}="}, false), {"output"}});
    CHECK(both.rows() == Rows{{"add: 1 2\n{add}=", "3"}, {"greet=", "hello"}, {"-", "5"}});
    Case required("rows.jsonl", rows, {column({"{task}: {input}", "{task}="}), {"output"}});
    CHECK(contains(required.error(),
                   "rows.jsonl: line 3: no template of \"prompt\" has text in all of its columns (task)"));
    required.options.on_bad = OnBadExample::skip;
    CHECK(required.rows() == Rows{{"add: 1 2", "3"}, {"greet=", "hello"}});
    Case numbers("rows.tsv", "add\t1 2\t3\n", {column({"{1} of {2}"}), {.name = "output", .source = "3"}});
    CHECK(numbers.rows() == Rows{{"add of 1 2", "3"}});
    Case parallel("a.txt", "x\n", {column({"{1}"})});
    parallel.options.format = ExampleFormat::parallel;
    CHECK(contains(parallel.error(), "the column \"prompt\" has a template"));
    for (const auto& [text, what] : {std::pair("a {b", "character 3 is a '{' without its partner"),
                                     {"a} b", "character 2 is a '}' without its partner"},
                                     {"{a{b}}", "character 1 is a '{' without its partner"},
                                     {"a {} b", "character 3 begins a column without a name"}}) {
        CAPTURE(text);
        const auto parsed = TextTemplate::parse(text);
        REQUIRE(!parsed.ok());
        CHECK(contains(parsed.message(), what));
    }
    CHECK(must(TextTemplate::parse("{{}} }}{{")).columns().empty());
}
