// Loads a tokenizer from a folder, by the files in it, and saves byte-level BPE.
#include "base/file.hpp"
#include "text/byte_bpe.hpp"
#include "text/files/gpt2_files.hpp"
#include "text/files/pipeline_files.hpp"
#include "text/files/sentencepiece_files.hpp"
#include "text/files/special_files.hpp"
#include "text/files/tokenizer_files.hpp"
#include "text/files/tokenizer_json.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/files/wordpiece_files.hpp"
#include "text/suffix_bpe.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {

namespace {

// Reads vocab.json and merges.txt: bytes as in GPT-2, or characters with an end-of-word mark as in GPT.
Result<std::unique_ptr<Tokenizer>> read_bpe_pair(const FilePlace& folder, const char* vocabulary, const char* merges) {
    HK_ASSIGN(const std::string kind, tokenizer_family(folder));
    if (kind == "Flaubert" || kind == "XLM")
        return unsupported(fmt::format("{}: {}'s tokenizer splits words by Moses' rules, which is not supported",
                                       folder.string(), kind));
    HK_ASSIGN(const std::string lines, (folder / merges).read());
    if (lines.find("</w>\n") != std::string::npos || lines.find("</w>\r\n") != std::string::npos)
        return read_suffix_bpe_files(folder / vocabulary, folder / merges);
    if (kind.starts_with("Qwen"))
        return unsupported(
            fmt::format("{}: Qwen's pattern of words is in tokenizer.json, which is missing", folder.string()));
    return read_gpt2_files(folder / vocabulary, folder / merges);
}

} // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder) {
    return load_tokenizer(FilePlace(folder));
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const FilePlace& folder) {
    if (folder.is_file()) {
        if (folder.extension() == ".txt") return read_wordpiece_vocabulary(folder);
        if (folder.extension() == ".model") return read_spiece_file(folder);
        if (folder.extension() == ".spm") return read_marian_file(folder);
        return read_tokenizer_json(folder);
    }
    if (!folder.is_folder())
        return not_found(fmt::format("{}: does not exist; the folder of a tokenizer was expected", folder.string()));
    const auto has = [&](const char* name) { return (folder / name).exists(); };
    if (has("tokenizer.json")) return read_tokenizer_json(folder / "tokenizer.json");
    if (has("source.spm") && has("target.spm")) return read_marian_file(folder / "source.spm");
    for (const auto& [vocabulary, merges] :
         {std::pair("vocab.json", "merges.txt"), std::pair("encoder.json", "vocab.bpe")}) {
        if (has(vocabulary) && has(merges)) return read_bpe_pair(folder, vocabulary, merges);
        if (has(vocabulary) || has(merges))
            return not_found(fmt::format("{}: has {} but not {}; the two belong together", folder.string(),
                                         has(vocabulary) ? vocabulary : merges, has(vocabulary) ? merges : vocabulary));
    }
    for (const char* name : {"spiece.model", "tokenizer.model", "spm.model", "sentencepiece.bpe.model"})
        if (has(name)) return read_spiece_file(folder / name);
    if (has("vocab.txt")) return read_wordpiece_vocabulary(folder / "vocab.txt");
    return not_found(fmt::format(
        "{}: holds no tokenizer; looked for tokenizer.json, vocab.json and merges.txt, "
        "encoder.json and vocab.bpe, a SentencePiece model (spiece.model, tokenizer.model, spm.model), vocab.txt",
        folder.string()));
}

std::vector<std::string> tokenizer_files_in(const FilePlace& folder) {
    std::vector<std::string> names{"added_tokens.json", "chat_template.jinja", "config.json", "special_tokens_map.json",
                                   "tokenizer_config.json"};
    if ((folder / "tokenizer.json").exists())
        names.emplace_back("tokenizer.json");
    else
        names.insert(names.end(),
                     {"encoder.json", "merges.txt", "sentencepiece.bpe.model", "source.spm", "spiece.model",
                      "spm.model", "target.spm", "tokenizer.model", "vocab.bpe", "vocab.json", "vocab.txt"});
    std::erase_if(names, [&](const std::string& name) { return !(folder / name).is_file(); });
    std::ranges::sort(names);
    return names;
}

Status ByteBpe::save(const std::filesystem::path& folder) const {
    HK_TRY(write_file_atomically(folder / "vocab.json", gpt2_vocabulary_json(*this)));
    HK_TRY(write_file_atomically(folder / "merges.txt", gpt2_merges_text(*this)));
    HK_TRY(write_special_files(
        folder, vocabulary(),
        pipeline() != nullptr ? tokenizer_class_json(*pipeline())
                              : fmt::format("  \"add_prefix_space\": {},\n  \"tokenizer_class\": \"GPT2Tokenizer\"",
                                            yes(options_.add_prefix_space))));
    return write_file_atomically(folder / "tokenizer.json", to_json());
}

} // namespace hekla::text
