// A tokenizer that executes the description in a tokenizer.json step by step.
#pragma once

#include "text/added_tokens.hpp"
#include "text/pipeline/cut_rule.hpp"
#include "text/pipeline/pipeline.hpp"

namespace hekla::text {

class PipelineTokenizer final : public Tokenizer {
public:
    static Result<std::unique_ptr<Tokenizer>> create(std::shared_ptr<const Pipeline> pipeline, Vocabulary vocabulary,
                                                     const WordModelTables& tables);

    std::string_view kind() const override; // by the file: "byte_bpe", "sentencepiece", "wordpiece" or "words"
    bool begins_word(int32_t id) const override;
    std::string to_json() const override;
    Status save(const std::filesystem::path& folder) const override; // tokenizer.json
    const WordModelTables& tables() const { return *tables_; }

protected:
    Result<std::unique_ptr<Tokenizer>> remade(Vocabulary vocabulary) const override {
        return create(shared_pipeline(), std::move(vocabulary), *tables_);
    }
    Status encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                        std::vector<ByteRange>* ranges) const override;
    bool can_cut(std::string_view text, std::size_t at) const override;

private:
    class Run;
    PipelineTokenizer(std::shared_ptr<const Pipeline> pipeline, Vocabulary vocabulary,
                      std::unique_ptr<const WordModelTables> tables, std::unique_ptr<WordModel> model);

    std::unique_ptr<const WordModelTables> tables_; // model_ refers to them
    std::unique_ptr<WordModel> model_;
    AddedTokens added_;
    CutRule cuts_;
};

} // namespace hekla::text
