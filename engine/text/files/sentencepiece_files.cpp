#include "text/files/sentencepiece_files.hpp"

#include "base/file.hpp"
#include "text/files/special_files.hpp"
#include "text/files/text_frame_files.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/files/wordpiece_files.hpp"
#include "text/frame_shapes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <unordered_map>

namespace hekla::text {
namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_base64(std::string_view bytes) {
    std::string out;
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i)
            group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
        for (std::size_t i = 0; i < 4; ++i) out += at + i > bytes.size() ? '=' : kBase64[group >> (18 - 6 * i) & 63u];
    }
    return out;
}

std::optional<std::string> from_base64(std::string_view text) {
    std::string out;
    uint32_t group = 0;
    unsigned bits = 0;
    while (text.ends_with('=')) text.remove_suffix(1);
    for (const char c : text) {
        const std::size_t value = kBase64.find(c);
        if (value == std::string_view::npos) return std::nullopt;
        group = group << 6 | static_cast<uint32_t>(value);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        out.push_back(static_cast<char>(static_cast<unsigned char>(group >> bits & 0xFFu)));
    }
    return out;
}

Result<Json> read_optional_object(const FilePlace& path) {
    if (!path.exists()) return Json(Json::object());
    return read_json_object(path);
}

// The model's family and tokenizer_config.json, from its folder.
struct Family {
    std::string name;
    Json config; // tokenizer_config.json
    std::string config_name;
};

Result<Family> family_of(const FilePlace& folder) {
    Family family;
    family.config_name = (folder / "tokenizer_config.json").string();
    HK_ASSIGN(family.config, read_optional_object(folder / "tokenizer_config.json"));
    HK_ASSIGN(family.name, tokenizer_family(folder));
    return family;
}

Status read_preparation(const Family& family, TextPreparation& preparation) {
    if (family.name != "Albert" && family.name != "XLNet") return {};
    HK_ASSIGN(const bool keep_accents, json_bool(family.config, "keep_accents", false, family.config_name));
    HK_ASSIGN(preparation.lower_case,
              json_bool(family.config, "do_lower_case", family.name == "Albert", family.config_name));
    preparation.quotes = true;
    preparation.decompose = preparation.strip_accents = !keep_accents;
    return {};
}

// Adds T5's sentinels after the pieces, in descending order.
Status add_sentinels(const Family& family, Vocabulary& vocabulary) {
    const Json& count = member(family.config, "extra_ids");
    if (family.name != "T5" && count.is_null()) return {};
    if (family.config.contains("added_tokens_decoder") || vocabulary.find("<extra_id_0>")) return {};
    int32_t sentinels = 100;
    if (!count.is_null()) { HK_ASSIGN(sentinels, json_token_id(count, "extra_ids", family.config_name)); }
    if (sentinels > 10'000) return corrupt(fmt::format("{}: \"extra_ids\" is {}", family.config_name, sentinels));
    for (int32_t n = sentinels; n-- > 0;) HK_TRY(vocabulary.add_special({fmt::format("<extra_id_{}>", n), {}}));
    return {};
}

// Sets roles by HF's names if no file defines them: a family's [CLS] also begins a text, and its [SEP] ends it.
Status set_family_roles(const Family& family, Vocabulary& vocabulary) {
    if (family.name == "DebertaV2" && !vocabulary.role(TokenRole::mask)) // not a piece
        return vocabulary.add_special({"[MASK]", {TokenRole::mask}});
    if (family.name != "Albert") return {};
    for (const auto& [role, name] :
         {std::pair(TokenRole::bos, "[CLS]"), std::pair(TokenRole::eos, "[SEP]"), std::pair(TokenRole::mask, "[MASK]")})
        if (!vocabulary.role(role) && vocabulary.find(name)) HK_TRY(vocabulary.add_special({name, {role}}));
    return {};
}

// ---- tokenizer.json ----------------------------------------------------------------------------------------------

struct ReadJson {
    SpieceModel model;
    SentencePieceOptions options;
};

Status read_normalizer_step(const Json& step, const std::string& name, ReadJson& out) {
    HK_ASSIGN(const std::string type, type_of(step, "normalizer", name));
    TextPreparation& before = out.options.preparation;
    if (type == "Sequence") {
        const Json& steps = member(step, "normalizers");
        if (!steps.is_array()) return corrupt(fmt::format("{}: \"normalizers\" is not a list", name));
        for (const Json& inner : steps) HK_TRY(read_normalizer_step(inner, name, out));
        return {};
    }
    if (type == "Precompiled") {
        const Json& map = member(step, "precompiled_charsmap");
        if (map.is_null()) return {};
        const std::optional<std::string> bytes =
            map.is_string() ? from_base64(map.get_ref<const std::string&>()) : std::nullopt;
        if (!bytes || !Charsmap::is_sound(*bytes))
            return corrupt(fmt::format("{}: the normalizer's \"precompiled_charsmap\" is damaged", name));
        out.model.charsmap = *bytes;
        return {};
    }
    if (type == "NFKD") {
        before.decompose = true;
        return {};
    }
    if (type == "StripAccents") {
        before.strip_accents = true;
        return {};
    }
    if (type == "Lowercase") {
        before.lower_case = true;
        return {};
    }
    if (type == "Prepend" && member(step, "prepend") == kSpacePiece) {
        out.model.add_dummy_prefix = true;
        return {};
    }
    if (type == "Replace") {
        const Json& pattern = member(step, "pattern");
        const Json& text = pattern.is_object() ? member(pattern, "String") : pattern;
        const Json& content = member(step, "content");
        if ((text == "``" || text == "''") && content == "\"") {
            before.quotes = true;
            return {};
        }
        if (text == " " && content == kSpacePiece) return {};
        if (pattern.is_object() && member(pattern, "Regex") == " {2,}" && content.is_string()) {
            out.options.squeezed = content.get<std::string>();
            return {};
        }
    }
    return not_done(name, "normalizer", step.dump(),
                    "Precompiled, NFKD, StripAccents, Lowercase, and the replacements of ALBERT, T5 and Llama");
}

Status read_metaspace(const Json& step, const std::string& name, SpaceRule& rule) {
    HK_ASSIGN(const std::string mark, json_string(step, "replacement", std::string(kSpacePiece), name));
    if (mark != kSpacePiece) return not_done(name, "replacement", json_quote(mark), "U+2581");
    HK_ASSIGN(const bool prefix, json_bool(step, "add_prefix_space", true, name));
    HK_ASSIGN(const std::string scheme, json_string(step, "prepend_scheme", prefix ? "always" : "never", name));
    if (scheme != "always" && scheme != "first" && scheme != "never")
        return not_done(name, "prepend_scheme", json_quote(scheme), "always, first, never");
    rule = scheme == "always" ? SpaceRule::always : scheme == "first" ? SpaceRule::first : SpaceRule::never;
    return {};
}

// Reads WhitespaceSplit and Metaspace (SentencePiece's own behavior), Metaspace alone (all spaces are kept), or
// nothing.
Status read_spaces(const Json& json, const std::string& name, ReadJson& out) {
    const char* done = "WhitespaceSplit and Metaspace, or Metaspace";
    const Json& section = member(json, "pre_tokenizer");
    if (section.is_null()) { // Llama: the normalizer inserts U+2581
        out.model.remove_extra_whitespaces = false;
        return {};
    }
    HK_ASSIGN(const std::string type, type_of(section, "pre_tokenizer", name));
    std::vector<Json> steps = {section};
    if (type == "Sequence") {
        const Json& list = member(section, "pretokenizers");
        if (!list.is_array()) return not_done(name, "pre_tokenizer", section.dump(), done);
        steps.clear();
        for (const Json& step : list) steps.push_back(step);
    }
    bool split = false, metaspace = false;
    SpaceRule rule = SpaceRule::always;
    for (const Json& step : steps) {
        HK_ASSIGN(const std::string kind, type_of(step, "pretokenizers", name));
        if (kind == "WhitespaceSplit" && !metaspace) {
            split = true;
        } else if (kind == "Metaspace" && !metaspace) {
            metaspace = true;
            HK_TRY(read_metaspace(step, name, rule));
        } else {
            return not_done(name, "pre_tokenizer", section.dump(), done);
        }
    }
    if (!metaspace || (split && rule != SpaceRule::always))
        return not_done(name, "pre_tokenizer", section.dump(), done);
    out.options.spaces = split ? SpaceRule::model : rule;
    out.model.add_dummy_prefix = out.model.remove_extra_whitespaces = true;
    if (split) out.options.squeezed.clear(); // no repeated spaces remain
    return {};
}

Result<std::unique_ptr<Tokenizer>> finish_json(ReadJson read, const Json& json, const FilePlace& path) {
    const std::string name = path.string();
    if (const Json& post = member(json, "post_processor"); !post.is_null()) read.options.post_processor = post.dump();
    // A special token that is also a piece is a control piece.
    std::unordered_map<std::string, SpieceModel::Piece*> by_text;
    for (SpieceModel::Piece& piece : read.model.pieces) by_text[piece.text] = &piece;
    if (const Json& added = member(json, "added_tokens"); added.is_array())
        for (const Json& token : added) {
            if (!token.is_object() || !member(token, "content").is_string()) continue; // reported below
            const auto found = by_text.find(member(token, "content").get<std::string>());
            if (found != by_text.end() && member(token, "special") == true &&
                found->second->type == SpieceModel::Type::normal)
                found->second->type = SpieceModel::Type::control;
        }
    HK_ASSIGN(read.model, read_spiece_model(write_spiece_model(read.model), name)); // for the same checks as a file
    HK_ASSIGN(const Family family, family_of(path.parent_path()));
    Result<Vocabulary> vocabulary = spiece_vocabulary(read.model);
    if (!vocabulary.ok()) return vocabulary.status().with_context(name);
    Vocabulary& tokens = vocabulary.value();
    if (const Json& added = member(json, "added_tokens"); added.is_array()) {
        Json fresh = Json::object();
        fresh["added_tokens"] = Json::array();
        for (const Json& token : added) {
            const bool known = token.is_object() && member(token, "content").is_string() &&
                               tokens.find(member(token, "content").get<std::string>()) == member(token, "id") &&
                               tokens.is_added(member(token, "id").get<int32_t>());
            if (!known) fresh["added_tokens"].push_back(token);
        }
        HK_TRY(read_added_tokens(fresh, name, tokens));
    }
    HK_TRY(read_special_files(path.parent_path(), tokens));
    HK_TRY(set_family_roles(family, tokens));
    HK_TRY(set_bert_roles(tokens));
    HK_TRY(read_text_frame(path.parent_path(), member(json, "post_processor"), tokens));
    return SentencePiece::create(std::move(tokens), std::move(read.model), std::move(read.options));
}

std::string normalizer_json(const SpieceModel& model, const SentencePieceOptions& options) {
    std::string steps;
    const auto add = [&](const std::string& step) { steps += (steps.empty() ? "" : ", ") + step; };
    const TextPreparation& before = options.preparation;
    if (before.quotes) {
        add(R"({"type": "Replace", "pattern": {"String": "``"}, "content": "\""})");
        add(R"({"type": "Replace", "pattern": {"String": "''"}, "content": "\""})");
    }
    if (before.decompose) add(R"({"type": "NFKD"})");
    if (before.strip_accents) add(R"({"type": "StripAccents"})");
    if (before.lower_case) add(R"({"type": "Lowercase"})");
    if (!model.charsmap.empty())
        add(fmt::format(R"({{"type": "Precompiled", "precompiled_charsmap": "{}"}})", to_base64(model.charsmap)));
    if (!options.squeezed.empty())
        add(fmt::format(R"({{"type": "Replace", "pattern": {{"Regex": " {{2,}}"}}, "content": {}}})",
                        json_quote(options.squeezed)));
    return steps.empty() ? "null" : fmt::format(R"({{"type": "Sequence", "normalizers": [{}]}})", steps);
}

std::string metaspace_json(const char* scheme) {
    return fmt::format(R"({{"type": "Metaspace", "replacement": "{}", "prepend_scheme": "{}", "split": true}})",
                       kSpacePiece, scheme);
}

// Returns BPE's merges, which are implicit in a model's file: every way to make a piece out of two, in the order of the
// pieces' scores.
std::string merges_json(const SpieceModel& model) {
    std::unordered_map<std::string_view, std::size_t> ids;
    for (std::size_t id = 0; id < model.pieces.size(); ++id)
        if (model.pieces[id].type == SpieceModel::Type::normal) ids.emplace(model.pieces[id].text, id);
    struct Pair {
        std::size_t whole, left, right;
    };
    std::vector<Pair> pairs;
    for (const auto& [text, id] : ids)
        for (std::size_t cut = 1; cut < text.size(); ++cut) {
            const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
            if (left != ids.end() && right != ids.end()) pairs.push_back({id, left->second, right->second});
        }
    std::ranges::sort(pairs, [&](const Pair& a, const Pair& b) {
        const float x = model.pieces[a.whole].score, y = model.pieces[b.whole].score;
        if (x != y) return x > y;
        return std::tie(a.whole, a.left, a.right) < std::tie(b.whole, b.left, b.right);
    });
    std::string out;
    for (const Pair& pair : pairs)
        out += fmt::format("{}\n      {}", out.empty() ? "" : ",",
                           json_quote(model.pieces[pair.left].text + ' ' + model.pieces[pair.right].text));
    return out;
}

} // namespace

Result<std::unique_ptr<Tokenizer>> read_spiece_file(const FilePlace& path) {
    HK_ASSIGN(const std::string content, path.read());
    HK_ASSIGN(SpieceModel model, read_spiece_model(content, path.string()));
    Result<Vocabulary> vocabulary = spiece_vocabulary(model);
    if (!vocabulary.ok()) return vocabulary.status().with_context(path.string());
    const FilePlace folder = path.parent_path();
    HK_ASSIGN(const Family family, family_of(folder));
    SentencePieceOptions options;
    HK_TRY(read_preparation(family, options.preparation));
    if (!family.name.empty()) options.tokenizer_class = family.name + "Tokenizer";
    HK_TRY(add_sentinels(family, vocabulary.value()));
    HK_TRY(read_special_files(folder, vocabulary.value()));
    HK_TRY(set_family_roles(family, vocabulary.value()));
    HK_TRY(set_bert_roles(vocabulary.value()));
    HK_TRY(read_text_frame(folder, Json(), vocabulary.value()));
    Result<std::unique_ptr<Tokenizer>> tokenizer =
        SentencePiece::create(vocabulary.take(), std::move(model), std::move(options));
    return tokenizer.ok() ? std::move(tokenizer) : tokenizer.status().with_context(path.string());
}

Result<std::unique_ptr<Tokenizer>> read_marian_file(const FilePlace& path) {
    const FilePlace folder = path.parent_path();
    SentencePieceOptions options;
    SharedVocabulary& shared = options.shared.emplace();
    shared.is_target = path.filename() == "target.spm";
    options.tokenizer_class = "MarianTokenizer";
    HK_ASSIGN(const std::string content, path.read());
    HK_ASSIGN(SpieceModel model, read_spiece_model(content, path.string()));
    const FilePlace other = folder / (shared.is_target ? "source.spm" : "target.spm");
    HK_ASSIGN(shared.other_model, other.read());
    HK_TRY(read_spiece_model(shared.other_model, other.string()).status());

    const std::string name = (folder / "vocab.json").string();
    Json whole = Json::object();
    HK_ASSIGN(whole["vocab"], read_json_object(folder / "vocab.json"));
    Vocabulary vocabulary;
    HK_TRY(read_model_vocabulary(whole, name, [&](const std::string& token, int32_t id) {
        const Status status = vocabulary.add(id, token, spaces_of(token));
        return status.ok() ? status : status.with_context(name);
    }));
    for (const auto& [token, role] :
         {std::pair("</s>", TokenRole::eos), std::pair("<unk>", TokenRole::unk), std::pair("<pad>", TokenRole::pad)}) {
        if (!vocabulary.find(token)) return corrupt(fmt::format("{}: has no {}", name, json_quote(token)));
        HK_TRY(vocabulary.add_special({token, {role}}));
    }
    HK_TRY(read_special_files(folder, vocabulary));
    HK_TRY(vocabulary.set_frame(t5_frame(*vocabulary.role(TokenRole::eos)))); // Marian's class, with no other files
    for (const SpieceModel::Piece& piece : model.pieces)
        shared.ids.push_back(vocabulary.find(piece.text).value_or(*vocabulary.role(TokenRole::unk)));
    return SentencePiece::create(std::move(vocabulary), std::move(model), std::move(options));
}

Result<std::unique_ptr<Tokenizer>> read_unigram_json(const Json& json, const FilePlace& path) {
    const std::string name = path.string();
    const Json& model = member(json, "model");
    ReadJson read;
    read.model.add_dummy_prefix = read.model.remove_extra_whitespaces = false;
    if (const Json& normalizer = member(json, "normalizer"); !normalizer.is_null())
        HK_TRY(read_normalizer_step(normalizer, name, read));
    HK_TRY(read_spaces(json, name, read));
    HK_ASSIGN(read.model.byte_fallback, json_bool(model, "byte_fallback", false, name));
    const Json& vocab = member(model, "vocab");
    if (!vocab.is_array() || vocab.empty())
        return corrupt(fmt::format("{}: \"model.vocab\" is not a list of tokens and scores", name));
    for (const Json& entry : vocab) {
        if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
            return corrupt(
                fmt::format("{}: entry {} of \"model.vocab\" is not [token, score]", name, read.model.pieces.size()));
        read.model.pieces.push_back({entry[0].get<std::string>(), entry[1].get<float>(), SpieceModel::Type::normal});
    }
    const Json& unknown = member(model, "unk_id");
    HK_ASSIGN(read.model.unk_id, json_token_id(unknown, "unk_id", name));
    if (static_cast<std::size_t>(read.model.unk_id) >= read.model.pieces.size())
        return corrupt(fmt::format("{}: \"unk_id\" is {}, the vocabulary has {}", name, read.model.unk_id,
                                   read.model.pieces.size()));
    read.model.pieces[static_cast<std::size_t>(read.model.unk_id)].type = SpieceModel::Type::unknown;
    if (read.model.byte_fallback)
        for (SpieceModel::Piece& piece : read.model.pieces)
            if (piece.text.size() == 6 && piece.text.starts_with("<0x")) piece.type = SpieceModel::Type::byte;
    read.model.bos_id = read.model.eos_id = read.model.pad_id = -1; // roles are set by name and from the other files
    return finish_json(std::move(read), json, path);
}

bool is_sentencepiece_bpe(const Json& json) {
    const std::string split = member(json, "pre_tokenizer").dump();
    if (split.find("\"ByteLevel\"") != std::string::npos) return false;
    return member(member(json, "model"), "byte_fallback") == true || split.find("\"Metaspace\"") != std::string::npos ||
           member(json, "normalizer").dump().find("\"Prepend\"") != std::string::npos;
}

Result<std::unique_ptr<Tokenizer>> read_sentencepiece_bpe_json(const Json& json, const FilePlace& path) {
    const std::string name = path.string();
    const Json& model = member(json, "model");
    ReadJson read;
    read.model.kind = SpieceModel::Kind::bpe;
    read.model.add_dummy_prefix = read.model.remove_extra_whitespaces = false;
    if (const Json& normalizer = member(json, "normalizer"); !normalizer.is_null())
        HK_TRY(read_normalizer_step(normalizer, name, read));
    HK_TRY(read_spaces(json, name, read));
    HK_ASSIGN(read.model.byte_fallback, json_bool(model, "byte_fallback", false, name));
    HK_ASSIGN(const std::string unknown, json_string(model, "unk_token", "", name));
    Status gap;
    HK_TRY(read_model_vocabulary(model, name, [&](const std::string& token, int32_t id) {
        if (static_cast<std::size_t>(id) != read.model.pieces.size())
            return unsupported(fmt::format("{}: no token has id {}; a SentencePiece model has no gaps", name,
                                           read.model.pieces.size()));
        SpieceModel::Piece piece{token, 0.0f, SpieceModel::Type::normal};
        if (token == unknown) piece.type = SpieceModel::Type::unknown;
        if (read.model.byte_fallback && token.size() == 6 && token.starts_with("<0x"))
            piece.type = SpieceModel::Type::byte;
        read.model.pieces.push_back(std::move(piece));
        return Status();
    }));
    std::unordered_map<std::string, std::size_t> ids;
    for (std::size_t id = 0; id < read.model.pieces.size(); ++id) ids[read.model.pieces[id].text] = id;
    const Json& merges = member(model, "merges");
    if (!merges.is_array()) return corrupt(fmt::format("{}: \"model.merges\" is not a list", name));
    // A piece scores higher the earlier its first merge is; a piece without a merge never occurs.
    std::vector<bool> made(read.model.pieces.size(), false);
    float rank = 0.0f;
    for (const Json& merge : merges) {
        std::string whole;
        if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
            whole = merge[0].get<std::string>() + merge[1].get<std::string>();
        } else if (merge.is_string()) {
            whole = merge.get<std::string>();
            const std::size_t space = whole.find(' ');
            if (space != std::string::npos) whole.erase(space, 1);
        }
        const auto found = ids.find(whole);
        if (whole.empty() || found == ids.end())
            return corrupt(fmt::format("{}: the merge {} makes no token of the vocabulary", name, merge.dump()));
        rank -= 1.0f;
        if (!made[found->second]) read.model.pieces[found->second].score = rank;
        made[found->second] = true;
    }
    for (std::size_t id = 0; id < read.model.pieces.size(); ++id) {
        SpieceModel::Piece& piece = read.model.pieces[id];
        const bool one = first_code_point(piece.text).size == piece.text.size();
        if (piece.type == SpieceModel::Type::normal && !made[id] && !one) piece.type = SpieceModel::Type::control;
        if (one) piece.score = rank - 1.0f;
    }
    const auto id_of = [&](const char* token) {
        const auto found = ids.find(token);
        return found == ids.end() ? -1 : static_cast<int32_t>(found->second);
    };
    read.model.unk_id = id_of(unknown.c_str());
    if (read.model.unk_id < 0)
        return unsupported(fmt::format("{}: the vocabulary has no unknown token (\"unk_token\"), which BPE with "
                                       "Metaspace needs",
                                       name));
    read.model.bos_id = id_of("<s>");
    read.model.eos_id = id_of("</s>");
    return finish_json(std::move(read), json, path);
}

std::string SentencePiece::to_json() const {
    const Vocabulary& tokens = vocabulary();
    const bool plain = options_.spaces == SpaceRule::model; // WhitespaceSplit does what the model's flags define
    if (plain && model_.add_dummy_prefix != model_.remove_extra_whitespaces && !model_.add_dummy_prefix) return {};
    if (model_.space_is_suffix || options_.shared) return {};
    std::string split, prefix = "never";
    if (plain && model_.remove_extra_whitespaces) {
        split = fmt::format(R"({{"type": "Sequence", "pretokenizers": [{{"type": "WhitespaceSplit"}}, {}]}})",
                            metaspace_json("always"));
        prefix = "always";
    } else if (plain) { // spaces are kept, and one is inserted before every text
        split = "null";
    } else {
        prefix = options_.spaces == SpaceRule::always  ? "always"
                 : options_.spaces == SpaceRule::first ? "first"
                                                       : "never";
        split = metaspace_json(prefix.c_str());
    }
    std::string normalizer = normalizer_json(model_, options_);
    if (split == "null") {
        if (normalizer != "null") return {};
        normalizer = fmt::format(
            R"({{"type": "Sequence", "normalizers": [{}{{"type": "Replace", "pattern": )"
            R"({{"String": " "}}, "content": "{}"}}]}})",
            model_.add_dummy_prefix ? fmt::format(R"({{"type": "Prepend", "prepend": "{}"}}, )", kSpacePiece) : "",
            kSpacePiece);
    }
    std::string model;
    if (model_.kind == SpieceModel::Kind::unigram) {
        std::string list;
        for (const SpieceModel::Piece& piece : model_.pieces)
            list += fmt::format("{}\n      [{}, {}]", list.empty() ? "" : ",", json_quote(piece.text), piece.score);
        model = fmt::format("{{\n    \"type\": \"Unigram\",\n    \"unk_id\": {},\n    \"byte_fallback\": {},\n    "
                            "\"vocab\": [{}\n    ]\n  }}",
                            tokens.role(TokenRole::unk).value_or(0), yes(model_.byte_fallback), list);
    } else if (model_.kind == SpieceModel::Kind::bpe) {
        std::string list;
        for (std::size_t id = 0; id < model_.pieces.size(); ++id)
            list += fmt::format("{}\n      {}: {}", list.empty() ? "" : ",", json_quote(model_.pieces[id].text), id);
        const std::optional<int32_t> unknown = tokens.role(TokenRole::unk);
        model = fmt::format("{{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": {},\n    "
                            "\"fuse_unk\": true,\n    \"byte_fallback\": {},\n    \"vocab\": {{{}\n    }},\n    "
                            "\"merges\": [{}\n    ]\n  }}",
                            unknown ? json_quote(tokens.token(*unknown)) : "null", yes(model_.byte_fallback), list,
                            merges_json(model_));
    } else {
        return {};
    }
    const std::string decoder =
        model_.byte_fallback || split == "null"
            ? fmt::format(R"({{"type": "Sequence", "decoders": [{{"type": "Replace", "pattern": {{"String": "{}"}}, )"
                          R"("content": " "}}, {{"type": "ByteFallback"}}, {{"type": "Fuse"}}, )"
                          R"({{"type": "Strip", "content": " ", "start": 1, "stop": 0}}]}})",
                          kSpacePiece)
            : metaspace_json(prefix.c_str());
    return tokenizer_document(tokens, normalizer, split,
                              options_.post_processor.empty() ? text_frame_json(tokens) : options_.post_processor,
                              decoder, model);
}

Status SentencePiece::save(const std::filesystem::path& folder) const {
    if (options_.shared) {
        const bool target = options_.shared->is_target;
        HK_TRY(write_file_atomically(folder / (target ? "target.spm" : "source.spm"), write_spiece_model(model_)));
        HK_TRY(write_file_atomically(folder / (target ? "source.spm" : "target.spm"), options_.shared->other_model));
        HK_TRY(write_file_atomically(folder / "vocab.json", vocabulary_json(vocabulary()) + '\n'));
    } else if (options_.spaces == SpaceRule::model)
        HK_TRY(write_file_atomically(folder / "spiece.model", write_spiece_model(model_)));
    const TextPreparation& before = options_.preparation;
    std::string config = fmt::format(
        "  \"tokenizer_class\": {}",
        json_quote(options_.tokenizer_class.empty() ? "PreTrainedTokenizerFast" : options_.tokenizer_class));
    if (!before.is_none())
        config += fmt::format(",\n  \"do_lower_case\": {},\n  \"keep_accents\": {}", yes(before.lower_case),
                              yes(!before.strip_accents));
    HK_TRY(write_special_files(folder, vocabulary(), config));
    const std::string json = to_json();
    return json.empty() ? Status() : write_file_atomically(folder / "tokenizer.json", json);
}

} // namespace hekla::text
