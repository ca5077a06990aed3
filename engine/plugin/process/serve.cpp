#include "plugin/process/serve.hpp"

#include "graph/text.hpp"
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
struct HostGone : std::runtime_error {
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
            } catch (const HostGone&) { return 0; }
        }
    }

private:
    // The host's tokenizer, accessed over the channel. Properties of all tokens are fetched once.
    class Asked final : public TokenizerView {
    public:
        Asked(Server& server, int64_t size) : server_(server), size_(size) {}
        int64_t size() const override { return size_; }
        int64_t special(std::string_view role) const override {
            if (const auto known = special_.find(role); known != special_.end()) return known->second;
            WireWriter out;
            out.text(role);
            const Message reply = server_.ask(MessageKind::ask_special, out);
            return special_.emplace(role, WireReader(reply.bytes).integer()).first->second;
        }
        bool begins_word(int64_t id) const override { return (words(id) & 1) != 0; }
        bool ends_sentence(int64_t id) const override { return (words(id) & 2) != 0; }
        std::string decode(std::span<const int64_t> ids) const override {
            WireWriter out;
            out.array(ids);
            const Message reply = server_.ask(MessageKind::ask_decode, out);
            return std::string(WireReader(reply.bytes).text());
        }

    private:
        uint8_t words(int64_t id) const {
            if (id < 0 || id >= size_) return 0;
            if (words_.empty()) {
                const Message reply = server_.ask(MessageKind::ask_words, WireWriter());
                WireReader in(reply.bytes);
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

    void send(MessageKind kind, const WireWriter& out) {
        if (const Status sent = channel_.send(static_cast<uint32_t>(kind), out.bytes()); !sent.ok())
            throw HostGone(sent.message());
    }
    Message ask(MessageKind kind, const WireWriter& out) {
        send(kind, out);
        Result<Message> reply = channel_.receive();
        if (!reply.ok() || reply.value().kind != static_cast<uint32_t>(MessageKind::reply)) throw HostGone("no reply");
        return reply.take();
    }

    void answer(const Message& message) {
        const std::size_t before = registry_ ? registry_->failures().first : 0;
        WireWriter out;
        out.flag(true);
        Status done;
        try {
            done = serve(static_cast<MessageKind>(message.kind), message.bytes, out);
        } catch (const HostGone&) { throw; } catch (const std::bad_alloc&) {
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

    Status create(WireReader& in) {
        HK_ASSIGN(const PartsSpec spec, get_spec(in));
        std::vector<std::filesystem::path> manifests;
        for (const std::string& file : in.texts()) manifests.emplace_back(file);
        const int64_t vocabulary = in.integer();
        HK_TRY(in.finish("create"));
        registry_.emplace(Registry::of(manifests, Log([this](Severity severity, std::string_view text) {
                                           WireWriter out;
                                           out.integer(static_cast<int64_t>(severity));
                                           out.text(text);
                                           send(MessageKind::log, out);
                                       })));
        registry_->set_witness([this](const Manifest* manifest, std::string_view function) {
            if (manifest == nullptr) return; // the next answer reports the error
            WireWriter out;
            out.text(manifest->file);
            out.text(function);
            send(MessageKind::doing, out);
        });
        if (!registry_->warnings().empty()) return corrupt(std::string(registry_->warnings().front()));
        if (vocabulary >= 0) {
            asked_ = std::make_unique<Asked>(*this, vocabulary);
            tokenizer_.view = asked_.get();
        }
        HK_ASSIGN(parts_, make_in_process_plugins(*registry_, spec, tokenizer()));
        return {};
    }

    const hk_tokenizer* tokenizer() const { return tokenizer_.view != nullptr ? &tokenizer_ : nullptr; }

    Status serve(MessageKind kind, std::string_view bytes, WireWriter& out) {
        WireReader in(bytes);
        if (kind == MessageKind::create) {
            HK_TRY(create(in));
            put_read_keys(out, parts_->read());
            return {};
        }
        if (parts_ == nullptr) return internal_error("nothing was created yet");
        Status status;
        switch (kind) {
        case MessageKind::build: {
            BuildRequest request;
            request.mode = static_cast<int32_t>(in.integer());
            request.fields = get_fields(in, status);
            request.ports = in.texts();
            request.all_ports = in.flag();
            request.body_frozen = in.flag();
            request.objective = in.flag();
            request.calls = in.integer();
            request.cache_capacity = in.integer();
            request.merged = in.flag();
            request.merge_pairs = in.flag();
            request.initial = in.flag();
            HK_TRY(status);
            HK_TRY(in.finish("build"));
            HK_ASSIGN(const Described described, parts_->build(request));
            out.text(graph::print(described.graph));
            put_sources(out, described.graph);
            out.number(described.parts.size());
            for (const GraphPart& part : described.parts) {
                out.text(part.what);
                out.text(part.manifest);
                out.number(part.end);
            }
            put_sites(out, described.sites);
            return {};
        }
        case MessageKind::parameters: {
            const std::vector<BatchField> fields = get_fields(in, status);
            HK_TRY(status);
            HK_ASSIGN(const std::set<std::string> names, parts_->parameters(fields));
            out.texts(std::vector<std::string>(names.begin(), names.end()));
            return {};
        }
        case MessageKind::write_config: {
            HK_ASSIGN(const nlohmann::ordered_json config, parts_->write_config());
            out.text(config.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
            return {};
        }
        case MessageKind::write_adapter_config: {
            HK_ASSIGN(const nlohmann::ordered_json config, parts_->write_adapter_config());
            out.text(config.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
            return {};
        }
        case MessageKind::virtual_tokens: {
            HK_ASSIGN(const VirtualTokens tokens, parts_->virtual_tokens());
            out.integer(tokens.count << 2 | (tokens.without_positions ? 2 : 0) | (tokens.hidden ? 1 : 0));
            return {};
        }
        case MessageKind::decode_ports: {
            HK_ASSIGN(const std::vector<std::string> ports, parts_->decode_ports());
            out.texts(ports);
            return {};
        }
        case MessageKind::example_kind: {
            HK_ASSIGN(const int32_t example_kind, parts_->example_kind());
            out.integer(example_kind);
            return {};
        }
        case MessageKind::can_collate: {
            HK_ASSIGN(const bool can, parts_->can_collate());
            out.flag(can);
            return {};
        }
        case MessageKind::tokens_per_example: {
            HK_ASSIGN(const int64_t tokens, parts_->tokens_per_example(in.integer()));
            out.integer(tokens);
            return {};
        }
        case MessageKind::columns: {
            HK_ASSIGN(const std::vector<ColumnNeed> needs, parts_->columns());
            out.number(needs.size());
            for (const ColumnNeed& need : needs) {
                out.text(need.name);
                out.integer(need.kind);
                out.flag(need.optional);
                out.flag(need.target);
            }
            return {};
        }
        case MessageKind::batch_fields: {
            const int64_t batch = in.integer(), length = in.integer();
            HK_ASSIGN(const std::vector<BatchField> fields, parts_->batch_fields(batch, length));
            put_fields(out, fields);
            return {};
        }
        case MessageKind::example_length: {
            ReadExamples examples;
            out.integer(parts_->example_length(examples.get(in)));
            return {};
        }
        case MessageKind::takes: {
            const uint64_t optimizer = in.number();
            const OptimizedParameter parameter = get_parameter(in, status);
            HK_TRY(status);
            HK_ASSIGN(const bool taken, parts_->takes(static_cast<std::size_t>(optimizer), parameter));
            out.integer(taken ? 1 : 0);
            return {};
        }
        case MessageKind::update: {
            const uint64_t optimizer = in.number();
            const OptimizedParameter parameter = get_parameter(in, status);
            HK_TRY(status);
            HK_ASSIGN(const UpdateGraph update, parts_->update(static_cast<std::size_t>(optimizer), parameter));
            out.text(graph::print(update.graph));
            put_sources(out, update.graph);
            put_states(out, update.states);
            return {};
        }
        case MessageKind::collate: return collate(in);
        case MessageKind::decode: return decode(in, out);
        default: return internal_error(fmt::format("a message of kind {}", static_cast<uint32_t>(kind)));
        }
    }

    // Sends the locations of plugins' kernels in source files, which are used in messages and are not part of the
    // graph.
    static void put_sources(WireWriter& out, const graph::Graph& graph) {
        std::map<std::string, const graph::OwnDeclaration*> operations;
        const auto collect = [&](const auto& self, const graph::Graph& g) -> void {
            for (const graph::Node& node : g.nodes) {
                if (node.own == nullptr) continue;
                operations.emplace(node.own->operation->label(), &node.own->operation->declaration());
                if (node.own->gradient != nullptr) self(self, *node.own->gradient);
            }
        };
        collect(collect, graph);
        out.number(operations.size());
        for (const auto& [label, declaration] : operations) {
            out.text(label);
            out.text(declaration->glsl_file);
            out.number(declaration->glsl_line);
        }
    }

    // Reads what the host wrote to the shared memory: values of this size, and fields' data at offsets from its start.
    Result<WireReader> shared(WireReader& in) {
        const uint64_t size = in.number(), values = in.number();
        HK_TRY(memory_.map(static_cast<std::size_t>(size)));
        if (values > size) return corrupt("more values than memory");
        return WireReader(std::span<const std::byte>(memory_.data(), static_cast<std::size_t>(values)));
    }
    // Fields with their data in the shared memory, which come last in the values.
    struct SharedFields {
        std::vector<BatchField> described; // owns the names that the others point to
        std::vector<hk_field> fields;
    };
    Result<SharedFields> shared_fields(WireReader& values, const char* what) {
        SharedFields shared;
        Status status;
        shared.described = get_fields(values, status);
        HK_TRY(status);
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
        HK_TRY(values.finish(what));
        return shared;
    }

    Status collate(WireReader& in) {
        HK_ASSIGN(WireReader values, shared(in));
        hk_batch batch{};
        batch.struct_size = sizeof batch;
        batch.seed = values.number();
        batch.step = values.number();
        hk_corpus corpus{};
        corpus.example_count = values.number();
        const bool has_corpus = values.flag();
        ReadExamples read;
        std::vector<hk_example> examples(values.count());
        for (hk_example& example : examples) example = read.get(values);
        HK_ASSIGN(SharedFields given, shared_fields(values, "collate"));
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
        asked_examples_ = {};
        replies_.clear();
        return done;
    }

    int32_t get_example(uint64_t index, hk_example* example, hk_error* error) {
        WireWriter out;
        out.number(index);
        const Message& reply = replies_.emplace_back(ask(MessageKind::ask_example, out));
        WireReader in(reply.bytes);
        const auto code = static_cast<int32_t>(in.integer());
        if (code != HK_OK) {
            const std::string_view message = in.text();
            host_error_interface()->set(error, code, {message.data(), message.size()});
            return code;
        }
        if (fill_struct(example, asked_examples_.get(in))) return HK_OK;
        const std::string refusal = unfilled_text(example, "an example");
        host_error_interface()->set(error, HK_INVALID_ARGUMENT, {refusal.data(), refusal.size()});
        return HK_INVALID_ARGUMENT;
    }

    Status decode(WireReader& in, WireWriter& out) {
        HK_ASSIGN(WireReader values, shared(in));
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
        HK_ASSIGN(const SharedFields given, shared_fields(values, "decode"));
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
    std::unique_ptr<Asked> asked_;
    hk_tokenizer tokenizer_;
    std::unique_ptr<PluginSet> parts_;
    ReadExamples asked_examples_; // of one collate call; they point into the replies
    std::deque<Message> replies_;
};

} // namespace

int serve(FileHandle socket, SharedMemory memory) {
    auto server = std::make_unique<Server>(std::move(socket), std::move(memory));
    return server->run();
}

} // namespace hekla::plugin
