#include "text/files/sentencepiece_files.hpp"

#include "base/file.hpp"
#include "text/files/base64.hpp"
#include "text/files/special_files.hpp"
#include "text/files/text_frame_files.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/files/wordpiece_files.hpp"
#include "text/frame_shapes.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace hekla::text {
namespace {

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

Status set_family_roles(const FilePlace& folder, Vocabulary& vocabulary) {
    HK_ASSIGN(const Family family, family_of(folder));
    return set_family_roles(family, vocabulary);
}

std::string SentencePiece::to_json() const {
    const Vocabulary& tokens = vocabulary();
    if (model_.add_dummy_prefix != model_.remove_extra_whitespaces && !model_.add_dummy_prefix) return {};
    if (model_.space_is_suffix || options_.shared) return {};
    std::string split = "null", prefix = "never";
    if (model_.remove_extra_whitespaces) {
        // Other white space is a space where the map makes it one.
        split = fmt::format(R"({{"type": "Sequence", "pretokenizers": [{{"type": "Split", "pattern": {{"Regex": {}}}, )"
                            R"("behavior": "Removed", "invert": false}}, {}]}})",
                            json_quote(kSpieceSpaces), metaspace_json("always"));
        prefix = "always";
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
    return tokenizer_document(tokens, normalizer, split, text_frame_json(tokens), decoder, model);
}

Status SentencePiece::save(const std::filesystem::path& folder) const {
    if (options_.shared) {
        const bool target = options_.shared->is_target;
        HK_TRY(write_file_atomically(folder / (target ? "target.spm" : "source.spm"), write_spiece_model(model_)));
        HK_TRY(write_file_atomically(folder / (target ? "source.spm" : "target.spm"), options_.shared->other_model));
        HK_TRY(write_file_atomically(folder / "vocab.json", vocabulary_json(vocabulary()) + '\n'));
    } else {
        HK_TRY(write_file_atomically(folder / "spiece.model", write_spiece_model(model_)));
    }
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
