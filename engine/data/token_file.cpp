#include "data/token_file.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace hekla::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little endian and mapped as they are");

constexpr std::size_t kBlock = 1 << 20;
constexpr uint32_t kVersion = 1;

struct Header {
    char magic[8] = {'H', 'K', 'T', 'O', 'K', 'E', 'N', 'S'};
    uint32_t version = kVersion;
    uint32_t width = 0;
    uint64_t tokenizer[2] = {};
    uint64_t source[2] = {};
    uint32_t vocabulary = 0;
    uint32_t zero = 0;
    uint64_t check = 0; // hash of the preceding bytes
};
static_assert(sizeof(Header) == 64);

struct Trailer {
    uint64_t count = 0;
    uint64_t content[2] = {};
    uint64_t check = 0; // hash of the preceding bytes
};
static_assert(sizeof(Trailer) == 32);

template<class T>
uint64_t check_of(const T& record) {
    return hash64({reinterpret_cast<const char*>(&record), sizeof record - sizeof record.check});
}

template<class T>
std::string_view bytes_of(const T& record) {
    return {reinterpret_cast<const char*>(&record), sizeof record};
}

Header header_of(const TokenFileIdentity& identity) {
    Header header;
    header.width = identity.width();
    header.tokenizer[0] = identity.tokenizer.high;
    header.tokenizer[1] = identity.tokenizer.low;
    header.source[0] = identity.source.high;
    header.source[1] = identity.source.low;
    header.vocabulary = identity.vocabulary;
    header.check = check_of(header);
    return header;
}

} // namespace

void BlockHash::fold(std::string_view block) {
    const Hash128 own = hash128(block);
    const uint64_t chain[4] = {state_.high, state_.low, own.high, own.low};
    state_ = hash128({reinterpret_cast<const char*>(chain), sizeof chain});
}

void BlockHash::add(std::span<const std::byte> bytes) {
    size_ += bytes.size();
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    while (!rest.empty()) {
        if (block_.empty() && rest.size() >= kBlock) { // whole blocks need no copy
            fold(rest.substr(0, kBlock));
            rest.remove_prefix(kBlock);
            continue;
        }
        const std::size_t take = std::min(rest.size(), kBlock - block_.size());
        block_.insert(block_.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(take));
        rest.remove_prefix(take);
        if (block_.size() < kBlock) continue;
        fold({block_.data(), block_.size()});
        block_.clear();
    }
}

Hash128 BlockHash::finish() {
    fold({block_.data(), block_.size()});
    fold({reinterpret_cast<const char*>(&size_), sizeof size_});
    return state_;
}

TokenFileWriter::TokenFileWriter(AtomicFile file, const TokenFileIdentity& identity)
    : file_(std::move(file)), identity_(identity) {}

Result<TokenFileWriter> TokenFileWriter::create(const std::filesystem::path& path, const TokenFileIdentity& identity) {
    HK_ASSIGN(AtomicFile file, AtomicFile::create(path));
    HK_TRY(file.write(bytes_of(header_of(identity))));
    return TokenFileWriter(std::move(file), identity);
}

Status TokenFileWriter::append(std::span<const int32_t> tokens) {
    const uint32_t width = identity_.width();
    buffer_.resize(tokens.size() * width);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const auto token = static_cast<uint32_t>(tokens[i]);
        if (token >= identity_.vocabulary)
            return internal_error(
                fmt::format("token {} is outside a vocabulary of {}", tokens[i], identity_.vocabulary));
        std::memcpy(buffer_.data() + i * width, &token, width); // little endian: the low bytes are first
    }
    hash_.add(buffer_);
    count_ += tokens.size();
    return file_.write(buffer_);
}

Status TokenFileWriter::commit() {
    const Hash128 content = hash_.finish();
    Trailer trailer;
    trailer.count = count_;
    trailer.content[0] = content.high;
    trailer.content[1] = content.low;
    trailer.check = check_of(trailer);
    HK_TRY(file_.write(bytes_of(trailer)));
    return file_.commit();
}

Result<TokenFile> TokenFile::open(const std::filesystem::path& path, const TokenFileIdentity& identity,
                                  const StopPoll& stop) {
    const std::string name = path.string();
    TokenFile result;
    HK_ASSIGN(result.file_, MappedFile::open(path));
    const std::span<const std::byte> bytes = result.file_.bytes();
    if (bytes.size() < sizeof(Header) + sizeof(Trailer))
        return corrupt(fmt::format("{}: {} bytes are too few for a file of tokens", name, bytes.size()));
    Header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    const Header expected = header_of(identity);
    if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0)
        return corrupt(fmt::format("{}: does not start like a file of tokens", name));
    if (header.check != check_of(header)) return corrupt(fmt::format("{}: the header was changed", name));
    if (bytes_of(header) != bytes_of(expected))
        return failed_precondition(
            fmt::format("{}: was made from another text or tokenizer, or by another version", name));

    Trailer trailer;
    std::memcpy(&trailer, bytes.data() + (bytes.size() - sizeof trailer), sizeof trailer);
    if (trailer.check != check_of(trailer)) return corrupt(fmt::format("{}: the end is missing or was changed", name));
    const std::span<const std::byte> content =
        bytes.subspan(sizeof header, bytes.size() - sizeof header - sizeof trailer);
    if (trailer.count != content.size() / header.width || content.size() % header.width != 0)
        return corrupt(fmt::format("{}: holds {} bytes of tokens, {} tokens of {} bytes were expected", name,
                                   content.size(), trailer.count, header.width));
    BlockHash hash;
    for (std::size_t at = 0; at < content.size(); at += kBlock) {
        HK_TRY(stop.check("reading data"));
        hash.add(content.subspan(at, std::min(kBlock, content.size() - at)));
    }
    if (hash.finish() != Hash128{trailer.content[0], trailer.content[1]})
        return corrupt(fmt::format("{}: the tokens were changed", name));
    result.tokens_ = TokenView(content.data(), trailer.count, header.width);
    uint32_t largest = 0;
    for (uint64_t i = 0; i < trailer.count; ++i) {
        if (i % kBlock == 0) HK_TRY(stop.check("reading data"));
        largest = std::max(largest, static_cast<uint32_t>(result.tokens_[i]));
    }
    if (trailer.count > 0 && largest >= header.vocabulary)
        return corrupt(fmt::format("{}: holds token {}, the vocabulary has {}", name, largest, header.vocabulary));
    return result;
}

} // namespace hekla::data
