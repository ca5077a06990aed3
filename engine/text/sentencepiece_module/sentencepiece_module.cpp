// libhekla_sentencepiece: the SentencePiece library (Kudo and Richardson 2018) with a C interface of one function, in a
// separate module, because the library exports protobuf's symbols, which must not conflict with a host's.
#include "text/sentencepiece_module.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <exception>
#include <memory>
#include <string>
#include <unordered_map>

namespace {

using Processor = sentencepiece::SentencePieceProcessor;

void say(void* user, HeklaSentencePieceBytes message, const std::string& text) {
    message(user, text.data(), text.size());
}

// Runs `work`, which returns whether it succeeded; catches all exceptions.
template<class Work>
int32_t guarded(void* user, HeklaSentencePieceBytes message, const Work& work) {
    try {
        return work() ? 1 : 0;
    } catch (const std::exception& error) { say(user, message, error.what()); } catch (...) {
        say(user, message, "the library failed without saying why");
    }
    return 0;
}

void* open_model(const char* model, size_t size, void* user, HeklaSentencePieceBytes message) {
    std::unique_ptr<Processor> processor;
    const int32_t done = guarded(user, message, [&] {
        processor = std::make_unique<Processor>();
        const auto status = processor->LoadFromSerializedProto(absl::string_view(model, size));
        if (!status.ok()) say(user, message, status.ToString());
        return status.ok();
    });
    return done == 1 ? processor.release() : nullptr;
}

void close_model(void* model) { delete static_cast<Processor*>(model); }

int32_t encode(const void* model, const char* text, size_t size, void* user,
               void (*piece)(void* user, uint32_t id, uint32_t begin, uint32_t end), HeklaSentencePieceBytes message) {
    return guarded(user, message, [&] {
        sentencepiece::ImmutableSentencePieceText result;
        const auto status =
            static_cast<const Processor*>(model)->Encode(absl::string_view(text, size), result.mutable_proto());
        if (!status.ok()) {
            say(user, message, status.ToString());
            return false;
        }
        const size_t count = result.pieces_size();
        for (size_t i = 0; i < count; ++i) {
            const auto one = result.pieces(static_cast<int>(i));
            piece(user, one.id(), one.begin(), one.end());
        }
        return true;
    });
}

class Sentences final : public sentencepiece::SentenceIterator {
public:
    Sentences(void* user, int32_t (*sentence)(void* user, const char** text, size_t* size))
        : user_(user), sentence_(sentence) {
        Next();
    }
    bool done() const override { return done_; }
    void Next() override {
        const char* text = nullptr;
        size_t size = 0;
        const int32_t more = sentence_(user_, &text, &size);
        done_ = more != 1;
        stopped_ = more < 0;
        if (!done_) value_.assign(text, size);
    }
    const std::string& value() const override { return value_; }
    sentencepiece::util::Status status() const override {
        return stopped_ ? sentencepiece::util::Status(sentencepiece::util::StatusCode::kCancelled, "stopped")
                        : sentencepiece::util::Status();
    }

private:
    void* user_;
    int32_t (*sentence_)(void* user, const char** text, size_t* size);
    std::string value_;
    bool done_ = false, stopped_ = false;
};

int32_t train(const char* const* keys, const char* const* values, size_t count, void* user,
              int32_t (*sentence)(void* user, const char** text, size_t* size), HeklaSentencePieceBytes model,
              HeklaSentencePieceBytes message) {
    return guarded(user, message, [&] {
        std::unordered_map<std::string, std::string> options;
        for (size_t i = 0; i < count; ++i) options[keys[i]] = values[i];
        Sentences sentences(user, sentence);
        std::string serialized;
        const auto status = sentencepiece::SentencePieceTrainer::Train(options, &sentences, &serialized);
        if (!status.ok()) {
            say(user, message, status.ToString());
            return false;
        }
        model(user, serialized.data(), serialized.size());
        return true;
    });
}

constexpr HeklaSentencePieceInterface kInterface2{
    sizeof(HeklaSentencePieceInterface), HEKLA_SENTENCEPIECE_VERSION, open_model, close_model, encode, train};

} // namespace

extern "C" __attribute__((visibility("default"))) const HeklaSentencePieceInterface*
hekla_sentencepiece_interface(uint32_t version) {
    return version == HEKLA_SENTENCEPIECE_VERSION ? &kInterface2 : nullptr;
}
