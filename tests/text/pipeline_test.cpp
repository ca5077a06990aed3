// tokenizer.json files of every shape: ids, ranges and decodings as the tokenizers library has them.
#include "support.hpp"

#include "text/files/json_file.hpp"
#include "text/pipeline/pipeline.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace pipeline_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::text::testing;

namespace {

using Ids = std::vector<int32_t>;

// Returns ranges in code points: of every character that a range touches.
std::vector<std::pair<std::size_t, std::size_t>> in_characters(std::string_view text,
                                                               const std::vector<ByteRange>& ranges) {
    std::vector<std::size_t> character(text.size() + 1); // of each byte
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        count += (static_cast<unsigned char>(text[at]) & 0xC0u) != 0x80u;
        character[at] = count - 1;
    }
    character[text.size()] = count;
    std::vector<std::pair<std::size_t, std::size_t>> out;
    for (const ByteRange& range : ranges)
        out.emplace_back(character[range.begin], range.end > range.begin ? character[range.end - 1] + 1
                                                                         : character[range.end]);
    return out;
}

struct Counts {
    int folders = 0, refused = 0, cases = 0, wrong_ids = 0, wrong_offsets = 0, wrong_text = 0;
};

// Compares the cases of a folder (cases.jsonl, from tokenizers).
void check_folder(const std::filesystem::path& folder, bool may_refuse, Counts& counts) {
    const std::string name = folder.filename().string();
    ++counts.folders;
    const Result<std::unique_ptr<Tokenizer>> loaded = load_tokenizer(folder);
    if (!loaded.ok()) {
        ++counts.refused;
        if (may_refuse)
            MESSAGE(name << ": " << loaded.message());
        else
            FAIL_CHECK(name << ": " << loaded.message());
        return;
    }
    const Tokenizer& tokenizer = *loaded.value();
    const TemporaryFolder saved;
    must(tokenizer.save(saved.path()));
    const auto again = must(load_tokenizer(saved.path()));
    CHECK_MESSAGE(again->hash() == tokenizer.hash(), name);
    const std::string lines = must(read_file(folder / "cases.jsonl"));
    for (std::size_t at = 0; at < lines.size();) {
        const std::size_t end = std::min(lines.find('\n', at), lines.size());
        const Json test = must(parse_json(std::string_view(lines).substr(at, end - at), name));
        at = end + 1;
        ++counts.cases;
        const std::string text = test["text"];
        std::vector<int32_t> ids;
        std::vector<ByteRange> ranges;
        const Status status = tokenizer.encode(text, {}, ids, &ranges);
        const Ids expected = test["ids"];
        CHECK_MESSAGE(status.ok(), name << ": " << status.message());
        if (ids != expected) {
            ++counts.wrong_ids;
            FAIL_CHECK(name << ": " << test["text"].dump() << ": ids " << Json(ids).dump() << ", expected "
                            << test["ids"].dump());
            continue;
        }
        CHECK(must(tokenizer.encode(text)) == expected); // without ranges
        CHECK(must(again->encode(text)) == expected);
        Json offsets = Json::array();
        for (const auto& [from, to] : in_characters(text, ranges)) offsets.push_back({from, to});
        if (offsets != test["offsets"]) {
            ++counts.wrong_offsets;
            FAIL_CHECK(name << ": " << test["text"].dump() << ": offsets " << offsets.dump() << ", expected "
                            << test["offsets"].dump());
        }
        if (!test.contains("decoded")) continue;
        Ids framed;
        for (const std::string& token : tokenizer.pipeline()->post_processor().before)
            framed.push_back(*tokenizer.find(token));
        framed.insert(framed.end(), ids.begin(), ids.end());
        for (const std::string& token : tokenizer.pipeline()->post_processor().after)
            framed.push_back(*tokenizer.find(token));
        CHECK_MESSAGE(framed == test["ids_with_special"].get<Ids>(), name);
        const std::string decoded = tokenizer.decode(ids), plain = tokenizer.decode(framed, true);
        if (decoded != test["decoded"] || plain != test["decoded_plain"]) {
            ++counts.wrong_text;
            FAIL_CHECK(name << ": " << test["text"].dump() << ": decoded " << Json(decoded).dump() << ", expected "
                            << test["decoded"].dump() << ", plain " << Json(plain).dump() << ", expected "
                            << test["decoded_plain"].dump());
        }
    }
}

Counts check_folders(const std::filesystem::path& root, bool may_refuse) {
    Counts counts;
    std::vector<std::filesystem::path> folders;
    for (const auto& entry : std::filesystem::directory_iterator(root))
        if (entry.is_directory()) folders.push_back(entry.path());
    std::ranges::sort(folders);
    for (const std::filesystem::path& folder : folders) check_folder(folder, may_refuse, counts);
    MESSAGE(root.string() << ": " << counts.folders << " folders, " << counts.refused << " refused, " << counts.cases
                          << " cases, wrong: ids " << counts.wrong_ids << ", offsets " << counts.wrong_offsets
                          << ", decoded " << counts.wrong_text);
    return counts;
}

} // namespace

TEST_CASE("tokenizer.json: every shape has the reference's ids, ranges and texts") {
    const Counts counts = check_folders(std::filesystem::path(HEKLA_SOURCE_DIR) / "tests/fixtures/tokenizers", false);
    CHECK(counts.folders >= 3);
    CHECK(counts.refused == 0);
}

// For tests/pytorch_comparison/random_tokenizers.py, which makes the folders.
TEST_CASE("tokenizer.json: folders that HEKLA_TOKENIZER_FOLDERS names") {
    const char* root = std::getenv("HEKLA_TOKENIZER_FOLDERS");
    if (root != nullptr) check_folders(root, std::getenv("HEKLA_TOKENIZERS_MAY_BE_REFUSED") != nullptr);
}

} // namespace pipeline_test
