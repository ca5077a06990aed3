#include "base/json.hpp"
#include "model/model_path.hpp"
#include "model/parameter_names.hpp"
#include "model/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

namespace hekla::model {
namespace {

using nlohmann::json;

// A tensor's entry in the header, before its bytes are checked.
struct HeaderEntry {
    TensorInfo info;
    uint64_t begin = 0;
    uint64_t end = 0;
};

// Reads the header as a stream of events instead of as a parsed value: a hostile header is refused at its first invalid
// token, and its depth (three levels) is bounded by the states, not by kJsonDepthLimit.
class HeaderReader : public nlohmann::json_sax<json> {
public:
    HeaderReader(std::vector<HeaderEntry>& entries, Metadata& metadata) : entries_(entries), metadata_(metadata) {}

    Status take_error() { return std::move(error_); }

    bool key(string_t& text) override {
        switch (state_) {
        case State::top: return tensor_name(text);
        case State::tensor: return field_name(text);
        case State::metadata: return metadata_key(text);
        default: return refuse("a key where none is expected");
        }
    }
    bool start_object(std::size_t) override {
        switch (state_) {
        case State::start: state_ = State::top; return true;
        case State::tensor_value: state_ = State::tensor; return true;
        case State::metadata_value: state_ = State::metadata; return true;
        default: return unexpected("an object");
        }
    }
    bool end_object() override {
        switch (state_) {
        case State::tensor: return finish_tensor();
        case State::metadata: state_ = State::top; return true;
        case State::top: state_ = State::done; return true;
        default: return unexpected("the end of an object");
        }
    }
    bool start_array(std::size_t) override {
        if (state_ == State::field && field_ == Field::shape) return state_ = State::shape, true;
        if (state_ == State::field && field_ == Field::data_offsets) return state_ = State::offsets, true;
        return unexpected("an array");
    }
    bool end_array() override {
        if (state_ == State::offsets && offsets_ != 2)
            return refuse(fmt::format("data_offsets has {} numbers, 2 were expected", offsets_));
        state_ = State::tensor;
        return true;
    }
    bool string(string_t& text) override {
        if (state_ == State::metadata_text) {
            metadata_.insert_or_assign(metadata_key_, std::move(text));
            state_ = State::metadata;
            return true;
        }
        if (state_ == State::field && field_ == Field::dtype) return dtype(text);
        return unexpected("text");
    }
    bool number_unsigned(number_unsigned_t value) override {
        if (state_ == State::shape) return dimension(value);
        if (state_ == State::offsets) return offset(value);
        return unexpected(fmt::format("the number {}", value));
    }
    bool number_integer(number_integer_t value) override {
        return in_numbers() ? refuse(fmt::format("{} has the number {}, which is negative", place(), value))
                            : unexpected(fmt::format("the number {}", value));
    }
    bool number_float(number_float_t, const string_t& text) override {
        return in_numbers() ? refuse(fmt::format("{} has the number {}, whole numbers below 2^63 were expected",
                                                 place(), in_quotes(text)))
                            : unexpected("a fractional number");
    }
    bool boolean(bool) override { return unexpected("a boolean"); }
    bool null() override { return unexpected("null"); }
    bool binary(binary_t&) override { return unexpected("binary data"); }
    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
        error_ = corrupt(fmt::format("the header is not JSON, at its byte {}: {}", position, json_reason(error)));
        return false;
    }

private:
    enum class State {
        start,
        top,
        tensor_value,
        tensor,
        field,
        shape,
        offsets,
        metadata_value,
        metadata,
        metadata_text,
        done
    };
    enum class Field { dtype = 1, shape = 2, data_offsets = 4 };

    bool in_numbers() const { return state_ == State::shape || state_ == State::offsets; }
    const char* place() const { return state_ == State::shape ? "shape" : "data_offsets"; }

    bool refuse(std::string reason) { return refuse(corrupt(std::move(reason))); }
    bool refuse(const Status& status) {
        error_ = in_tensor() ? status.with_context("tensor " + in_quotes(current_.info.name)) : status;
        return false;
    }
    bool in_tensor() const {
        return state_ == State::tensor_value || state_ == State::tensor || state_ == State::field || in_numbers();
    }
    bool unexpected(const std::string& what) {
        switch (state_) {
        case State::start: return refuse(fmt::format("the header is {}, a JSON object was expected", what));
        case State::tensor_value:
            return refuse(fmt::format("is {}, an object with dtype, shape and data_offsets was expected", what));
        case State::field:
            return refuse(field_ == Field::dtype   ? fmt::format("dtype is {}, text was expected", what)
                          : field_ == Field::shape ? fmt::format("shape is {}, an array was expected", what)
                                                   : fmt::format("data_offsets is {}, an array was expected", what));
        case State::shape:
        case State::offsets: return refuse(fmt::format("{} holds {}, whole numbers were expected", place(), what));
        case State::metadata_value: return refuse(fmt::format("__metadata__ is {}, an object was expected", what));
        case State::metadata_text:
            return refuse(fmt::format("__metadata__: {} is {}, text was expected", in_quotes(metadata_key_), what));
        default: return refuse(fmt::format("{} where none is expected", what));
        }
    }

    bool tensor_name(std::string& name) {
        if (name == "__metadata__") {
            if (std::exchange(metadata_seen_, true)) return refuse("__metadata__ occurs twice");
            state_ = State::metadata_value;
            return true;
        }
        if (name.empty()) return refuse("a tensor has an empty name");
        if (name.size() > kTensorNameLimit)
            return refuse(fmt::format("a tensor's name is {} bytes long, at most {} were expected: {}", name.size(),
                                      kTensorNameLimit, in_quotes(name)));
        if (!names_.insert(name).second) return refuse(fmt::format("tensor {} occurs twice", in_quotes(name)));
        current_ = {};
        current_.info.name = std::move(name);
        fields_ = 0;
        state_ = State::tensor_value;
        return true;
    }
    bool field_name(const std::string& name) {
        if (name == "dtype")
            field_ = Field::dtype;
        else if (name == "shape")
            field_ = Field::shape;
        else if (name == "data_offsets")
            field_ = Field::data_offsets;
        else
            return refuse(
                fmt::format("has a key {}, only dtype, shape and data_offsets were expected", in_quotes(name)));
        const int bit = static_cast<int>(field_);
        if ((fields_ & bit) != 0) return refuse(fmt::format("{} occurs twice", name));
        fields_ |= bit;
        offsets_ = 0;
        state_ = State::field;
        return true;
    }
    bool metadata_key(std::string& name) {
        if (metadata_.contains(name)) return refuse(fmt::format("__metadata__: {} occurs twice", in_quotes(name)));
        metadata_key_ = std::move(name);
        state_ = State::metadata_text;
        return true;
    }
    bool dtype(const std::string& name) {
        static constexpr std::string_view kOthers[] = {"U16",     "U32",     "U64",     "C64",     "F4",
                                                       "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E4M3", "F8_E8M0"};
        constexpr const char* kExpected = "expected one of BOOL U8 I8 I16 F16 BF16 I32 F32 F64 I64";
        if (const auto found = dtype_of_file_name(name))
            current_.info.dtype = *found;
        else if (std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers))
            return refuse(unsupported(fmt::format("dtype {} is not one that is read here, {}", name, kExpected)));
        else
            return refuse(fmt::format("dtype {} does not exist, {}", in_quotes(name), kExpected));
        state_ = State::tensor;
        return true;
    }
    bool dimension(uint64_t value) {
        if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
            return refuse(fmt::format("shape has the dimension {}, which is 2^63 or more", value));
        if (current_.info.dims.size() == kRankLimit)
            return refuse(fmt::format("shape has more than {} dimensions", kRankLimit));
        current_.info.dims.push_back(static_cast<int64_t>(value));
        return true;
    }
    bool offset(uint64_t value) {
        if (offsets_ == 2) return refuse("data_offsets has more than 2 numbers");
        (offsets_++ == 0 ? current_.begin : current_.end) = value;
        return true;
    }
    bool finish_tensor() {
        if ((fields_ & 1) == 0) return refuse("has no dtype");
        if ((fields_ & 2) == 0) return refuse("has no shape");
        if ((fields_ & 4) == 0) return refuse("has no data_offsets");
        entries_.push_back(std::move(current_));
        state_ = State::top;
        return true;
    }

    std::vector<HeaderEntry>& entries_;
    Metadata& metadata_;
    std::unordered_set<std::string> names_;
    State state_ = State::start;
    Field field_ = Field::dtype;
    int fields_ = 0; // which of a tensor's keys have occurred
    int offsets_ = 0;
    bool metadata_seen_ = false;
    HeaderEntry current_;
    std::string metadata_key_;
    Status error_;
};

Status read_header(std::string_view header, std::vector<HeaderEntry>& entries, Metadata& metadata) {
    try {
        HeaderReader reader(entries, metadata);
        if (!json::sax_parse(header, &reader)) return reader.take_error();
        if (const std::size_t nul = header.find('\0'); nul != header.npos) // which the library treats as the end
            return corrupt(fmt::format("the header is not JSON: its byte {} is NUL", nul + 1));
        return {};
    } catch (const std::bad_alloc&) {
        return out_of_memory(fmt::format("not enough memory to read a header of {} bytes", header.size()));
    } catch (const std::exception& error) {
        return internal_error(fmt::format("reading the header: {}", error.what()));
    }
}

// Checks one tensor against its own shape and the buffer.
Status check_entry(const HeaderEntry& entry, uint64_t buffer) {
    const std::string place =
        fmt::format("tensor {}: data_offsets [{}, {}]", in_quotes(entry.info.name), entry.begin, entry.end);
    if (entry.begin > entry.end) return corrupt(place + " run backwards");
    if (entry.end > buffer)
        return corrupt(
            fmt::format("{} end outside the {} bytes after the header: the file is truncated or the offset is wrong",
                        place, buffer));
    const auto expected = byte_count(entry.info.dtype, entry.info.dims);
    if (!expected.ok()) return corrupt(fmt::format("tensor {}: {}", in_quotes(entry.info.name), expected.message()));
    if (static_cast<uint64_t>(expected.value()) != entry.end - entry.begin)
        return corrupt(fmt::format("{} hold {} bytes, {} needs {}", place, entry.end - entry.begin,
                                   describe(entry.info), expected.value()));
    return {};
}

// Checks all tensors against each other: sorted by offset, each begins where the previous one ends.
Status check_tiling(const std::vector<HeaderEntry>& entries, uint64_t buffer) {
    uint64_t reached = 0;
    const HeaderEntry* before = nullptr;
    for (const HeaderEntry& entry : entries) {
        const std::string after = before ? "tensor " + in_quotes(before->info.name) : "the header";
        if (entry.begin < reached)
            return corrupt(fmt::format("tensor {}: begins at {}, inside {}, which ends at {}",
                                       in_quotes(entry.info.name), entry.begin, after, reached));
        if (entry.begin > reached)
            return corrupt(fmt::format("tensor {}: begins at {}, leaving a gap of {} bytes after {}",
                                       in_quotes(entry.info.name), entry.begin, entry.begin - reached, after));
        reached = entry.end;
        before = &entry;
    }
    if (reached != buffer)
        return corrupt(fmt::format("{} bytes follow the last tensor, none were expected", buffer - reached));
    return {};
}

Result<ParsedSafetensors> parse(std::span<const std::byte> bytes) {
    if (bytes.size() < 8)
        return corrupt(fmt::format("is {} bytes long, a safetensors file has at least 10", bytes.size()));
    uint64_t header_size = 0;
    std::memcpy(&header_size, bytes.data(), 8);
    if (header_size > kHeaderSizeLimit)
        return corrupt(fmt::format("declares a header of {} bytes, at most {} were expected: not a safetensors file?",
                                   header_size, kHeaderSizeLimit));
    if (header_size > bytes.size() - 8)
        return corrupt(fmt::format("declares a header of {} bytes, {} bytes follow: the file is truncated", header_size,
                                   bytes.size() - 8));
    const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8, header_size);
    if (!header.starts_with('{')) return corrupt("its header does not begin with '{': not a safetensors file?");
    const std::span<const std::byte> buffer = bytes.subspan(8 + header_size);

    std::vector<HeaderEntry> entries;
    ParsedSafetensors parsed;
    HK_TRY(read_header(header, entries, parsed.metadata));
    for (const HeaderEntry& entry : entries) HK_TRY(check_entry(entry, buffer.size()));
    std::stable_sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    HK_TRY(check_tiling(entries, buffer.size()));

    parsed.tensors.reserve(entries.size());
    for (HeaderEntry& entry : entries)
        parsed.tensors.push_back({std::move(entry.info), buffer.subspan(entry.begin, entry.end - entry.begin)});
    return parsed;
}

} // namespace

Result<ParsedSafetensors> parse_safetensors(std::span<const std::byte> bytes, const std::string& where) {
    auto parsed = parse(bytes);
    if (!parsed.ok()) return parsed.status().with_context(where);
    return parsed;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
    SafetensorsFile file;
    file.path_ = path;
    HK_ASSIGN(file.map_, MappedFile::open(path));
    HK_TRY(check_not_pointer(path, file.map_.text()));
    HK_ASSIGN(file.parsed_, parse_safetensors(file.map_.bytes(), path.string()));
    file.by_name_.reserve(file.parsed_.tensors.size());
    for (std::size_t i = 0; i < file.parsed_.tensors.size(); ++i)
        file.by_name_.emplace(file.parsed_.tensors[i].name, i);
    return file;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &parsed_.tensors[found->second];
}

Result<const TensorView*> SafetensorsFile::get(std::string_view name) const {
    if (const TensorView* view = find(name)) return view;
    return missing_tensor(path_.string(), name, parsed_.tensors);
}

} // namespace hekla::model
