#include "text/files/spiece_model.hpp"

#include "base/utf8.hpp"
#include "text/files/json_file.hpp"
#include "text/unicode/charsmap.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <unordered_set>

namespace hekla::text {
namespace {

// The fields of one protobuf message. After an error ok() and next() return false.
class Fields {
public:
    explicit Fields(std::string_view bytes) : rest_(bytes) {}

    bool next() {
        if (!ok_ || rest_.empty()) return false;
        const std::optional<uint64_t> tag = varint();
        if (!tag || (*tag >> 3) == 0) return fail();
        number_ = *tag >> 3;
        wire_ = *tag & 7;
        switch (wire_) {
        case 0: {
            const std::optional<uint64_t> value = varint();
            if (!value) return fail();
            integer_ = *value;
            return true;
        }
        case 1: return take(8);
        case 2: {
            const std::optional<uint64_t> size = varint();
            return size && *size <= rest_.size() ? take(*size) : fail();
        }
        case 5: return take(4);
        default: return fail();
        }
    }
    bool ok() const { return ok_; }
    uint64_t number() const { return number_; }
    bool is_integer() const { return wire_ == 0; }
    bool is_bytes() const { return wire_ == 2; }
    bool is_float() const { return wire_ == 5; }
    int32_t integer() const { return static_cast<int32_t>(integer_); }
    std::string_view bytes() const { return bytes_; }
    float real() const {
        float value = 0.0f;
        std::memcpy(&value, bytes_.data(), 4);
        return value;
    }

private:
    bool fail() {
        ok_ = false;
        return false;
    }
    bool take(uint64_t size) {
        if (size > rest_.size()) return fail();
        bytes_ = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
    }
    std::optional<uint64_t> varint() {
        uint64_t value = 0;
        for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(rest_.front());
            rest_.remove_prefix(1);
            value |= uint64_t{byte & 0x7Fu} << shift;
            if (byte < 0x80) return value;
        }
        return std::nullopt;
    }
    std::string_view rest_;
    bool ok_ = true;
    uint64_t number_ = 0;
    uint64_t wire_ = 0;
    uint64_t integer_ = 0;
    std::string_view bytes_;
};

Status bad(const std::string& name, const std::string& what) {
    return corrupt(fmt::format("{}: not a valid SentencePiece model: {}", name, what));
}

Status read_piece(std::string_view bytes, const std::string& name, SpieceModel& model) {
    SpieceModel::Piece piece;
    Fields fields(bytes);
    while (fields.next()) {
        if (fields.number() == 1 && fields.is_bytes()) piece.text = fields.bytes();
        if (fields.number() == 2 && fields.is_float()) piece.score = fields.real();
        if (fields.number() == 3 && fields.is_integer()) {
            if (fields.integer() < 1 || fields.integer() > 6)
                return bad(name,
                           fmt::format("piece {} is of the unknown type {}", model.pieces.size(), fields.integer()));
            piece.type = static_cast<SpieceModel::Type>(fields.integer());
        }
    }
    const std::size_t id = model.pieces.size();
    if (!fields.ok()) return bad(name, fmt::format("piece {} is damaged", id));
    if (piece.text.empty()) return bad(name, fmt::format("piece {} is empty", id));
    if (find_invalid_utf8(piece.text) != piece.text.size()) return bad(name, fmt::format("piece {} is not UTF-8", id));
    if (piece.text.find('\0') != std::string::npos) return bad(name, fmt::format("piece {} has a NUL in it", id));
    if (!std::isfinite(piece.score))
        return bad(name, fmt::format("the score of piece {} ({}) is not a finite number", id, json_quote(piece.text)));
    model.pieces.push_back(std::move(piece));
    return {};
}

bool read_trainer(std::string_view bytes, SpieceModel& model) {
    Fields fields(bytes);
    while (fields.next()) {
        if (!fields.is_integer()) continue;
        switch (fields.number()) {
        case 3:
            if (fields.integer() < 1 || fields.integer() > 4) return false;
            model.kind = static_cast<SpieceModel::Kind>(fields.integer());
            break;
        case 24: model.space_is_suffix = fields.integer() != 0; break;
        case 35: model.byte_fallback = fields.integer() != 0; break;
        case 40: model.unk_id = fields.integer(); break;
        case 41: model.bos_id = fields.integer(); break;
        case 42: model.eos_id = fields.integer(); break;
        case 43: model.pad_id = fields.integer(); break;
        default: break;
        }
    }
    return fields.ok();
}

bool read_normalizer(std::string_view bytes, SpieceModel& model) {
    Fields fields(bytes);
    while (fields.next()) {
        if (fields.number() == 2 && fields.is_bytes()) model.charsmap = fields.bytes();
        if (fields.number() == 3 && fields.is_integer()) model.add_dummy_prefix = fields.integer() != 0;
        if (fields.number() == 4 && fields.is_integer()) model.remove_extra_whitespaces = fields.integer() != 0;
    }
    return fields.ok() && Charsmap::is_sound(model.charsmap);
}

void put_varint(std::string& out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
    out.push_back(static_cast<char>(value));
}
void put_integer(std::string& out, uint64_t field, int64_t value) {
    put_varint(out, field << 3);
    put_varint(out, static_cast<uint64_t>(value));
}
void put_bytes(std::string& out, uint64_t field, std::string_view bytes) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.size());
    out.append(bytes);
}

} // namespace

Result<SpieceModel> read_spiece_model(std::string_view content, const std::string& name) {
    SpieceModel model;
    Fields fields(content);
    while (fields.next()) {
        if (!fields.is_bytes()) continue;
        if (fields.number() == 1) HK_TRY(read_piece(fields.bytes(), name, model));
        if (fields.number() == 2 && !read_trainer(fields.bytes(), model))
            return bad(name, "its trainer_spec is damaged");
        if (fields.number() == 3 && !read_normalizer(fields.bytes(), model))
            return bad(name, "its normalizer_spec is damaged");
        SpieceModel other;
        if (fields.number() == 5 && !read_normalizer(fields.bytes(), other))
            return bad(name, "its denormalizer_spec is damaged");
    }
    if (!fields.ok()) return bad(name, "it is truncated, or not a SentencePiece model at all");
    if (model.pieces.empty()) return bad(name, "it has no pieces");
    std::unordered_set<std::string_view> seen;
    std::size_t unknown = 0;
    for (const SpieceModel::Piece& piece : model.pieces) {
        if (!seen.insert(piece.text).second) return bad(name, fmt::format("two pieces are {}", json_quote(piece.text)));
        if (piece.type == SpieceModel::Type::unknown) ++unknown;
    }
    if (unknown != 1) return bad(name, fmt::format("it has {} unknown pieces, one was expected", unknown));
    return model;
}

std::string write_spiece_model(const SpieceModel& model) {
    std::string out;
    for (const SpieceModel::Piece& piece : model.pieces) {
        std::string one;
        put_bytes(one, 1, piece.text);
        put_varint(one, 2 << 3 | 5);
        one.append(reinterpret_cast<const char*>(&piece.score), 4);
        if (piece.type != SpieceModel::Type::normal) put_integer(one, 3, static_cast<int64_t>(piece.type));
        put_bytes(out, 1, one);
    }
    std::string trainer;
    put_integer(trainer, 3, static_cast<int64_t>(model.kind));
    put_integer(trainer, 4, static_cast<int64_t>(model.pieces.size()));
    put_integer(trainer, 24, model.space_is_suffix ? 1 : 0);
    put_integer(trainer, 35, model.byte_fallback ? 1 : 0);
    put_integer(trainer, 40, model.unk_id);
    put_integer(trainer, 41, model.bos_id);
    put_integer(trainer, 42, model.eos_id);
    put_integer(trainer, 43, model.pad_id);
    put_bytes(out, 2, trainer);
    std::string normalizer;
    put_bytes(normalizer, 1, model.charsmap.empty() ? "identity" : "user_defined");
    put_bytes(normalizer, 2, model.charsmap);
    put_integer(normalizer, 3, model.add_dummy_prefix ? 1 : 0);
    put_integer(normalizer, 4, model.remove_extra_whitespaces ? 1 : 0);
    put_integer(normalizer, 5, 1);
    put_bytes(out, 3, normalizer);
    return out;
}

} // namespace hekla::text
