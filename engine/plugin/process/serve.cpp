#include "plugin/process/serve.hpp"

#include "plugin/host/host_error.hpp"
#include "plugin/host/host_struct.hpp"
#include "plugin/host/host_tokenizer.hpp"
#include "plugin/process/in_process_plugins.hpp"
#include "plugin/process/messages.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

namespace hekla::plugin {
namespace {

// The host has closed the socket or sent an invalid message; the process must end.
struct HostClosed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Server {
public:
    Server(FileHandle socket, SharedMemory memory) : channel_(std::move(socket)), memory_(std::move(memory)) {}

    int run() {
        while (true) {
            Result<Message> message = channel_.receive();
            if (!message.ok()) return message.code() == Code::io ? 0 : 1;
            try {
                answer(message.value());
            } catch (const HostClosed&) { return 0; }
        }
    }

private:
    // The host's tokenizer, accessed over the channel. Properties of all tokens are fetched once.
    class RemoteTokenizer final : public TokenizerView {
    public:
        RemoteTokenizer(Server& server, int64_t size) : server_(server), size_(size) {}
        int64_t size() const override { return size_; }
        int64_t special(std::string_view role) const override {
            if (const auto known = special_.find(role); known != special_.end()) return known->second;
            MessageWriter out;
            out.text(role);
            const Message reply = server_.ask(MessageKind::ask_special, out);
            return special_.emplace(role, MessageReader(reply.bytes).integer()).first->second;
        }
        bool begins_word(int64_t id) const override { return (words(id) & 1) != 0; }
        bool ends_sentence(int64_t id) const override { return (words(id) & 2) != 0; }
        std::string decode(std::span<const int64_t> ids) const override {
            MessageWriter out;
            out.array(ids);
            const Message reply = server_.ask(MessageKind::ask_decode, out);
            return std::string(MessageReader(reply.bytes).text());
        }

    private:
        uint8_t words(int64_t id) const {
            if (id < 0 || id >= size_) return 0;
            if (words_.empty()) {
                const Message reply = server_.ask(MessageKind::ask_words, MessageWriter());
                MessageReader in(reply.bytes);
                const std::span<const uint8_t> bytes = in.array<uint8_t>();
                words_.assign(bytes.begin(), bytes.end());
                words_.resize(static_cast<std::size_t>(size_));
            }
            return words_[static_cast<std::size_t>(id)];
        }
        Server& server_;
        int64_t size_;
        mutable std::map<std::string, int64_t, std::less<>> special_;
        mutable std::vector<uint8_t> words_;
    };

    void send(MessageKind kind, const MessageWriter& out) {
        if (const Status sent = channel_.send(static_cast<uint32_t>(kind), out.bytes()); !sent.ok())
            throw HostClosed(sent.message());
    }
    Message ask(MessageKind kind, const MessageWriter& out) {
        send(kind, out);
        Result<Message> reply = channel_.receive();
        if (!reply.ok() || reply.value().kind != static_cast<uint32_t>(MessageKind::reply))
            throw HostClosed("no reply");
        return reply.take();
    }

    void answer(const Message& message) {
        const std::size_t before = registry_ ? registry_->failures().first : 0;
        MessageWriter out;
        out.flag(true);
        Status done;
        try {
            done = serve(static_cast<MessageKind>(message.kind), message.bytes, out);
        } catch (const HostClosed&) { throw; } catch (const std::bad_alloc&) {
            done = hekla::out_of_memory("out of memory");
        } catch (const std::exception& e) { done = internal_error(e.what()); }
        if (done.ok() && out.bytes().size() > Channel::kMostBytes)
            done = unsupported(
                fmt::format("it described {} bytes, at most {} are possible", out.bytes().size(), Channel::kMostBytes));
        if (!done.ok()) {
            out = {};
            out.flag(false);
            out.integer(static_cast<int64_t>(done.code()));
            out.text(done.message());
            const auto [count, manifest] =
                registry_ ? registry_->failures() : std::pair<std::size_t, const Manifest*>{};
            out.text(count > before && manifest != nullptr ? manifest->file : std::string_view());
        }
        send(MessageKind::answer, out);
    }

    Status create(MessageReader& in) {
        PartsSpec spec;
        get(in, spec);
        std::vector<std::filesystem::path> manifests;
        for (const std::string& file : in.texts()) manifests.emplace_back(file);
        const int64_t vocabulary = in.integer();
        HK_TRY(in.finish("the host"));
        registry_.emplace(Registry::of(manifests, Log([this](Severity severity, std::string_view text) {
                                           MessageWriter out;
                                           out.integer(static_cast<int64_t>(severity));
                                           out.text(text);
                                           send(MessageKind::log, out);
                                       })));
        registry_->set_witness([this](const Manifest* manifest, std::string_view function) {
            if (manifest == nullptr) return; // the next answer reports the error
            MessageWriter out;
            out.text(manifest->file);
            out.text(function);
            send(MessageKind::doing, out);
        });
        if (!registry_->warnings().empty()) return corrupt(std::string(registry_->warnings().front()));
        if (vocabulary >= 0) {
            remote_ = std::make_unique<RemoteTokenizer>(*this, vocabulary);
            tokenizer_.view = remote_.get();
        }
        HK_ASSIGN(parts_, make_in_process_plugins(*registry_, spec, tokenizer()));
        return {};
    }

    const hk_tokenizer* tokenizer() const { return tokenizer_.view != nullptr ? &tokenizer_ : nullptr; }

    Status serve(MessageKind kind, std::string_view bytes, MessageWriter& out) {
        MessageReader in(bytes);
        if (kind == MessageKind::create) {
            HK_TRY(create(in));
            put(out, parts_->read());
            return {};
        }
        if (parts_ == nullptr) return internal_error("nothing was created yet");
        switch (kind) {
#define HK_PLUGIN_METHOD(value, name, parameters, arguments)                                                           \
    case MessageKind::name:                                                                                            \
        return call(&PluginSet::name, in, out);
#define HK_PLUGIN_MEMORY_METHOD(returns, name, parameters, arguments)                                                  \
    case MessageKind::name:                                                                                            \
        return name(in, out);
#include "plugin/composition/plugin_methods.inc"
#undef HK_PLUGIN_METHOD
#undef HK_PLUGIN_MEMORY_METHOD
        default: return internal_error(fmt::format("a message of kind {}", static_cast<uint32_t>(kind)));
        }
    }

    // Calls a method with the arguments of a message, and writes its value.
    template<class Value, class... A>
    Status call(Result<Value> (PluginSet::*method)(A...), MessageReader& in, MessageWriter& out) {
        std::tuple<std::remove_cvref_t<A>...> arguments;
        std::apply([&](auto&... argument) { (get(in, argument), ...); }, arguments);
        HK_TRY(in.finish("the host"));
        HK_ASSIGN(const Value value,
                  std::apply([&](auto&... argument) { return (*parts_.*method)(argument...); }, arguments));
        put(out, value);
        return {};
    }

    // Reads what the host wrote to the shared memory: values of this size, and fields' data at offsets from its start.
    Result<MessageReader> shared(MessageReader& in) {
        const uint64_t size = in.number(), values = in.number();
        HK_TRY(in.finish("the host"));
        HK_TRY(memory_.map(static_cast<std::size_t>(size)));
        if (values > size) return corrupt("more values than memory");
        return MessageReader(std::span<const std::byte>(memory_.data(), static_cast<std::size_t>(values)));
    }
    // Fields with their data in the shared memory, which come last in the values.
    struct SharedFields {
        std::vector<BatchField> described; // owns the names that the others point to
        std::vector<hk_field> fields;
    };
    Result<SharedFields> shared_fields(MessageReader& values) {
        SharedFields shared;
        get(values, shared.described);
        for (const BatchField& one : shared.described) {
            const uint64_t offset = values.number();
            const uint64_t bytes = static_cast<uint64_t>(one.shape.elements()) * 4;
            if (offset > memory_.size() || bytes > memory_.size() - offset)
                return corrupt("a field outside of the memory");
            hk_field field{};
            field.struct_size = sizeof field;
            field.kind = one.kind == graph::Kind::int32 ? HK_KIND_INT32 : HK_KIND_FLOAT32;
            field.name = {one.name.data(), one.name.size()};
            field.rank = static_cast<uint32_t>(one.shape.rank());
            std::ranges::copy(one.shape.dims(), field.dims);
            field.data = memory_.data() + offset;
            shared.fields.push_back(field);
        }
        HK_TRY(values.finish("the host"));
        return shared;
    }

    Status collate(MessageReader& in, MessageWriter& /*out: its fields are in the shared memory*/) {
        HK_ASSIGN(MessageReader values, shared(in));
        hk_batch batch{};
        batch.struct_size = sizeof batch;
        batch.seed = values.number();
        batch.step = values.number();
        hk_corpus corpus{};
        corpus.example_count = values.number();
        const bool has_corpus = values.flag();
        std::vector<hk_example> examples(values.count());
        for (hk_example& example : examples) get(values, example);
        HK_ASSIGN(SharedFields given, shared_fields(values));
        batch.example_count = static_cast<uint32_t>(examples.size());
        batch.examples = examples.data();
        corpus.struct_size = sizeof corpus;
        corpus.context = this;
        corpus.get = [](void* context, uint64_t index, hk_example* example, hk_error* error) -> int32_t {
            try {
                return static_cast<Server*>(context)->get_example(index, example, error);
            } catch (const std::exception& e) {
                const std::string_view what = e.what();
                host_error_interface()->set(error, HK_INTERNAL, {what.data(), what.size()});
                return HK_INTERNAL;
            }
        };
        if (has_corpus) batch.corpus = &corpus;
        Status done = parts_->collate(batch, given.fields);
        replies_.clear();
        return done;
    }

    int32_t get_example(uint64_t index, hk_example* example, hk_error* error) {
        MessageWriter out;
        out.number(index);
        MessageReader& in = replies_.emplace_back(ask(MessageKind::ask_example, out)).in;
        const auto code = static_cast<int32_t>(in.integer());
        if (code != HK_OK) {
            const std::string_view message = in.text();
            host_error_interface()->set(error, code, {message.data(), message.size()});
            return code;
        }
        hk_example given{};
        get(in, given);
        if (fill_struct(example, given)) return HK_OK;
        const std::string refusal = unfilled_text(example, "an example");
        host_error_interface()->set(error, HK_INVALID_ARGUMENT, {refusal.data(), refusal.size()});
        return HK_INVALID_ARGUMENT;
    }

    Status decode(MessageReader& in, MessageWriter& out) {
        HK_ASSIGN(MessageReader values, shared(in));
        hk_decode_input input{};
        input.struct_size = sizeof input;
        input.row_count = static_cast<uint32_t>(values.number());
        if (values.flag()) input.tokenizer = tokenizer();
        std::vector<hk_output> outputs(values.count());
        for (hk_output& output : outputs) {
            output.struct_size = sizeof output;
            const std::string_view port = values.text();
            output.port = {port.data(), port.size()};
            const std::span<const int64_t> dims = values.array<int64_t>();
            if (dims.size() > HK_MAX_RANK) return corrupt("an output of too many dimensions");
            output.rank = static_cast<uint32_t>(dims.size());
            std::ranges::copy(dims, output.dims);
            output.values = values.array<float>().data();
        }
        HK_ASSIGN(const SharedFields given, shared_fields(values));
        input.output_count = static_cast<uint32_t>(outputs.size());
        input.outputs = outputs.data();
        input.field_count = static_cast<uint32_t>(given.fields.size());
        input.fields = given.fields.data();
        HK_ASSIGN(const std::vector<std::string> rows, parts_->decode(input));
        out.texts(rows);
        return {};
    }

    Channel channel_;
    SharedMemory memory_;
    std::optional<Registry> registry_;
    std::unique_ptr<RemoteTokenizer> remote_;
    hk_tokenizer tokenizer_;
    std::unique_ptr<PluginSet> parts_;
    // The answers to ask_example of one collate call; the plugin has examples that point into them.
    struct Reply {
        explicit Reply(Message given) : message(std::move(given)), in(message.bytes) {}
        Message message;
        MessageReader in;
    };
    std::deque<Reply> replies_;
};

} // namespace

int serve(FileHandle socket, SharedMemory memory) {
    auto server = std::make_unique<Server>(std::move(socket), std::move(memory));
    return server->run();
}

} // namespace hekla::plugin
