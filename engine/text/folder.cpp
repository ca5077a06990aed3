// Tokenizers and folders: what a folder's files say it holds, and what is written into one.
#include "base/file.hpp"
#include "text/byte_bpe.hpp"
#include "text/gpt2_files.hpp"
#include "text/special_files.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_json.hpp"

#include <fmt/format.h>

namespace hekla::text {

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(folder, ignored)) return read_tokenizer_json(folder);
    if (!std::filesystem::is_directory(folder, ignored))
        return not_found(fmt::format("{}: no such folder; the folder of a tokenizer was expected", folder.string()));
    const auto has = [&](const char* name) { return std::filesystem::exists(folder / name, ignored); };
    if (has("tokenizer.json")) return read_tokenizer_json(folder / "tokenizer.json");
    for (const auto& [vocabulary, merges] :
         {std::pair("vocab.json", "merges.txt"), std::pair("encoder.json", "vocab.bpe")}) {
        if (has(vocabulary) && has(merges)) return read_gpt2_files(folder / vocabulary, folder / merges);
        if (has(vocabulary) || has(merges))
            return not_found(fmt::format("{}: has {} but not {}; the two belong together", folder.string(),
                                         has(vocabulary) ? vocabulary : merges, has(vocabulary) ? merges : vocabulary));
    }
    for (const char* name : {"spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "vocab.txt"})
        if (has(name))
            return unsupported(fmt::format("{}: holds {}, a kind of tokenizer that is not supported; supported: "
                                           "tokenizer.json with byte-level BPE, vocab.json and merges.txt",
                                           folder.string(), name));
    return not_found(fmt::format("{}: holds no tokenizer; looked for tokenizer.json, vocab.json and merges.txt, "
                                 "encoder.json and vocab.bpe",
                                 folder.string()));
}

std::string ByteBpe::to_json() const { return byte_bpe_json(*this); }

Status ByteBpe::save(const std::filesystem::path& folder) const {
    HK_TRY(write_file_atomically(folder / "vocab.json", gpt2_vocabulary_json(*this)));
    HK_TRY(write_file_atomically(folder / "merges.txt", gpt2_merges_text(*this)));
    HK_TRY(write_special_files(
        folder, vocabulary(),
        fmt::format("  \"add_prefix_space\": {},\n  \"tokenizer_class\": \"{}\"", options_.add_prefix_space,
                    options_.splitter && options_.splitter->is_gpt2() ? "GPT2Tokenizer" : "PreTrainedTokenizerFast")));
    return write_file_atomically(folder / "tokenizer.json", to_json());
}

} // namespace hekla::text
