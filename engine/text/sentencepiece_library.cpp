#include "text/sentencepiece_library.hpp"

#include "text/sentencepiece_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace hekla::text {
namespace {

std::filesystem::path module_folder() {
    Dl_info info{};
    if (!dladdr(reinterpret_cast<const void*>(&module_folder), &info) || !info.dli_fname) return {};
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(info.dli_fname, error);
    return error ? std::filesystem::path() : path.parent_path();
}

// What the module says is kept here: nothing may be thrown through it.
struct Heard {
    std::string bytes;
    std::string message;
    bool no_memory = false;
    const std::function<bool(std::string_view& text)>* sentence = nullptr;
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
        if (!(*heard->sentence)(next)) return 0;
        *text = next.data();
        *size = next.size();
        return 1;
    } catch (...) { heard->no_memory = true; }
    return 0;
}

} // namespace

Result<std::shared_ptr<const SentencePieceLibrary>> SentencePieceLibrary::open() {
    std::vector<std::string> places;
    if (const std::filesystem::path here = module_folder(); !here.empty()) {
        places.push_back((here / "libhekla_sentencepiece.so").string());
        places.push_back((here.parent_path() / "lib" / "libhekla_sentencepiece.so").string());
    }
    places.emplace_back("libhekla_sentencepiece.so");
    std::string tried;
    for (const std::string& place : places) {
        void* module = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (module == nullptr) {
            const char* why = dlerror();
            tried += fmt::format("\n  {}", why != nullptr ? why : place);
            continue;
        }
        const auto entry = reinterpret_cast<HeklaSentencePieceEntry>(dlsym(module, "hekla_sentencepiece_interface"));
        const HeklaSentencePieceInterface* found = entry != nullptr ? entry(HEKLA_SENTENCEPIECE_VERSION) : nullptr;
        if (found == nullptr || found->struct_size < sizeof(HeklaSentencePieceInterface)) {
            tried += fmt::format("\n  {}: not the SentencePiece module of this version", place);
            dlclose(module);
            continue;
        }
        return std::shared_ptr<const SentencePieceLibrary>(new SentencePieceLibrary(module, found));
    }
    return unsupported("the SentencePiece module (libhekla_sentencepiece.so) cannot be opened; tokenizers of "
                       "SentencePiece models need it. Tried:" +
                       tried);
}

SentencePieceLibrary::~SentencePieceLibrary() { dlclose(module_); }

Result<std::string> SentencePieceLibrary::train(const std::vector<std::pair<std::string, std::string>>& flags,
                                                const std::function<bool(std::string_view& text)>& sentence) const {
    std::vector<const char*> keys, values;
    for (const auto& [key, value] : flags) {
        keys.push_back(key.c_str());
        values.push_back(value.c_str());
    }
    Heard heard;
    heard.sentence = &sentence;
    const int32_t done =
        interface_->train(keys.data(), values.data(), keys.size(), &heard, give_sentence, hear_bytes, hear_message);
    if (heard.no_memory) return out_of_memory("no memory to train a SentencePiece model");
    if (done != 1) return invalid_argument("SentencePiece cannot be trained: " + heard.message);
    return std::move(heard.bytes);
}

Result<SentencePieceModel> SentencePieceModel::open(std::string_view serialized) {
    HK_ASSIGN(std::shared_ptr<const SentencePieceLibrary> library, SentencePieceLibrary::open());
    Heard heard;
    void* model = library->interface_->open(serialized.data(), serialized.size(), &heard, hear_message);
    if (heard.no_memory) return out_of_memory("no memory for a SentencePiece model");
    if (model == nullptr) return corrupt("the SentencePiece library refuses the model: " + heard.message);
    return SentencePieceModel(std::move(library), model);
}

SentencePieceModel::SentencePieceModel(SentencePieceModel&& other) noexcept
    : library_(std::move(other.library_)), model_(std::exchange(other.model_, nullptr)) {}

SentencePieceModel::~SentencePieceModel() {
    if (model_ != nullptr) library_->interface_->close(model_);
}

Status SentencePieceModel::encode(std::string_view text,
                                  const std::function<void(int32_t id, uint32_t begin, uint32_t end)>& piece) const {
    if (text.size() > 0x7FFFFFFFu)
        return unsupported(fmt::format("a text of {} bytes; SentencePiece takes up to 2147483647", text.size()));
    Heard heard;
    heard.piece = &piece;
    const int32_t done =
        library_->interface_->encode(model_, text.data(), text.size(), &heard, hear_piece, hear_message);
    if (heard.no_memory) return out_of_memory("no memory for a text's pieces");
    return done == 1 ? Status() : internal_error("SentencePiece cannot encode the text: " + heard.message);
}

} // namespace hekla::text
