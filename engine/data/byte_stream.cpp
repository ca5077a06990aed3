#include "data/byte_stream.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

namespace hekla::data {
namespace {

class PlainStream final : public ByteStream {
public:
    explicit PlainStream(MappedFile file) : file_(std::move(file)) {}
    Result<std::size_t> read(char* out, std::size_t size) override {
        const std::string_view rest = file_.text().substr(at_);
        const std::size_t taken = std::min(size, rest.size());
        if (taken == 0) return taken; // an empty file has no bytes to point to
        std::memcpy(out, rest.data(), taken);
        at_ += taken;
        return taken;
    }

private:
    MappedFile file_;
    std::size_t at_ = 0;
};

// Counts the output of a compressed file and checks it against the limits.
class DecompressionCount {
public:
    explicit DecompressionCount(const DecompressionLimits& limits) : limits_(limits) {}

    // bytes: of decompressed text. compressed: bytes of the file used so far.
    Status add(const std::string& name, std::size_t bytes, std::size_t compressed) {
        bytes_ += bytes;
        if (bytes_ > limits_.max_bytes)
            return invalid_argument(
                fmt::format("{}: contains more than {} bytes of text, the limit for a compressed file; set "
                            "data.max_decompressed_bytes higher if the file is trustworthy",
                            name, limits_.max_bytes));
        const double ratio = static_cast<double>(bytes_) / static_cast<double>(std::max<std::size_t>(compressed, 1));
        if (bytes_ > kUncheckedBytes && ratio > limits_.max_ratio)
            return invalid_argument(
                fmt::format("{}: {} compressed bytes became {} bytes of text, a ratio of {:.0f}; the limit is {}. Set "
                            "data.max_compression_ratio higher if the file is trustworthy",
                            name, compressed, bytes_, ratio, limits_.max_ratio));
        return {};
    }

private:
    DecompressionLimits limits_;
    uint64_t bytes_ = 0;
};

class GzipStream final : public ByteStream {
public:
    GzipStream(MappedFile file, std::string name, const DecompressionLimits& limits)
        : file_(std::move(file)), name_(std::move(name)), count_(limits) {
        ready_ = inflateInit2(&state_, 15 + 16) == Z_OK; // 16: gzip's header and checksum
    }
    ~GzipStream() override {
        if (ready_) inflateEnd(&state_);
    }

    Result<std::size_t> read(char* out, std::size_t size) override {
        if (!ready_) return out_of_memory(fmt::format("{}: out of memory while decompressing it", name_));
        const std::string_view packed = file_.text();
        state_.next_out = reinterpret_cast<Bytef*>(out);
        state_.avail_out = static_cast<uInt>(std::min<std::size_t>(size, 1u << 30));
        const uInt wanted = state_.avail_out;
        while (state_.avail_out == wanted) {
            if (ended_) { // a member is complete; followed by another one or the end
                if (at_ == packed.size()) return std::size_t{0};
                if (inflateReset(&state_) != Z_OK) return damaged("cannot be reset");
                ended_ = false;
            }
            const auto given = static_cast<uInt>(std::min<std::size_t>(packed.size() - at_, 1u << 30));
            // zlib's interface is not const-correct.
            state_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data() + at_));
            state_.avail_in = given;
            const int result = inflate(&state_, Z_NO_FLUSH);
            at_ += given - state_.avail_in;
            if (result == Z_STREAM_END) {
                ended_ = true;
            } else if (result == Z_BUF_ERROR || (result == Z_OK && given == 0 && state_.avail_out == wanted)) {
                return damaged("ends too early");
            } else if (result != Z_OK) {
                return damaged(state_.msg != nullptr ? state_.msg : "damaged");
            }
        }
        const std::size_t got = wanted - state_.avail_out;
        HK_TRY(count_.add(name_, got, at_));
        return got;
    }

private:
    Status damaged(const char* why) const {
        return corrupt(
            fmt::format("{}: not a valid gzip file: {} (byte {} of {})", name_, why, at_, file_.text().size()));
    }
    MappedFile file_;
    std::string name_;
    DecompressionCount count_;
    z_stream state_{};
    std::size_t at_ = 0;
    bool ready_ = false;
    bool ended_ = false;
};

class ZstandardStream final : public ByteStream {
public:
    ZstandardStream(MappedFile file, std::string name, const DecompressionLimits& limits)
        : file_(std::move(file)), name_(std::move(name)), count_(limits),
          state_(ZSTD_createDStream(), &ZSTD_freeDStream) {}

    Result<std::size_t> read(char* out, std::size_t size) override {
        if (!state_) return out_of_memory(fmt::format("{}: out of memory while decompressing it", name_));
        const std::string_view packed = file_.text();
        ZSTD_inBuffer in{packed.data(), packed.size(), at_};
        ZSTD_outBuffer target{out, size, 0};
        while (target.pos == 0) {
            if (in.pos == in.size && between_frames_) return std::size_t{0};
            const std::size_t before = in.pos;
            const std::size_t result = ZSTD_decompressStream(state_.get(), &target, &in);
            if (ZSTD_isError(result) != 0) return damaged(ZSTD_getErrorName(result), in.pos);
            between_frames_ = result == 0;
            if (in.pos == before && target.pos == 0 && !between_frames_) return damaged("ends too early", in.pos);
        }
        at_ = in.pos;
        HK_TRY(count_.add(name_, target.pos, at_));
        return target.pos;
    }

private:
    Status damaged(const char* why, std::size_t at) const {
        return corrupt(
            fmt::format("{}: not a valid Zstandard file: {} (byte {} of {})", name_, why, at, file_.text().size()));
    }
    MappedFile file_;
    std::string name_;
    DecompressionCount count_;
    std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> state_;
    std::size_t at_ = 0;
    bool between_frames_ = true;
};

// Returns the error of a Parquet file, with the command that converts it.
Status parquet_error(std::filesystem::path path) {
    const std::string name = path.string();
    const bool plain = name.find_first_of("'\"$`\\!\n") == std::string::npos; // needs no escapes in a shell
    const std::string from = plain ? name : "FILE.parquet";
    const std::string to = plain ? path.replace_extension(".jsonl").string() : "FILE.jsonl";
    return unsupported(
        fmt::format("{}: a Parquet file, which is not read; convert it to JSON lines, and name {} instead: "
                    "pip install duckdb && python3 -c \"import duckdb; duckdb.sql('''COPY (FROM '{}') TO "
                    "'{}' (FORMAT json)''')\"",
                    name, to, from, to));
}

} // namespace

Result<std::unique_ptr<ByteStream>> ByteStream::open(const std::filesystem::path& path,
                                                     const DecompressionLimits& limits) {
    HK_ASSIGN(MappedFile file, MappedFile::open(path));
    const std::string_view bytes = file.text();
    if (bytes.starts_with("\x1F\x8B"))
        return std::unique_ptr<ByteStream>(std::make_unique<GzipStream>(std::move(file), path.string(), limits));
    if (bytes.starts_with("\x28\xB5\x2F\xFD"))
        return std::unique_ptr<ByteStream>(std::make_unique<ZstandardStream>(std::move(file), path.string(), limits));
    if (bytes.starts_with("PAR1")) return parquet_error(path);
    return std::unique_ptr<ByteStream>(std::make_unique<PlainStream>(std::move(file)));
}

} // namespace hekla::data
