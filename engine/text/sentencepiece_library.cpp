#include "text/sentencepiece_library.hpp"

#include "text/sentencepiece_module.h"

#include <fmt/format.h>

namespace hekla::text {
namespace {

constexpr ModuleName kModule{"libhekla_sentencepiece.so", "hekla_sentencepiece_interface", HEKLA_SENTENCEPIECE_VERSION,
                             "the SentencePiece module",
                             "the SentencePiece module (libhekla_sentencepiece.so) cannot be opened; tokenizers of "
                             "SentencePiece models need it"};

// Stores the module's error, because no exception may cross the C interface.
struct Heard {
    std::string bytes;
    std::string message;
    bool no_memory = false;
    const SentencePieceLibrary::NextSentence* sentence = nullptr;
    Status stopped; // what ended the reading of sentences
    const std::function<void(int32_t id, uint32_t begin, uint32_t end)>* piece = nullptr;
};

void hear_bytes(void* user, const char* bytes, size_t size) {
    auto* heard = static_cast<Heard*>(user);
    try {
        heard->bytes.assign(bytes, size);
    } catch (...) { heard->no_memory = true; }
}

void hear_message(void* user, const char* bytes, size_t size) {
    auto* heard = static_cast<Heard*>(user);
    try {
        heard->message.assign(bytes, size);
    } catch (...) { heard->no_memory = true; }
}

void hear_piece(void* user, uint32_t id, uint32_t begin, uint32_t end) {
    auto* heard = static_cast<Heard*>(user);
    try {
        (*heard->piece)(static_cast<int32_t>(id), begin, end);
    } catch (...) { heard->no_memory = true; }
}

int32_t give_sentence(void* user, const char** text, size_t* size) {
    auto* heard = static_cast<Heard*>(user);
    try {
        std::string_view next;
        const Result<bool> more = (*heard->sentence)(next);
        heard->stopped = more.status();
        if (!more.ok()) return -1;
        if (!more.value()) return 0;
        *text = next.data();
        *size = next.size();
        return 1;
    } catch (...) { heard->no_memory = true; }
    return -1;
}

} // namespace

Result<std::shared_ptr<const SentencePieceLibrary>> SentencePieceLibrary::open() {
    HK_ASSIGN(auto module, Module<HeklaSentencePieceInterface>::open(kModule));
    return std::shared_ptr<const SentencePieceLibrary>(new SentencePieceLibrary(std::move(module)));
}

Result<std::string> SentencePieceLibrary::train(const std::vector<std::pair<std::string, std::string>>& flags,
                                                const NextSentence& sentence) const {
    std::vector<const char*> keys, values;
    for (const auto& [key, value] : flags) {
        keys.push_back(key.c_str());
        values.push_back(value.c_str());
    }
    Heard heard;
    heard.sentence = &sentence;
    const int32_t done =
        module_->train(keys.data(), values.data(), keys.size(), &heard, give_sentence, hear_bytes, hear_message);
    if (heard.no_memory) return out_of_memory("no memory to train a SentencePiece model");
    HK_TRY(heard.stopped);
    if (done != 1) return invalid_argument("SentencePiece cannot be trained: " + heard.message);
    return std::move(heard.bytes);
}

Result<SentencePieceModel> SentencePieceModel::open(std::string_view serialized) {
    HK_ASSIGN(std::shared_ptr<const SentencePieceLibrary> library, SentencePieceLibrary::open());
    Heard heard;
    void* model = library->module_->open(serialized.data(), serialized.size(), &heard, hear_message);
    if (heard.no_memory) return out_of_memory("no memory for a SentencePiece model");
    if (model == nullptr) return corrupt("the SentencePiece library refuses the model: " + heard.message);
    return SentencePieceModel(std::move(library), model);
}

SentencePieceModel::SentencePieceModel(SentencePieceModel&& other) noexcept
    : library_(std::move(other.library_)), model_(std::exchange(other.model_, nullptr)) {}

SentencePieceModel::~SentencePieceModel() {
    if (model_ != nullptr) library_->module_->close(model_);
}

Status SentencePieceModel::encode(std::string_view text,
                                  const std::function<void(int32_t id, uint32_t begin, uint32_t end)>& piece) const {
    if (text.size() > 0x7FFFFFFFu)
        return unsupported(fmt::format("a text of {} bytes; SentencePiece takes up to 2147483647", text.size()));
    Heard heard;
    heard.piece = &piece;
    const int32_t done = library_->module_->encode(model_, text.data(), text.size(), &heard, hear_piece, hear_message);
    if (heard.no_memory) return out_of_memory("no memory for a text's pieces");
    return done == 1 ? Status() : internal_error("SentencePiece cannot encode the text: " + heard.message);
}

} // namespace hekla::text
