// A file of tokens: a header of 64 bytes, the tokens (16 bits if the vocabulary allows, otherwise 32, little endian),
// and a trailer with their number and hash. The trailer is last because only then both are known; a truncated file has
// none.
#pragma once

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/status.hpp"
#include "data/read_options.hpp"
#include "data/token_view.hpp"

#include <filesystem>
#include <span>
#include <vector>

namespace hekla::data {

// Identifies the source of a token file. A file with another identity is not used.
struct TokenFileIdentity {
    Hash128 tokenizer;
    Hash128 source;
    uint32_t vocabulary = 0; // every token is below this
    bool operator==(const TokenFileIdentity&) const = default;
    uint32_t width() const { return vocabulary <= 0x10000u ? 2 : 4; }
};

// A hash of a long content that is added in pieces of any size.
class BlockHash {
public:
    void add(std::span<const std::byte> bytes);
    Hash128 finish();

private:
    void fold(std::string_view block);
    std::vector<char> block_;
    Hash128 state_;
    uint64_t size_ = 0;
};

class TokenFileWriter {
public:
    static Result<TokenFileWriter> create(const std::filesystem::path& path, const TokenFileIdentity& identity);
    Status append(std::span<const int32_t> tokens);
    Status commit(); // the complete file appears under its name
    uint64_t count() const { return count_; }

private:
    TokenFileWriter(AtomicFile file, const TokenFileIdentity& identity);
    AtomicFile file_;
    TokenFileIdentity identity_;
    BlockHash hash_;
    std::vector<std::byte> buffer_;
    uint64_t count_ = 0;
};

class TokenFile {
public:
    // Maps the file and checks all of it: sizes, identity, every token, the hash. Errors: corrupt (with the reason),
    // and failed_precondition for a valid file of another identity.
    static Result<TokenFile> open(const std::filesystem::path& path, const TokenFileIdentity& identity,
                                  const StopPoll& stop = {});
    TokenView tokens() const { return tokens_; } // valid as long as this

private:
    MappedFile file_;
    TokenView tokens_;
};

} // namespace hekla::data
