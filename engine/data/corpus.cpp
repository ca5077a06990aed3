#include "data/corpus.hpp"

#include "base/thread.hpp"
#include "data/text_chunks.hpp"
#include "data/text_files.hpp"
#include "text/text_encoder.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <system_error>
#include <thread>

namespace hekla::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHashedAtOnce = std::size_t{16} << 20; // bytes between two stop checks

struct Sources {
    std::vector<fs::path> files; // without empty ones
    Hash128 hash;
    uint64_t bytes = 0;
};

Status cancelled() { return {Code::cancelled, "stopped while the text was being tokenized"}; }

// Content, not names or times, identifies a text.
Result<Sources> inspect(std::span<const std::string> inputs, const StopPoll& stop) {
    HK_ASSIGN(std::vector<fs::path> files, find_text_files(inputs));
    Sources sources;
    BlockHash hash;
    for (fs::path& path : files) {
        HK_ASSIGN(const MappedFile file, MappedFile::open(path));
        const uint64_t size = file.bytes().size();
        if (size == 0) continue;
        hash.add(std::as_bytes(std::span(&size, 1)));
        for (std::span<const std::byte> rest = file.bytes(); !rest.empty();) {
            const std::span<const std::byte> part = rest.first(std::min(rest.size(), kHashedAtOnce));
            hash.add(part);
            rest = rest.subspan(part.size());
            HK_TRY(stop.check("reading data"));
        }
        sources.bytes += size;
        sources.files.push_back(std::move(path));
    }
    if (sources.bytes == 0) return invalid_argument(fmt::format("{}: the text is empty", fmt::join(inputs, ", ")));
    sources.hash = hash.finish();
    return sources;
}

struct Encoded {
    TextChunk chunk;
    std::vector<int32_t> ids;
    Status status;
};

void encode(const text::Tokenizer& tokenizer, Encoded& work) {
    try {
        work.ids.clear();
        work.status = text::TextEncoder(tokenizer).encode(text::TextUse::document, work.chunk.text, work.ids, nullptr,
                                                          work.chunk.origin);
    } catch (const std::bad_alloc&) {
        work.status = out_of_memory(fmt::format("{}: out of memory while tokenizing a chunk of {} bytes",
                                                work.chunk.origin.name, work.chunk.text.size()));
    }
}

// Encodes on one thread per chunk; this thread encodes the first.
void encode_all(const text::Tokenizer& tokenizer, std::span<Encoded> wave) {
    std::vector<std::thread> threads;
    std::size_t started = wave.size();
    try {
        for (; started > 1; --started)
            threads.push_back(
                start_thread("hekla tokens", [&tokenizer, &work = wave[started - 1]] { encode(tokenizer, work); }));
    } catch (const std::system_error&) {
        // No more threads available: slower, with the same result.
    }
    for (Encoded& work : wave.first(started)) encode(tokenizer, work);
    for (std::thread& thread : threads) thread.join();
}

Status tokenize_file(const text::Tokenizer& tokenizer, const CorpusOptions& options, const fs::path& path,
                     uint64_t total, uint64_t& done, TokenFileWriter& writer) {
    HK_ASSIGN(const MappedFile file, MappedFile::open(path));
    TextChunks chunks(tokenizer, file.text(), path.string(), options.chunk_bytes);
    const unsigned threads = options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
    std::vector<Encoded> wave(threads);
    for (bool more = true; more;) {
        std::size_t filled = 0;
        Status status;
        while (filled < wave.size() && more) {
            Result<TextChunk> chunk = chunks.next();
            // An error in an earlier chunk is reported first.
            if (!chunk.ok()) {
                status = chunk.status();
                more = false;
                break;
            }
            more = !chunk->text.empty();
            if (more) wave[filled++].chunk = chunk.take();
        }
        encode_all(tokenizer, std::span(wave).first(filled));
        for (const Encoded& work : std::span(wave).first(filled)) {
            HK_TRY(work.status);
            HK_TRY(writer.append(work.ids));
            done += work.chunk.text.size();
        }
        HK_TRY(status);
        if (options.progress && !options.progress(done, total)) return cancelled();
    }
    return {};
}

Status tokenize(const text::Tokenizer& tokenizer, const CorpusOptions& options, const Sources& sources,
                const fs::path& path, const TokenFileIdentity& identity) {
    HK_ASSIGN(TokenFileWriter writer, TokenFileWriter::create(path, identity));
    const std::optional<int32_t> separator =
        options.separate_files ? tokenizer.special(text::TokenRole::eos) : std::nullopt;
    uint64_t done = 0;
    for (std::size_t i = 0; i < sources.files.size(); ++i) {
        const text::DocumentFrame frame = text::TextEncoder(tokenizer).document_frame();
        if (options.separate_files) HK_TRY(writer.append(frame.before));
        HK_TRY(tokenize_file(tokenizer, options, sources.files[i], sources.bytes, done, writer));
        if (options.separate_files && !frame.after.empty())
            HK_TRY(writer.append(frame.after));
        else if (separator && i + 1 < sources.files.size())
            HK_TRY(writer.append(std::span(&*separator, 1)));
    }
    return writer.commit();
}

} // namespace

Result<Corpus> Corpus::open(const text::Tokenizer& tokenizer, const CorpusOptions& options) {
    const StopPoll stop([&options] { return options.progress && !options.progress(0, 0); });
    HK_ASSIGN(Sources sources, inspect(options.inputs, stop));
    std::error_code error;
    fs::create_directories(options.cache_folder, error);
    if (error)
        return io_error(fmt::format("{}: cannot create the folder for tokenized text: {}",
                                    options.cache_folder.string(), error.message()));
    TokenFileIdentity identity;
    identity.tokenizer = tokenizer.hash();
    identity.vocabulary = static_cast<uint32_t>(tokenizer.vocabulary_size());
    // Separators between files change the tokens, as the content does.
    identity.source = hash128(to_hex(sources.hash) + (options.separate_files ? " separated" : " joined"));

    Corpus corpus;
    corpus.cache_file_ =
        options.cache_folder /
        fmt::format("tokens-{}.bin",
                    to_hex(hash128(to_hex(identity.tokenizer) + to_hex(identity.source))).substr(0, 16));
    Result<TokenFile> cached = TokenFile::open(corpus.cache_file_, identity, stop);
    if (cached.code() == Code::cancelled) return cached.status();
    corpus.was_cached_ = cached.ok();
    if (!cached.ok()) {
        HK_TRY(tokenize(tokenizer, options, sources, corpus.cache_file_, identity));
        cached = TokenFile::open(corpus.cache_file_, identity, stop);
        if (!cached.ok()) return cached.status();
    }
    corpus.file_ = cached.take();
    corpus.file_count_ = sources.files.size();
    corpus.text_bytes_ = sources.bytes;
    return corpus;
}

Result<Dataset> open_dataset(const text::Tokenizer& tokenizer, const DatasetOptions& options) {
    if (!(options.valid_fraction >= 0 && options.valid_fraction < 1))
        return invalid_argument(fmt::format("the validation fraction is {}; at least 0 and less than 1 was expected",
                                            options.valid_fraction));
    Dataset dataset;
    HK_ASSIGN(dataset.corpus, Corpus::open(tokenizer, options.train));
    const TokenView all = dataset.corpus.tokens();
    if (!options.valid.empty()) {
        CorpusOptions valid = options.train;
        valid.inputs = options.valid;
        HK_ASSIGN(dataset.valid_corpus, Corpus::open(tokenizer, valid));
    }
    const auto train = static_cast<uint64_t>(static_cast<double>(all.size()) * (1.0 - options.valid_fraction));
    dataset.train = all.part(0, train);
    dataset.valid = dataset.valid_corpus ? dataset.valid_corpus->tokens() : all.part(train, all.size() - train);
    return dataset;
}

Result<std::unique_ptr<text::Tokenizer>>
train_tokenizer(text::TokenizerTrainer& trainer, std::span<const std::string> inputs, const Progress& progress) {
    HK_ASSIGN(const std::vector<fs::path> files, find_text_files(inputs));
    std::error_code ignored;
    uint64_t total = 0;
    uint64_t done = 0;
    for (const fs::path& path : files) {
        const uintmax_t size = fs::file_size(path, ignored);
        total += size == static_cast<uintmax_t>(-1) ? 0 : size;
    }
    for (const fs::path& path : files) {
        HK_ASSIGN(const MappedFile file, MappedFile::open(path));
        text::TextOrigin origin;
        origin.name = path.string();
        HK_TRY(trainer.add(file.text(), origin));
        done += file.text().size();
        if (progress && !progress(done, total)) return cancelled();
    }
    if (done == 0) return invalid_argument(fmt::format("{}: the text is empty", fmt::join(inputs, ", ")));
    return trainer.finish();
}

} // namespace hekla::data
