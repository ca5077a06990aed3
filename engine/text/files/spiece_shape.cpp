#include "text/files/spiece_shape.hpp"

#include "base/utf8.hpp"

#include <fmt/format.h>
#include <unordered_map>
#include <unordered_set>

namespace hekla::text {
namespace {

bool read_shape(const NormalizerStep& step, SpieceShape& shape) {
    using Kind = NormalizerStep::Kind;
    TextPreparation& before = shape.preparation;
    switch (step.kind) {
    case Kind::precompiled: shape.model.charsmap = step.charsmap_bytes; return true;
    case Kind::form: before.decompose = true; return step.form == NormalForm::nfkd;
    case Kind::strip_accents: before.strip_accents = true; return true;
    case Kind::lower_case: before.lower_case = true; return true;
    case Kind::prepend: shape.model.add_dummy_prefix = true; return step.content == kSpacePiece;
    case Kind::replace:
        if (step.pattern.text() == "``" || step.pattern.text() == "''") {
            before.quotes = true;
            return step.content == "\"";
        }
        if (step.pattern.regex() != nullptr && step.pattern.regex()->expression() == " {2,}") {
            shape.squeezed = step.content;
            return true;
        }
        return step.pattern.text() == " " && step.content == kSpacePiece;
    default: return false;
    }
}

bool read_shape(const PreTokenizer& splits, SpieceShape& shape) {
    SpieceModel& model = shape.model;
    const std::vector<PreTokenizerStep>& steps = splits.steps();
    if (steps.empty()) { // Llama: the normalizer inserts the mark
        model.remove_extra_whitespaces = false;
        return true;
    }
    const PreTokenizerStep& last = steps.back();
    if (steps.size() > 2 || last.kind != PreTokenizerStep::Kind::metaspace || last.replacement != kSpacePiece ||
        !last.splits_words)
        return false;
    model.add_dummy_prefix = model.remove_extra_whitespaces = true;
    using Prepend = PreTokenizerStep::Prepend;
    if (steps.size() == 1) {
        shape.spaces = last.prepend == Prepend::always  ? SpaceRule::always
                       : last.prepend == Prepend::first ? SpaceRule::first
                                                        : SpaceRule::never;
        return true;
    }
    // With a map, white space is a space before it is split; without one, WhitespaceSplit splits elsewhere as well.
    const PreTokenizerStep& first = steps.front();
    const bool by_space = first.type == "Split" && !first.invert && first.splits.front().first.regex() != nullptr &&
                          first.splits.front().first.regex()->expression() == kSpieceSpaces &&
                          first.splits.front().second == SplitBehavior::removed;
    shape.squeezed.clear(); // no repeated spaces remain
    return last.prepend == Prepend::always &&
           (by_space || (!model.charsmap.empty() && first.type == "WhitespaceSplit"));
}

// Returns whether every way to make a piece of two is a merge, as in files that were converted from scores.
bool is_closed(const SpieceModel& model, const Vocabulary& vocabulary, std::span<const Merge> merges) {
    std::unordered_set<uint64_t> pairs;
    std::unordered_set<int32_t> made;
    const auto key = [](int32_t left, int32_t right) {
        return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    };
    for (const Merge& merge : merges) {
        pairs.insert(key(merge.left, merge.right));
        made.insert(merge.result);
    }
    for (const int32_t id : made) {
        const std::string_view text = vocabulary.token(id);
        for (std::size_t cut = 1; cut < text.size(); ++cut) {
            if ((static_cast<unsigned char>(text[cut]) & 0xC0u) == 0x80u) continue;
            const std::optional<int32_t> left = vocabulary.find_in_model(text.substr(0, cut)),
                                         right = vocabulary.find_in_model(text.substr(cut));
            const auto is_normal = [&](const std::optional<int32_t>& one) {
                return one && model.pieces[static_cast<std::size_t>(*one)].type == SpieceModel::Type::normal &&
                       (made.contains(*one) ||
                        first_code_point(vocabulary.token(*one)).size == vocabulary.token(*one).size());
            };
            if (is_normal(left) && is_normal(right) && !pairs.contains(key(*left, *right))) return false;
        }
    }
    return true;
}

bool read_pieces(const Pipeline& pipeline, const Vocabulary& vocabulary, const WordModelTables& tables,
                 SpieceModel& model) {
    using Type = SpieceModel::Type;
    const WordModelOptions& options = pipeline.model();
    const bool is_unigram = options.type == WordModelOptions::Type::unigram;
    const std::optional<int32_t> unknown =
        is_unigram ? std::optional(options.unknown_id) : vocabulary.find_in_model(options.unknown);
    if (!unknown || *unknown < 0) return false;
    model.byte_fallback = options.byte_fallback;
    for (int32_t id = 0; id < vocabulary.size() && vocabulary.is_in_model(id); ++id) {
        SpieceModel::Piece piece{std::string(vocabulary.token(id)), 0.0f, Type::normal};
        if (is_unigram) piece.score = static_cast<float>(tables.scores[static_cast<std::size_t>(id)]);
        if (id == *unknown)
            piece.type = Type::unknown;
        else if (options.byte_fallback && piece.text.size() == 6 && piece.text.starts_with("<0x"))
            piece.type = Type::byte;
        else if (vocabulary.is_special(id))
            piece.type = Type::control;
        model.pieces.push_back(std::move(piece));
    }
    for (int32_t id = static_cast<int32_t>(model.pieces.size()); id < vocabulary.size(); ++id)
        if (vocabulary.is_in_model(id)) return false; // a gap
    if (is_unigram) return true;
    if (!options.prefix.empty() || !options.suffix.empty() || options.ignore_merges) return false;
    model.kind = SpieceModel::Kind::bpe;
    // A piece scores higher the earlier its first merge is; a piece without a merge never occurs.
    std::vector<bool> made(model.pieces.size(), false);
    float rank = 0.0f;
    for (const Merge& merge : tables.merges.list()) {
        rank -= 1.0f;
        const auto id = static_cast<std::size_t>(merge.result);
        if (id >= made.size()) return false;
        if (!made[id]) model.pieces[id].score = rank;
        made[id] = true;
    }
    for (std::size_t id = 0; id < model.pieces.size(); ++id) {
        SpieceModel::Piece& piece = model.pieces[id];
        const bool one = first_code_point(piece.text).size == piece.text.size();
        if (piece.type == Type::normal && !made[id] && !one) piece.type = Type::control;
        if (one) piece.score = rank - 1.0f;
    }
    return is_closed(model, vocabulary, tables.merges.list());
}

} // namespace

std::optional<SpieceShape> spiece_shape(const Pipeline& pipeline, const Vocabulary& vocabulary,
                                        const WordModelTables& tables) {
    using Type = WordModelOptions::Type;
    if (pipeline.model().type != Type::unigram && pipeline.model().type != Type::bpe) return std::nullopt;
    SpieceShape shape;
    shape.model.add_dummy_prefix = shape.model.remove_extra_whitespaces = false;
    for (const NormalizerStep& step : pipeline.normalizer().steps())
        if (!read_shape(step, shape)) return std::nullopt;
    if (!read_shape(pipeline.pre_tokenizer(), shape)) return std::nullopt;
    if (!read_pieces(pipeline, vocabulary, tables, shape.model)) return std::nullopt;
    return shape;
}

std::optional<SpieceModel> spiece_model_of(const Pipeline& pipeline, const Vocabulary& vocabulary,
                                           const WordModelTables& tables) {
    SpieceModel model;
    return read_pieces(pipeline, vocabulary, tables, model) ? std::optional(std::move(model)) : std::nullopt;
}

std::string spiece_identity(const SpieceShape& shape, const Vocabulary& vocabulary, std::span<const int32_t> ids) {
    const TextPreparation& before = shape.preparation;
    std::string identity =
        fmt::format("sentencepiece/1 {} {} {} {} {} {}\n", before.quotes, before.decompose, before.strip_accents,
                    before.lower_case, static_cast<int32_t>(shape.spaces), shape.squeezed);
    vocabulary.append_identity(identity);
    for (const int32_t id : ids) identity += fmt::format("{} ", id);
    SpieceModel cutting = shape.model; // roles of ids are defined by the vocabulary
    cutting.unk_id = cutting.bos_id = cutting.eos_id = cutting.pad_id = 0;
    return identity + write_spiece_model(cutting);
}

} // namespace hekla::text
