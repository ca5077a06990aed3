// The SentencePiece library: a module, libhekla_sentencepiece.so, loaded with RTLD_LOCAL when a model needs it.
#pragma once

#include "base/module.hpp"
#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct HeklaSentencePieceInterface;

namespace hekla::text {

// The loaded module. Thread: any.
class SentencePieceLibrary {
public:
    // Loads the module with open_library(). Error: unsupported, with the reason.
    static Result<std::shared_ptr<const SentencePieceLibrary>> open();

    // Gives the next text and returns true, or false at the end. An error ends the training.
    using NextSentence = std::function<Result<bool>(std::string_view& text)>;
    // Trains with the library's own flags. Returns the model's file. Errors: those of `sentence`, which is called while
    // the library reads, not during the optimization that follows.
    Result<std::string> train(const std::vector<std::pair<std::string, std::string>>& flags,
                              const NextSentence& sentence) const;

private:
    friend class SentencePieceModel;
    explicit SentencePieceLibrary(Module<HeklaSentencePieceInterface> module) : module_(std::move(module)) {}
    Module<HeklaSentencePieceInterface> module_;
};

// A model that splits texts. Immutable. Thread: any.
class SentencePieceModel {
public:
    // `serialized` must have been validated by read_spiece_model, or written by write_spiece_model.
    static Result<SentencePieceModel> open(std::string_view serialized);
    SentencePieceModel(SentencePieceModel&& other) noexcept;
    SentencePieceModel& operator=(SentencePieceModel&&) = delete;
    ~SentencePieceModel();

    // Calls `piece(id, begin, end)` with the bytes of `text` that each piece covers. `text` is valid UTF-8 of less than
    // 2 GiB.
    Status encode(std::string_view text,
                  const std::function<void(int32_t id, uint32_t begin, uint32_t end)>& piece) const;

private:
    SentencePieceModel(std::shared_ptr<const SentencePieceLibrary> library, void* model)
        : library_(std::move(library)), model_(model) {}
    std::shared_ptr<const SentencePieceLibrary> library_;
    void* model_;
};

} // namespace hekla::text
