// tokenizer.json files of every shape: ids, ranges and decodings as the tokenizers library has them.
#include "support.hpp"

#include "text/files/json_file.hpp"
#include "text/pipeline/pipeline.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace pipeline_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

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
        out.emplace_back(character[range.begin],
                         range.end > range.begin ? character[range.end - 1] + 1 : character[range.end]);
    return out;
}

struct Counts {
    int folders = 0, refused = 0, cases = 0, wrong_ids = 0, wrong_offsets = 0, wrong_text = 0, wrong_cuts = 0,
        with_cuts = 0;
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
    const TestFolder saved;
    must(tokenizer.save(saved.path()));
    const auto again = must(load_tokenizer(saved.path()));
    CHECK_MESSAGE(again->hash() == tokenizer.hash(), name);
    const std::string lines = must(read_file(folder / "cases.jsonl"));
    std::string all; // the texts of all cases
    for (std::size_t at = 0; at < lines.size();) {
        const std::size_t end = std::min(lines.find('\n', at), lines.size());
        const Json test = must(parse_json(std::string_view(lines).substr(at, end - at), name));
        at = end + 1;
        ++counts.cases;
        const std::string text = test["text"];
        all += text + (counts.cases % 3 == 0 ? "\n" : counts.cases % 3 == 1 ? " " : " word and word\nword ");
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
        Ids framed = tokenizer.frame().before;
        framed.insert(framed.end(), ids.begin(), ids.end());
        framed.insert(framed.end(), tokenizer.frame().after.begin(), tokenizer.frame().after.end());
        CHECK_MESSAGE(framed == test["ids_with_special"].get<Ids>(), name);
        const std::string decoded = tokenizer.decode(ids), plain = tokenizer.decode(framed, true);
        if (decoded != test["decoded"] || plain != test["decoded_plain"]) {
            ++counts.wrong_text;
            FAIL_CHECK(name << ": " << test["text"].dump() << ": decoded " << Json(decoded).dump() << ", expected "
                            << test["decoded"].dump() << ", plain " << Json(plain).dump() << ", expected "
                            << test["decoded_plain"].dump());
        }
    }
    // Parts between safe cuts have the ids of the whole.
    const Result<Ids> whole = tokenizer.encode(all);
    if (!whole.ok()) return;
    for (uint64_t seed = 0; seed < 4; ++seed) {
        RandomStream random(seed, 6);
        const bool equal = encoded_in_parts(tokenizer, all, random, 40 + 100 * seed) == whole.value();
        CHECK_MESSAGE(equal, name << ": parts have other ids than the whole");
        counts.wrong_cuts += equal ? 0 : 1;
    }
    counts.with_cuts += tokenizer.safe_cut(all, all.size() / 2) < all.size() ? 1 : 0;
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
                          << ", decoded " << counts.wrong_text << ", cuts " << counts.wrong_cuts << "; "
                          << counts.with_cuts << " have cuts");
    return counts;
}

} // namespace

TEST_CASE("tokenizer.json: every shape has the reference's ids, ranges and texts") {
    const Counts counts = check_folders(std::filesystem::path(HEKLA_SOURCE_DIR) / "tests/fixtures/tokenizers", false);
    CHECK(counts.folders == 13);
    CHECK(counts.refused == 0);
    CHECK(counts.with_cuts >= 9);
}

// Quadratic time would make these take minutes.
TEST_CASE("tokenizer.json: long runs take linear time in every shape") {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(HEKLA_SOURCE_DIR) / "tests/fixtures/tokenizers")) {
        if (!entry.is_directory()) continue;
        const auto tokenizer = must(load_tokenizer(entry.path()));
        std::string marks = "e";
        for (int i = 0; i < 80'000; ++i) marks += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";
        for (const std::string& text : {std::string(300'000, ' '), std::string(300'000, 'a'),
                                        std::string(300'000, '\n'), std::string(300'000, '7'), marks}) {
            std::vector<int32_t> ids;
            std::vector<ByteRange> ranges;
            must(tokenizer->encode(text, {}, ids, &ranges));
            CHECK(ids.size() == ranges.size());
            CHECK(tokenizer->decode(ids).size() <= 20 * text.size());
        }
    }
}

namespace {

// Replaces, removes or repeats a random part of a value.
void damage(Json& value, RandomStream& random) {
    if ((value.is_object() || value.is_array()) && !value.empty() && random.next_below(4) != 0) {
        const auto at = static_cast<std::ptrdiff_t>(random.next_below(std::min<std::size_t>(value.size(), 8)));
        damage(*std::next(value.begin(), at), random);
        return;
    }
    const Json others[] = {nullptr,
                           true,
                           0,
                           -1,
                           1e300,
                           "",
                           "ByteLevel",
                           "Sequence",
                           "\u2581",
                           Json::array(),
                           Json::object(),
                           {{"type", "Sequence"}, {"normalizers", Json::array()}},
                           {{"type", "Strip"}},
                           {{"type", "Replace"}, {"pattern", {{"Regex", "(a|aa)+$"}}}, {"content", ""}},
                           {{"type", "Metaspace"}}};
    value = others[random.next_below(std::size(others))];
}

} // namespace

TEST_CASE("tokenizer.json: a damaged file of any shape is an error or another tokenizer, and never a crash") {
    int opened = 0, refused = 0;
    for (const char* name :
         {"split-merged", "gemma", "unigram-metaspace", "wordpiece-whitespace", "added-tokens-normalized"}) {
        const std::string good = must(
            read_file(std::filesystem::path(HEKLA_SOURCE_DIR) / "tests/fixtures/tokenizers" / name / "tokenizer.json"));
        const Json whole = must(parse_json(good, name));
        for (uint64_t seed = 0; seed < 120; ++seed) {
            RandomStream random(seed, 11);
            std::string bad = good;
            if (seed % 3 == 0) {
                for (int i = 0; i < 3; ++i)
                    bad[random.next_below(bad.size())] = static_cast<char>(random.next_below(256));
            } else {
                Json changed = whole;
                for (int i = 0; i < 2; ++i) damage(changed, random);
                bad = changed.dump();
            }
            const TestFolder folder;
            folder.write("tokenizer.json", bad);
            const auto loaded = load_tokenizer(folder.path());
            if (!loaded.ok()) {
                CHECK(contains(loaded.message(), "tokenizer.json"));
                ++refused;
                continue;
            }
            ++opened;
            const std::string text = "The cat  sat\n" + random_text(seed, 40) + " aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
            std::vector<int32_t> ids;
            std::vector<ByteRange> ranges;
            if (!loaded.value()->encode(text, {}, ids, &ranges).ok()) continue;
            for (const ByteRange& range : ranges) CHECK(range.end <= text.size());
            const std::string decoded = loaded.value()->decode(ids);
            CHECK(find_invalid_utf8(decoded) == decoded.size());
            CHECK(!loaded.value()->to_json().empty());
        }
    }
    CHECK(opened > 10);
    CHECK(refused > 50);
}

TEST_CASE("tokenizer_config.json: added tokens keep their flags") {
    const TestFolder folder;
    folder.write("vocab.json", R"({"w":0,"a":1,"l":2,"k":3,"e":4,"d":5,"Ġ":6})");
    folder.write("merges.txt", "");
    folder.write(
        "tokenizer_config.json",
        R"({"added_tokens_decoder":{"7":{"content":"walk","single_word":true},"8":{"content":"al","normalized":true}}})");
    const auto tokenizer = must(load_tokenizer(folder.path()));
    CHECK(must(tokenizer->encode("walk")) == Ids{7});
    CHECK(must(tokenizer->encode("walked walk")) == Ids{0, 8, 3, 4, 5, 6, 7});
    const TestFolder saved;
    must(tokenizer->save(saved.path()));
    CHECK(must(must(load_tokenizer(saved.path()))->encode("walked walk")) == Ids{0, 8, 3, 4, 5, 6, 7});
}

TEST_CASE("vocab.txt: normalized added tokens are found in the normalized text") {
    const TestFolder folder;
    folder.write("vocab.txt", "[UNK]\nhello\nworld\n");
    folder.write("tokenizer_config.json", R"({"added_tokens_decoder":{"3":{"content":"New York","normalized":true}}})");
    const auto tokenizer = must(load_tokenizer(folder.path()));
    CHECK(must(tokenizer->encode("Hello NEW YORK world")) == Ids{1, 3, 2});
}

// For tests/pytorch_comparison/random_tokenizers.py, which makes the folders.
TEST_CASE("tokenizer.json: folders that HEKLA_TOKENIZER_FOLDERS names") {
    const char* root = std::getenv("HEKLA_TOKENIZER_FOLDERS");
    if (root != nullptr) check_folders(root, std::getenv("HEKLA_TOKENIZERS_MAY_BE_REFUSED") != nullptr);
}

} // namespace pipeline_test
