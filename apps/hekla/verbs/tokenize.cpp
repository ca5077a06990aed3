// hekla tokenize train, encode, decode, add, speed, inspect.
#include "command.hpp"
#include "output.hpp"
#include "training_progress.hpp"

#include "base/file.hpp"
#include "base/host.hpp"
#include "base/interrupts.hpp"
#include "base/number_text.hpp"
#include "base/path_text.hpp"
#include "base/printable.hpp"
#include "data/corpus.hpp"
#include "data/text_files.hpp"
#include "model/staged_folder.hpp"
#include "text/text_encoder.hpp"
#include "text/tokenizer_trainer.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/printf.h>
#include <fmt/ranges.h>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct TokenizeArguments {
    std::string kind = "bpe";
    int32_t vocabulary_size = 4096;
    std::vector<std::string> inputs;
    std::string output;
    std::string tokenizer;
    std::string file;
    std::vector<std::string> ids;
    std::string text;
    bool has_text = false;
    bool plain = false; // special tokens in the text are treated as ordinary text
    bool skip_special = false;
    bool cased = false; // wordpiece and words keep capitals and accents
    double seconds = 3.0;
    bool json = false;
};

// The kinds that can be trained, and their common names.
constexpr std::pair<const char*, const char*> kKinds[] = {{"bpe", "byte-level BPE"},
                                                          {"wordpiece", "WordPiece"},
                                                          {"unigram", "SentencePiece unigram"},
                                                          {"sentencepiece-bpe", "SentencePiece BPE"},
                                                          {"words", "word"},
                                                          {"char", "character"}};

std::unique_ptr<text::TokenizerTrainer> trainer_of(const TokenizeArguments& a) {
    if (a.kind == "char") return text::make_character_trainer();
    if (a.kind == "wordpiece") {
        text::WordPieceTraining options;
        options.vocabulary_size = a.vocabulary_size;
        options.lower_case = options.strip_accents = !a.cased;
        return text::make_wordpiece_trainer(options);
    }
    if (a.kind == "words") {
        text::WordTraining options;
        options.vocabulary_size = a.vocabulary_size;
        options.normalization.lower_case = !a.cased;
        return text::make_word_trainer(options);
    }
    if (a.kind == "unigram" || a.kind == "sentencepiece-bpe") {
        text::SentencePieceTraining options;
        options.vocabulary_size = a.vocabulary_size;
        options.bpe = a.kind == "sentencepiece-bpe";
        return text::make_sentencepiece_trainer(options);
    }
    text::ByteBpeTraining options;
    options.vocabulary_size = a.vocabulary_size;
    return text::make_byte_bpe_trainer(options);
}

std::string standard_input() { return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()}; }

// Reads the text to encode or measure: --text, a file, or standard input.
Result<std::pair<std::string, text::TextOrigin>> given_text(const TokenizeArguments& a) {
    if (a.has_text) return std::pair(a.text, text::TextOrigin{"--text"});
    if (a.file.empty() || a.file == "-") return std::pair(standard_input(), text::TextOrigin{"standard input"});
    HK_ASSIGN(std::string content, read_file(a.file));
    return std::pair(std::move(content), text::TextOrigin{a.file});
}

// Replaces the tokenizer's folder when the new one is complete. Leftovers of killed runs are removed.
Status save_tokenizer(const text::Tokenizer& tokenizer, const std::string& output) {
    fs::path target = path_of(output).lexically_normal();
    if (!target.has_filename()) target = target.parent_path(); // "out/" is the folder "out"
    const fs::path parent = target.has_parent_path() ? target.parent_path() : fs::path(".");
    model::recover_folders(parent, target.filename().string());
    HK_ASSIGN(model::StagedFolder staged, model::StagedFolder::create(target));
    HK_TRY(tokenizer.save(staged.path()));
    return staged.commit(model::StagedFolder::Existing::replace);
}

int run_tokenize_train(const TokenizeArguments& a) {
    std::error_code problem;
    if (fs::exists(a.output, problem) && !fs::is_directory(a.output, problem))
        return fail(fmt::format("{} is not a folder; -o expects the folder for the tokenizer's files", a.output));
    const std::unique_ptr<text::TokenizerTrainer> trainer = trainer_of(a);
    watch_interrupts(kStoppedEarly);
    trainer->set_stop([] { return interrupted(); });
    const bool sentencepiece = a.kind == "unigram" || a.kind == "sentencepiece-bpe";
    const bool terminal = Progress::is_terminal();
    uint64_t bytes = 0;
    const data::Progress progress = [&](uint64_t done, uint64_t total) {
        bytes = total;
        if (terminal && total > 0)
            fmt::fprintf(stderr, "\r\x1b[Kreading %3.0f%%",
                         100.0 * static_cast<double>(done) / static_cast<double>(total));
        if (sentencepiece && done >= total)
            std::fprintf(stderr,
                         "%sSentencePiece optimizes its pieces; Ctrl+C takes effect when it is done, a second "
                         "Ctrl+C at once\n",
                         terminal ? "\r\x1b[K" : "");
        return !interrupted();
    };
    const auto trained = data::train_tokenizer(*trainer, a.inputs, progress);
    if (terminal) std::fprintf(stderr, "\r\x1b[K");
    if (!trained.ok()) return fail(trained.status());
    const text::Tokenizer& tokenizer = *trained.value();
    if (const Status saved = save_tokenizer(tokenizer, a.output); !saved.ok()) return fail(saved);
    if (a.json) {
        ordered_json j{
            {"tokenizer", a.output}, {"kind", tokenizer.kind()}, {"vocabulary_size", tokenizer.vocabulary_size()}};
        std::printf("%s\n", json_line(j).c_str());
        return kDone;
    }
    const auto named = std::ranges::find_if(kKinds, [&](const auto& kind) { return a.kind == kind.first; });
    std::printf("%s: %s tokenizer with %d tokens\n", a.output.c_str(), named->second, tokenizer.vocabulary_size());
    if (a.kind != "char" && tokenizer.vocabulary_size() < a.vocabulary_size)
        std::printf("%d tokens were asked for; the text does not have more\n", a.vocabulary_size);
    return kDone;
}

int run_encode(const TokenizeArguments& a) {
    const auto tokenizer = text::load_tokenizer(a.tokenizer);
    if (!tokenizer.ok()) return fail(tokenizer.status());
    const auto given = given_text(a);
    if (!given.ok()) return fail(given.status());
    const text::TextUse use = a.plain ? text::TextUse::untrusted : text::TextUse::document;
    std::vector<int32_t> ids;
    std::vector<text::ByteRange> ranges;
    if (const Status encoded =
            text::TextEncoder(*tokenizer.value())
                .encode(use, given.value().first, ids, a.json ? &ranges : nullptr, given.value().second);
        !encoded.ok())
        return fail(encoded);
    if (!a.json) {
        fmt::print("{}\n", fmt::join(ids, " "));
        return kDone;
    }
    ordered_json j{{"ids", ids}, {"tokens", ordered_json::array()}, {"bytes", ordered_json::array()}};
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto token = tokenizer.value()->token(ids[i]);
        if (!token.ok()) return fail(token.status());
        j["tokens"].push_back(token.value());
        j["bytes"].push_back({ranges[i].begin, ranges[i].end});
    }
    std::printf("%s\n", json_line(j).c_str());
    return kDone;
}

int run_decode(const TokenizeArguments& a) {
    const auto tokenizer = text::load_tokenizer(a.tokenizer);
    if (!tokenizer.ok()) return fail(tokenizer.status());
    std::string all = fmt::format("{}", fmt::join(a.ids, " "));
    if (a.ids.empty()) all = standard_input();
    std::vector<int32_t> ids;
    constexpr std::string_view kBetween = " \t\r\n,[]";
    for (std::size_t at = all.find_first_not_of(kBetween); at != std::string::npos;) {
        const std::size_t end = std::min(all.find_first_of(kBetween, at), all.size());
        int32_t id = 0;
        const auto parsed = std::from_chars(all.data() + at, all.data() + end, id);
        if (parsed.ec != std::errc() || parsed.ptr != all.data() + end)
            return fail(fmt::format("'{}' is not a token id; decode expects numbers", all.substr(at, end - at)));
        if (!tokenizer.value()->vocabulary().has(id))
            return fail(fmt::format("token {} does not exist; this tokenizer has the ids 0 to {}", id,
                                    tokenizer.value()->vocabulary_size() - 1));
        ids.push_back(id);
        at = all.find_first_not_of(kBetween, end);
    }
    const std::string text = tokenizer.value()->decode(ids, a.skip_special);
    if (a.json) {
        std::printf("%s\n", json_line({{"text", text}}).c_str());
        return kDone;
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (is_terminal(stdout) && !text.ends_with('\n')) std::printf("\n"); // a pipe gets only the text
    return kDone;
}

int run_inspect(const TokenizeArguments& a) {
    const auto opened = text::load_tokenizer(a.tokenizer);
    if (!opened.ok()) return fail(opened.status());
    const text::Tokenizer& tokenizer = *opened.value();
    const text::Vocabulary& vocabulary = tokenizer.vocabulary();
    std::vector<int32_t> longest;
    for (int32_t id = 0; id < vocabulary.size(); ++id)
        if (vocabulary.has(id) && !vocabulary.is_added(id)) longest.push_back(id);
    const std::size_t shown = std::min<std::size_t>(8, longest.size());
    std::ranges::partial_sort(longest, longest.begin() + static_cast<std::ptrdiff_t>(shown), [&](int32_t x, int32_t y) {
        const std::size_t m = vocabulary.bytes(x).size(), n = vocabulary.bytes(y).size();
        return m != n ? m > n : x < y;
    });
    longest.resize(shown);

    ordered_json j{{"kind", tokenizer.kind()},
                   {"vocabulary_size", tokenizer.vocabulary_size()},
                   {"hash", to_hex(tokenizer.hash())}};
    j["special"] = ordered_json::array();
    for (const text::AddedToken& token : vocabulary.added()) {
        ordered_json roles = ordered_json::array();
        for (int32_t role = 0; role < text::kTokenRoles; ++role)
            if (vocabulary.role(static_cast<text::TokenRole>(role)) == token.id)
                roles.push_back(text::role_key(static_cast<text::TokenRole>(role)));
        j["special"].push_back({{"id", token.id}, {"token", token.content}, {"roles", roles}});
    }
    j["longest"] = ordered_json::array();
    for (const int32_t id : longest) j["longest"].push_back({{"id", id}, {"text", vocabulary.bytes(id)}});
    if (a.has_text || !a.file.empty()) {
        const auto given = given_text(a);
        if (!given.ok()) return fail(given.status());
        const auto ids =
            text::TextEncoder(tokenizer).encode(text::TextUse::document, given.value().first, given.value().second);
        if (!ids.ok()) return fail(ids.status());
        const double bytes = static_cast<double>(given.value().first.size()),
                     tokens = static_cast<double>(ids.value().size());
        j["text"] = {{"bytes", given.value().first.size()},
                     {"tokens", ids.value().size()},
                     {"bytes_per_token", tokens > 0.0 ? bytes / tokens : 0.0}};
    }
    if (a.json) {
        std::printf("%s\n", json_line(j).c_str());
        return kDone;
    }
    fmt::print("{}: {}, {} tokens, hash {}\n", a.tokenizer, tokenizer.kind(), grouped(tokenizer.vocabulary_size()),
               j["hash"].get<std::string>());
    for (const auto& token : j["special"])
        fmt::print("  special {:>6}  {}{}\n", token["id"].get<int32_t>(), printable(token["token"].get<std::string>()),
                   token["roles"].empty()
                       ? ""
                       : fmt::format("  ({})", fmt::join(token["roles"].get<std::vector<std::string>>(), ", ")));
    for (const auto& token : j["longest"])
        fmt::print("  long    {:>6}  {}\n", token["id"].get<int32_t>(), json_line(token["text"]));
    if (j.contains("text"))
        fmt::print("text: {} bytes, {} tokens, {:.2f} bytes per token\n", grouped(j["text"]["bytes"].get<double>()),
                   grouped(j["text"]["tokens"].get<double>()), j["text"]["bytes_per_token"].get<double>());
    return kDone;
}

int run_add(const TokenizeArguments& a) {
    const auto opened = text::load_tokenizer(a.tokenizer);
    if (!opened.ok()) return fail(opened.status());
    std::vector<text::SpecialToken> tokens;
    for (const std::string& token : a.ids) tokens.push_back({token, {}});
    const auto more = text::add_special_tokens(*opened.value(), tokens);
    if (!more.ok()) return fail(more.status());
    if (const Status saved = save_tokenizer(*more.value(), a.output); !saved.ok()) return fail(saved);
    if (a.json) {
        std::printf("%s\n",
                    json_line({{"tokenizer", a.output}, {"vocabulary_size", more.value()->vocabulary_size()}}).c_str());
        return kDone;
    }
    fmt::print("{}: {} tokens, {} of them new\n", a.output, grouped(more.value()->vocabulary_size()),
               more.value()->vocabulary_size() - opened.value()->vocabulary_size());
    return kDone;
}

int run_speed(const TokenizeArguments& a) {
    const auto opened = text::load_tokenizer(a.tokenizer);
    if (!opened.ok()) return fail(opened.status());
    const auto files = data::find_text_files(a.inputs);
    if (!files.ok()) return fail(files.status());
    std::vector<std::string> texts;
    double megabytes = 0.0;
    for (const fs::path& file : files.value()) {
        Result<std::string> content = read_file(file);
        if (!content.ok()) return fail(content.status());
        megabytes += static_cast<double>(content.value().size()) * 1e-6;
        texts.push_back(content.take());
    }
    if (megabytes == 0.0) return fail("the files are empty; there is nothing to measure");
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point begin) {
        return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    std::vector<double> rates;
    std::size_t tokens = 0;
    const Clock::time_point first = Clock::now();
    while (rates.size() < 3 || since(first) < a.seconds) {
        const Clock::time_point begin = Clock::now();
        tokens = 0;
        for (std::size_t i = 0; i < texts.size(); ++i) {
            const auto ids = text::TextEncoder(*opened.value())
                                 .encode(text::TextUse::document, texts[i], {files.value()[i].string()});
            if (!ids.ok()) return fail(ids.status());
            tokens += ids.value().size();
        }
        rates.push_back(megabytes / since(begin));
    }
    std::ranges::sort(rates);
    const double median = rates[rates.size() / 2];
    if (a.json) {
        std::printf("%s\n", json_line({{"kind", opened.value()->kind()},
                                       {"megabytes", megabytes},
                                       {"tokens", tokens},
                                       {"runs", rates.size()},
                                       {"megabytes_per_second", median}})
                                .c_str());
        return kDone;
    }
    fmt::print("{}: {:.1f} MB/s on one thread ({:.2f} MB, {} tokens, median of {} runs)\n", opened.value()->kind(),
               median, megabytes, grouped(static_cast<double>(tokens)), rates.size());
    return kDone;
}

} // namespace

void add_tokenize(CLI::App& app, const Globals&, Verbs& verbs) {
    CLI::App* group = app.add_subcommand("tokenize", "Train tokenizers, and convert text to token ids and back.");
    group->require_subcommand(1);
    group->footer("Example: hekla tokenize train --kind bpe --vocab-size 1024 README.md -o out/tokenizer");
    const auto add = [&](const char* name, const char* about, const char* example,
                         int (*run)(const TokenizeArguments&)) {
        CLI::App* parser = group->add_subcommand(name, about);
        const auto a = std::make_shared<TokenizeArguments>();
        parser->add_flag("--json", a->json, "print the result as JSON");
        parser->footer(example);
        verbs.push_back({parser, [a, run, parser] {
                             const CLI::Option* given = parser->get_option_no_throw("--text");
                             a->has_text = given != nullptr && given->count() > 0;
                             return run(*a);
                         }});
        return std::pair(parser, a);
    };
    const auto add_text = [](CLI::App* parser, const std::shared_ptr<TokenizeArguments>& a, const char* about) {
        CLI::Option* file = parser->add_option("file", a->file, about);
        parser->add_option("--text", a->text, "text to use instead of a file")->excludes(file);
    };
    const char* const kTokenizer =
        "folder with a tokenizer (of a run or model), or a tokenizer.json, vocab.txt or spiece.model";
    {
        const auto [parser, a] = add(
            "train", "Train a tokenizer on text files.",
            "Example: hekla tokenize train --kind bpe --vocab-size 1024 'texts/**/*.txt' README.md -o out/tokenizer\n"
            "Ctrl+C and SIGTERM end the training without writing the folder. unigram and sentencepiece-bpe finish the "
            "optimization of their pieces first; a second signal exits at once.",
            run_tokenize_train);
        parser->add_option("input", a->inputs, "text files, folders, or patterns with *, ? and **")->required();
        parser
            ->add_option("-o,--output", a->output,
                         "folder to write; one that exists is replaced when the tokenizer is complete")
            ->required();
        std::vector<std::string> kinds;
        for (const auto& [kind, name] : kKinds) kinds.emplace_back(kind);
        parser
            ->add_option(
                "--kind", a->kind,
                "algorithm; bpe as in GPT-2, wordpiece as in BERT, unigram as in T5, sentencepiece-bpe as in Llama")
            ->check(CLI::IsMember(kinds))
            ->capture_default_str();
        parser->add_flag("--cased", a->cased, "keep capitals and accents (wordpiece and words)");
        parser
            ->add_option("--vocab-size", a->vocabulary_size,
                         "number of tokens, including special ones (all kinds but char)")
            ->check(CLI::Range(2, 1 << 24))
            ->capture_default_str();
    }
    {
        const auto [parser, a] = add("encode", "Convert text to token ids.",
                                     "Example: hekla tokenize encode out/tokenizer --text 'Hello world'", run_encode);
        parser->add_option("tokenizer", a->tokenizer, kTokenizer)->required();
        add_text(parser, a, "text file; - or nothing: standard input");
        parser->add_flag("--plain", a->plain, "treat special tokens in the text as ordinary text");
    }
    {
        const auto [parser, a] = add("decode", "Convert token ids to text.",
                                     "Example: hekla tokenize decode out/tokenizer 72 101 108", run_decode);
        parser->add_option("tokenizer", a->tokenizer, kTokenizer)->required();
        parser->add_option("ids", a->ids, "token ids (default: read from standard input)");
        parser->add_flag("--skip-special", a->skip_special, "omit special tokens from the text");
    }
    {
        const auto [parser, a] = add(
            "add", "Add special tokens after a tokenizer's ids. The model's embedding must grow by the same number.",
            "Example: hekla tokenize add out/tokenizer -t '[DELIM]' -t '[EXTRACT]' -o out/tokenizer-pairs", run_add);
        parser->add_option("tokenizer", a->tokenizer, kTokenizer)->required();
        parser->add_option("-t,--token", a->ids, "token to add; may be given several times")
            ->required()
            ->allow_extra_args(false); // otherwise "[DELIM]" would be read as a list, without its brackets
        parser
            ->add_option("-o,--output", a->output,
                         "folder to write; one that exists is replaced when the tokenizer is complete")
            ->required();
    }
    {
        const auto [parser, a] = add("speed", "Measure how fast a tokenizer encodes on one thread.",
                                     "Example: hekla tokenize speed out/tokenizer README.md --json", run_speed);
        parser->add_option("tokenizer", a->tokenizer, kTokenizer)->required();
        parser->add_option("input", a->inputs, "text files, folders, or patterns with *, ? and **")->required();
        parser->add_option("--seconds", a->seconds, "measure for at least this time, and at least 3 runs")
            ->check(CLI::Range(0.0, 3600.0))
            ->capture_default_str();
    }
    {
        const auto [parser, a] =
            add("inspect", "Show a tokenizer, and how many bytes of a text one of its tokens covers.",
                "Example: hekla tokenize inspect out/tokenizer README.md", run_inspect);
        parser->add_option("tokenizer", a->tokenizer, kTokenizer)->required();
        add_text(parser, a, "text file to count the tokens of");
    }
}

} // namespace hekla::app
