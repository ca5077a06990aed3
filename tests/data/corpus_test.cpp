#include "base/utf8.hpp"
#include "text/support.hpp"

#include "data/corpus.hpp"
#include "data/text_chunks.hpp"
#include "data/text_files.hpp"

#include <fmt/format.h>

using namespace hekla;
using namespace hekla::data;
using namespace hekla::test;
namespace fs = std::filesystem;

namespace {

std::unique_ptr<text::Tokenizer> bpe(const std::string& text, int32_t size = 400) {
    const auto trainer = text::make_byte_bpe_trainer({.vocabulary_size = size});
    must(trainer->add(text, {}));
    return must(trainer->finish());
}

std::vector<int32_t> all(const TokenView& view) {
    std::vector<int32_t> tokens(view.size());
    view.copy(0, tokens);
    return tokens;
}

CorpusOptions options_for(const TestFolder& folder, std::vector<std::string> inputs) {
    CorpusOptions options;
    options.inputs = std::move(inputs);
    options.cache_folder = folder.path() / "cache";
    return options;
}

std::vector<std::string> names(const std::vector<fs::path>& files, const fs::path& root) {
    std::vector<std::string> out;
    for (const fs::path& file : files) out.push_back(file.lexically_relative(root).string());
    return out;
}

} // namespace

TEST_CASE("text files: files, folders, patterns, each once and in order") {
    const TestFolder folder;
    const fs::path root = folder.path();
    fs::create_directories(root / "b/deep/er");
    fs::create_directories(root / ".git");
    for (const char* name :
         {"z.txt", "a.txt", "b/one.md", "b/deep/two.txt", "b/deep/er/three.txt", ".git/x.txt", ".hidden"})
        folder.write(name, "x");
    using Names = std::vector<std::string>;
    const auto found = [&](std::vector<std::string> inputs) {
        for (std::string& input : inputs) input = (root / input).string();
        return names(must(find_text_files(inputs)), root);
    };
    CHECK(found({""}) == Names{"a.txt", "b/deep/er/three.txt", "b/deep/two.txt", "b/one.md", "z.txt"});
    CHECK(found({"*.txt"}) == Names{"a.txt", "z.txt"});
    CHECK(found({"**/*.txt"}) == Names{"a.txt", "b/deep/er/three.txt", "b/deep/two.txt", "z.txt"});
    CHECK(found({"b/**/t*.txt", "z.txt", "b/deep"}) == Names{"b/deep/er/three.txt", "b/deep/two.txt", "z.txt"});
    CHECK(found({"?.txt", "b/*.md"}) == Names{"a.txt", "z.txt", "b/one.md"});
    CHECK(found({"[a-c].txt"}) == Names{"a.txt"});
    CHECK(found({"b/**"}) == Names{"b/deep/er/three.txt", "b/deep/two.txt", "b/one.md"});
    CHECK(found({".git/x.txt"}) == Names{".git/x.txt"});
    const std::vector<std::string> absent = {(root / "none.txt").string()};
    CHECK(find_text_files(absent).code() == Code::not_found);
    CHECK(contains(find_text_files(absent).message(), "none.txt"));
    const std::vector<std::string> nothing = {(root / "*.none").string()};
    CHECK(find_text_files(nothing).code() == Code::not_found);
    CHECK(find_text_files({}).code() == Code::invalid_argument);
}

TEST_CASE("corpus: equals encoding the whole text, for any chunk size and number of threads") {
    const std::string content =
        random_text(1, 6000) + "<|endoftext|>" + random_text(2, 6000) + std::string(3000, 'a') + " end";
    const TestFolder folder;
    const std::string path = folder.write("text.txt", content).string();
    const auto tokenizer = bpe(content);
    const std::vector<int32_t> expected = must(tokenizer->encode(content));
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{17}, std::size_t{300}, std::size_t{1} << 20})
        for (const unsigned threads : {1u, 3u}) {
            CorpusOptions options = options_for(folder, {path});
            options.chunk_bytes = chunk;
            options.threads = threads;
            fs::remove_all(options.cache_folder);
            const Corpus corpus = must(Corpus::open(*tokenizer, options));
            CHECK(!corpus.was_cached());
            CHECK(corpus.text_bytes() == content.size());
            CHECK(corpus.tokens().width() == 2);
            CHECK(all(corpus.tokens()) == expected);
        }
}

TEST_CASE("corpus: the second time it is read from the cache; another text or tokenizer creates another file") {
    const std::string content = random_text(3, 5000);
    const TestFolder folder;
    const std::string path = folder.write("text.txt", content).string();
    const CorpusOptions options = options_for(folder, {path});
    const auto tokenizer = bpe(content);
    const Corpus first = must(Corpus::open(*tokenizer, options));
    const std::vector<int32_t> tokens = all(first.tokens());
    CHECK(must(Corpus::open(*tokenizer, options)).was_cached());
    CHECK(!must(Corpus::open(*bpe(content, 390), options)).was_cached());
    folder.write("text.txt", content + "!");
    CHECK(!must(Corpus::open(*tokenizer, options)).was_cached());
    folder.write("text.txt", content);
    CHECK(must(Corpus::open(*tokenizer, options)).was_cached());

    // Any damage is detected, and the file is rebuilt.
    const std::string good = must(read_file(first.cache_file()));
    RandomStream random(4, 0);
    for (int i = 0; i < 60; ++i) {
        std::string bad = good;
        if (i % 3 == 0) {
            bad.resize(random.next_below(bad.size()));
        } else if (i % 3 == 1) {
            bad[random.next_below(bad.size())] ^= static_cast<char>(1 + random.next_below(255));
        } else {
            bad += "x";
        }
        fs::remove(first.cache_file()); // `first` keeps the old file mapped
        std::ofstream(first.cache_file(), std::ios::binary) << bad;
        const Corpus again = must(Corpus::open(*tokenizer, options));
        CHECK(!again.was_cached());
        CHECK(all(again.tokens()) == tokens);
    }
    CHECK(must(read_file(first.cache_file())) == good);
    int left = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(options.cache_folder)) ++left;
    CHECK(left == 3);
}

TEST_CASE("corpus: files are separated by the end-of-text token, if there is one") {
    const TestFolder folder;
    folder.write("a.txt", "one two ");
    folder.write("b.txt", "");
    folder.write("c.txt", "three");
    CorpusOptions options = options_for(folder, {(folder.path() / "*.txt").string()});
    const auto tokenizer = bpe("one two three");
    CHECK(tokenizer->decode(all(must(Corpus::open(*tokenizer, options)).tokens())) == "one two <|endoftext|>three");
    options.separate_files = false;
    CHECK(tokenizer->decode(all(must(Corpus::open(*tokenizer, options)).tokens())) == "one two three");
    options.separate_files = true;
    const auto trainer = text::make_character_trainer();
    const auto characters = must(train_tokenizer(*trainer, options.inputs));
    const Corpus corpus = must(Corpus::open(*characters, options));
    CHECK(characters->decode(all(corpus.tokens())) == "one two three");
    CHECK(corpus.file_count() == 2);
}

TEST_CASE("corpus: a large vocabulary uses 32 bits") {
    const TestFolder folder;
    std::string content;
    for (char32_t value = 0x10000; value < 0x10000 + 65'537; ++value) append_code_point(content, value);
    const std::string path = folder.write("many.txt", content).string();
    const auto trainer = text::make_character_trainer();
    const std::vector<std::string> inputs = {path};
    const auto tokenizer = must(train_tokenizer(*trainer, inputs));
    const Corpus corpus = must(Corpus::open(*tokenizer, options_for(folder, inputs)));
    CHECK(corpus.tokens().width() == 4);
    CHECK(corpus.tokens()[65'536] == 65'536);
    CHECK(tokenizer->decode(all(corpus.tokens())) == content);
}

TEST_CASE("corpus: training a tokenizer can be cancelled inside a text and during merging") {
    const TestFolder folder;
    std::string content;
    for (int i = 0; i < 200'000; ++i) content += "word" + std::to_string(i * 7919 % 1000) + " ";
    const std::vector<std::string> inputs = {folder.write("words.txt", content).string()};
    int asked = 0;
    const auto stops_at = [&](int number, text::TokenizerTrainer& trainer) {
        asked = 0;
        trainer.set_stop([&asked, number] { return ++asked >= number; });
        return train_tokenizer(trainer, inputs).code();
    };
    for (const int number : {1, 2, 5}) { // every 65,536th of 400,000 words checks, then every 64th merge
        const auto bytes = text::make_byte_bpe_trainer({.vocabulary_size = 600});
        CHECK(stops_at(number, *bytes) == Code::cancelled);
        CHECK(asked >= number);
    }
    const auto merging = text::make_byte_bpe_trainer({.vocabulary_size = 600});
    CHECK(stops_at(8, *merging) == Code::cancelled);
    const auto pieces = text::make_wordpiece_trainer({.vocabulary_size = 600});
    CHECK(stops_at(1, *pieces) == Code::cancelled);
    const auto unasked = text::make_byte_bpe_trainer({.vocabulary_size = 600});
    CHECK(train_tokenizer(*unasked, inputs).ok());
}

TEST_CASE("corpus: errors name file, line and byte, and leave no files") {
    const TestFolder folder;
    const auto tokenizer = bpe("some text");
    const auto fails = [&](const std::string& content, Code code, std::vector<std::string> parts,
                           const text::Tokenizer& with) {
        CorpusOptions options = options_for(folder, {folder.write("bad.txt", content).string()});
        options.chunk_bytes = 64;
        options.threads = 2;
        const auto result = Corpus::open(with, options);
        CHECK(result.code() == code);
        for (const std::string& part : parts) CHECK_MESSAGE(contains(result.message(), part), result.message());
        CHECK((!fs::exists(options.cache_folder) || fs::is_empty(options.cache_folder)));
    };
    fails("", Code::invalid_argument, {"bad.txt", "empty"}, *tokenizer);
    std::string lines;
    for (int i = 0; i < 100; ++i) lines += "some text\n";
    fails(lines + "t\xE9xt\n" + lines, Code::invalid_argument, {"bad.txt: line 101, byte offset 1001", "0xE9"},
          *tokenizer);
    fails(lines + "cut \xE2\x82", Code::invalid_argument, {"line 101, byte offset 1004"}, *tokenizer);
    const auto trainer = text::make_character_trainer();
    must(trainer->add("some tx\n", {}));
    const auto characters = must(trainer->finish());
    fails(lines + "so\nme?\n" + lines, Code::invalid_argument,
          {"bad.txt: line 102, byte offset 1005", "\"?\"", "U+003F"}, *characters);
    CHECK(Corpus::open(*tokenizer, options_for(folder, {"/no/such/file.txt"})).code() == Code::not_found);
    CorpusOptions options = options_for(folder, {folder.write("good.txt", "some text").string()});
    options.cache_folder = folder.path() / "good.txt" / "below a file";
    CHECK(Corpus::open(*tokenizer, options).code() == Code::io);
    options.cache_folder = folder.path() / "cache";
    options.progress = [](uint64_t, uint64_t) { return false; };
    CHECK(Corpus::open(*tokenizer, options).code() == Code::cancelled); // before anything is read
    CHECK(fs::is_empty(options.cache_folder));
    options.progress = [](uint64_t done, uint64_t) { return done == 0; };
    CHECK(Corpus::open(*tokenizer, options).code() == Code::cancelled); // while it is tokenized
    CHECK(fs::is_empty(options.cache_folder));
}

TEST_CASE("dataset: validation uses the end of the tokens, or separate texts") {
    const TestFolder folder;
    std::string content;
    for (int i = 0; i < 1000; ++i) content += static_cast<char>('a' + i % 26);
    DatasetOptions options;
    options.train = options_for(folder, {folder.write("train.txt", content).string()});
    const auto trainer = text::make_character_trainer();
    const auto tokenizer = must(train_tokenizer(*trainer, options.train.inputs));
    Dataset made = must(open_dataset(*tokenizer, options));
    const Dataset dataset = std::move(made);
    CHECK(dataset.train.size() == 900);
    CHECK(dataset.valid.size() == 100);
    CHECK(tokenizer->decode(all(dataset.train)) + tokenizer->decode(all(dataset.valid)) == content);
    options.valid = {folder.write("valid.txt", "xyz").string()};
    CHECK(must(open_dataset(*tokenizer, options)).train.size() == 900);
    options.valid_fraction = 0;
    const Dataset own = must(open_dataset(*tokenizer, options));
    CHECK(own.train.size() == 1000);
    CHECK(tokenizer->decode(all(own.valid)) == "xyz");
    options.valid.clear();
    for (const double fraction : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
        options.valid_fraction = fraction;
        CHECK(open_dataset(*tokenizer, options).code() == Code::invalid_argument);
    }
    options.valid_fraction = 0;
    CHECK(must(open_dataset(*tokenizer, options)).valid.size() == 0);
}

TEST_CASE("block hash: independent of the pieces, changes with every byte") {
    std::vector<std::byte> bytes(3'000'000);
    RandomStream random(1, 1);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next_u32());
    BlockHash whole;
    whole.add(bytes);
    const Hash128 expected = whole.finish();
    BlockHash pieces;
    for (std::size_t at = 0; at < bytes.size();) {
        const auto take = std::min<std::size_t>(random.next_below(700'000), bytes.size() - at);
        pieces.add(std::span(bytes).subspan(at, take));
        at += take;
    }
    CHECK(pieces.finish() == expected);
    bytes[2'500'000] ^= std::byte{1};
    BlockHash changed;
    changed.add(bytes);
    CHECK(!(changed.finish() == expected));
}

TEST_CASE("tiny Shakespeare: nanoGPT's split") {
    const fs::path data = real_data("tinyshakespeare");
    if (data.empty()) return;
    const TestFolder folder;
    DatasetOptions options;
    options.train = options_for(folder, {(data / "input.txt").string()});
    options.train.chunk_bytes = 100'000;
    const auto trainer = text::make_character_trainer();
    const auto tokenizer = must(train_tokenizer(*trainer, options.train.inputs));
    const Dataset dataset = must(open_dataset(*tokenizer, options));
    CHECK(dataset.train.size() == 1'003'854);
    CHECK(dataset.valid.size() == 111'540);
    CHECK(tokenizer->decode(all(dataset.corpus.tokens())) == must(read_file(data / "input.txt")));
}
