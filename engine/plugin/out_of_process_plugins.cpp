#include "plugin/out_of_process_plugins.hpp"

#include "base/child_process.hpp"
#include "base/json.hpp"
#include "base/module.hpp"
#include "graph/reference.hpp"
#include "graph/text.hpp"
#include "plugin/host_error.hpp"
#include "plugin/host_operation.hpp"
#include "plugin/host_tokenizer.hpp"
#include "plugin/messages.hpp"

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/draft/adapter.h"
#include "hekla/plugin/objective.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

namespace hekla::plugin {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTries = 3;      // of one batch
constexpr int kMostRestarts = 16;  // in the life of the parts
constexpr std::size_t kAlign = 64; // of fields in the shared memory

Result<fs::path> describing_program(const fs::path& given) {
    const fs::path own = own_folder();
    const std::vector<std::string> places =
        given.empty() ? std::vector{(own / "hekla-describe").string(),
                                    (own.parent_path() / "libexec" / "hekla-describe").string()}
                      : std::vector{given.string()};
    for (const std::string& place : places)
        if (::access(place.c_str(), X_OK) == 0) return fs::absolute(place);
    return not_found(fmt::format("hekla-describe, which loads plugins in a process of its own, is not at {}: say where "
                                 "it is, or let plugins describe in this process (--describe-in process, "
                                 "HK_DESCRIBE_IN_PROCESS)",
                                 fmt::join(places, " nor at ")));
}

// Whoever described the graph has the operation; it is opened here when float64 asks for it.
graph::OwnReference reference_here(const Registry& registry, std::string name, uint32_t revision) {
    return [&registry, name = std::move(name), revision](std::span<const graph::Tensor* const> inputs,
                                                         std::span<const graph::Attribute> attributes,
                                                         std::span<graph::Tensor> outputs) -> Status {
        OwnOperations own(
            [&](const std::string& id) { return registry.open<hk_operation>(HK_OPERATION_INTERFACE, id); });
        HK_ASSIGN(const OwnOperations::Known* known, own.find(name, revision));
        return known->operation->declaration().reference(inputs, attributes, outputs);
    };
}

// What a process was asked for, as its answer; or how it ended instead.
struct Exchanged {
    Result<Message> answer = internal_error("nothing was asked");
    std::string died; // "crashed with SIGSEGV (Segmentation fault)"; empty: it did not
    const Manifest* doing = nullptr;
    std::string function;
};

class OutOfProcessPlugins final : public PluginSet {
public:
    OutOfProcessPlugins(const Registry& registry, const hk_tokenizer* tokenizer, WorkerPurpose purpose,
                        fs::path program)
        : registry_(registry), tokenizer_(tokenizer), purpose_(purpose), program_(std::move(program)) {}

    Status create(const PartsSpec& spec) {
        put_spec(create_, spec);
        std::vector<std::string> files;
        const auto wanted = [&](const auto& self, const PartsSpec& s, const Provided& p) -> bool {
            if (s.architecture && p.interface_id == HK_ARCHITECTURE_INTERFACE && p.id == s.architecture->id)
                return true;
            if (s.adapter && p.interface_id == HK_ADAPTER_DRAFT && p.id == s.adapter->id) return true;
            if (s.objective && p.interface_id == HK_OBJECTIVE_INTERFACE && p.id == s.objective->id) return true;
            for (const PartsSpec::Head& head : s.heads)
                if (p.interface_id == HK_HEAD_INTERFACE && p.id == head.part.id) return true;
            return s.teacher != nullptr && self(self, *s.teacher, p);
        };
        for (const Manifest& manifest : registry_.manifests()) {
            const bool part =
                std::ranges::any_of(manifest.provides, [&](const Provided& p) { return wanted(wanted, spec, p); });
            if (part) manifests_.push_back(&manifest);
            if (part || std::ranges::any_of(manifest.provides,
                                            [](const Provided& p) { return p.interface_id == HK_OPERATION_INTERFACE; }))
                files.emplace_back(manifest.file);
        }
        create_.texts(files);
        create_.integer(tokenizer_ != nullptr ? tokenizer_->view->size() : -1);
        HK_ASSIGN(std::unique_ptr<Worker> first, start());
        idle_.push_back(std::move(first));
        return {};
    }

    const ReadKeys& read() const override { return read_; }

    Result<Described> build(const BuildRequest& request) override {
        WireWriter out;
        out.integer(request.mode);
        put_fields(out, request.fields);
        out.texts(request.ports);
        out.flag(request.all_ports);
        out.flag(request.body_frozen);
        out.flag(request.objective);
        out.integer(request.calls);
        HK_ASSIGN(const Message message, ask(MessageKind::build, out));
        WireReader in = answer_of(message);
        const std::string_view text = in.text();
        struct Source {
            std::string file;
            uint32_t line = 0;
        };
        std::map<std::string, Source, std::less<>> sources;
        for (std::size_t left = in.count(); left > 0; --left) {
            const std::string label(in.text());
            const std::string_view file = in.text();
            sources[label] = {std::string(file), static_cast<uint32_t>(in.number())};
        }
        Described described;
        described.parts.resize(in.count());
        std::size_t first = 0;
        for (GraphPart& part : described.parts) {
            part.what = in.text();
            part.manifest = in.text();
            part.first = first;
            part.end = first = static_cast<std::size_t>(in.number());
        }
        HK_TRY(in.finish("the process that describes"));
        Result<graph::Graph> graph = graph::parse(text, [&](graph::OwnDeclaration& d) {
            if (const auto found = sources.find(fmt::format("{}/{}", d.name, d.revision)); found != sources.end()) {
                d.glsl_file = found->second.file;
                d.glsl_line = found->second.line;
            }
            d.reference = reference_here(registry_, d.name, d.revision);
        });
        if (!graph.ok()) return graph.status().with_context("what the process that describes says is no graph");
        described.graph = graph.take();
        std::size_t last = 0;
        for (const GraphPart& part : described.parts) {
            if (part.end < last || part.end > described.graph.nodes.size())
                return corrupt("the process that describes: parts that are none of the graph");
            last = part.end;
        }
        return described;
    }

    Result<std::set<std::string>> parameters(const std::vector<BatchField>& fields) override {
        WireWriter out;
        put_fields(out, fields);
        HK_ASSIGN(std::vector<std::string> names, ask_texts(MessageKind::parameters, out));
        return std::set<std::string>(std::make_move_iterator(names.begin()), std::make_move_iterator(names.end()));
    }

    Result<nlohmann::ordered_json> write_config() override {
        HK_ASSIGN(const Message message, ask(MessageKind::write_config, WireWriter()));
        WireReader in = answer_of(message);
        const std::string_view text = in.text();
        HK_TRY(in.finish("the process that describes"));
        return parse_ordered_json_object(text, "the process that describes: write_config");
    }

    Result<std::vector<std::string>> decode_ports() override {
        return ask_texts(MessageKind::decode_ports, WireWriter());
    }

    Result<int32_t> example_kind() override {
        HK_ASSIGN(const int64_t kind, ask_integer(MessageKind::example_kind, WireWriter()));
        return static_cast<int32_t>(kind);
    }

    Result<bool> can_collate() override {
        HK_ASSIGN(const int64_t can, ask_integer(MessageKind::can_collate, WireWriter()));
        return can != 0;
    }

    Result<int64_t> tokens_per_example(int64_t length) override {
        WireWriter out;
        out.integer(length);
        return ask_integer(MessageKind::tokens_per_example, out);
    }

    Result<std::vector<ColumnNeed>> columns() override {
        HK_ASSIGN(const Message message, ask(MessageKind::columns, WireWriter()));
        WireReader in = answer_of(message);
        std::vector<ColumnNeed> needs(in.count());
        for (ColumnNeed& need : needs) {
            need.name = in.text();
            need.kind = static_cast<int32_t>(in.integer());
            need.optional = in.flag();
            need.target = in.flag();
            if (need.kind < HK_COLUMN_TOKENS || need.kind > HK_COLUMN_SPANS)
                return corrupt(fmt::format("the process that describes: a column of kind {}", need.kind));
        }
        HK_TRY(in.finish("the process that describes"));
        return needs;
    }

    Result<std::vector<BatchField>> batch_fields(int64_t batch, int64_t length) override {
        WireWriter out;
        out.integer(batch);
        out.integer(length);
        HK_ASSIGN(const Message message, ask(MessageKind::batch_fields, out));
        WireReader in = answer_of(message);
        Status status;
        std::vector<BatchField> fields = get_fields(in, status);
        HK_TRY(status.with_context("the process that describes"));
        HK_TRY(in.finish("the process that describes"));
        return fields;
    }

    int64_t example_length(const hk_example& example) override {
        WireWriter out;
        put_example(out, example);
        const Result<int64_t> length = ask_integer(MessageKind::example_length, out);
        return length.ok() ? length.value() : 0; // collate says what is wrong
    }

    Status collate(const hk_batch& batch, std::span<hk_field> fields) override {
        WireWriter values;
        values.number(batch.seed);
        values.number(batch.corpus != nullptr ? batch.corpus->example_count : 0);
        values.flag(batch.corpus != nullptr);
        values.number(batch.example_count);
        for (uint32_t i = 0; i < batch.example_count; ++i) put_example(values, batch.examples[i]);
        const auto take = [&](const SharedMemory& memory, std::span<const std::size_t> offsets) {
            for (std::size_t i = 0; i < fields.size(); ++i)
                std::memcpy(fields[i].data, memory.data() + offsets[i], bytes_of(fields[i]));
        };
        std::string which;
        for (uint32_t i = 0; i < std::min(batch.example_count, 8u); ++i)
            which += fmt::format("{}{}", i == 0 ? "" : ", ", batch.examples[i].index);
        which = fmt::format("seed {}, examples {}{}", batch.seed, which, batch.example_count > 8 ? ", ..." : "");
        return ask_shared(MessageKind::collate, values, fields, batch.corpus, take, which).status();
    }

    Result<std::vector<std::string>> decode(const hk_decode_input& input) override {
        WireWriter values;
        values.number(input.row_count);
        values.flag(input.tokenizer != nullptr);
        values.number(input.output_count);
        for (uint32_t i = 0; i < input.output_count; ++i) {
            const hk_output& output = input.outputs[i];
            values.text(view(output.port));
            values.array(std::span<const int64_t>(output.dims, output.rank));
            values.array(std::span<const float>(output.values, elements_of(output)));
        }
        const std::vector<hk_field> fields(input.fields, input.fields + input.field_count);
        HK_ASSIGN(const Message message, ask_shared(MessageKind::decode, values, fields, nullptr, {}, "decode"));
        WireReader in = answer_of(message);
        std::vector<std::string> rows = in.texts();
        HK_TRY(in.finish("the process that decodes"));
        if (rows.size() != input.row_count)
            return corrupt(fmt::format("decode said something of {} rows, there are {}", rows.size(), input.row_count));
        return rows;
    }

private:
    struct Worker {
        std::unique_ptr<ChildProcess> program;
        const Manifest* doing = nullptr;
        std::string function;
    };
    // A process for one question; given back, unless it died.
    class Held {
    public:
        Held(OutOfProcessPlugins& parts, std::unique_ptr<Worker> worker) : parts_(parts), worker_(std::move(worker)) {}
        Held(Held&& other) noexcept : parts_(other.parts_), worker_(std::move(other.worker_)) {}
        Held& operator=(Held&&) = delete;
        ~Held() {
            if (worker_ != nullptr) parts_.release(std::move(worker_));
        }
        Worker& operator*() const { return *worker_; }
        void drop() {
            worker_.reset();
            parts_.release(nullptr);
        }

    private:
        OutOfProcessPlugins& parts_;
        std::unique_ptr<Worker> worker_;
    };

    template<class T>
    static std::size_t elements_of(const T& tensor) {
        std::size_t count = 1;
        for (uint32_t d = 0; d < tensor.rank; ++d) count *= static_cast<std::size_t>(tensor.dims[d]);
        return count;
    }
    static std::size_t bytes_of(const hk_field& field) { return elements_of(field) * 4; }

    // An answer that exchange() found to be ok: what stands behind the flag.
    static WireReader answer_of(const Message& message) {
        WireReader in(message.bytes);
        in.flag();
        return in;
    }

    // A process with its plugins created.
    Result<std::unique_ptr<Worker>> start() {
        auto worker = std::make_unique<Worker>();
        const uint64_t memory = registry_.processes().memory_bytes;
        Result<std::unique_ptr<ChildProcess>> program =
            ChildProcess::start(program_, {kProtocol, fmt::format("{}", memory)}, [this](std::string_view line) {
                registry_.log().info(fmt::format("a plugin says: {}", line));
            });
        if (!program.ok())
            return Status(program.code(),
                          fmt::format("{}; where no process may be started, plugins can describe in this "
                                      "one (--describe-in process, HK_DESCRIBE_IN_PROCESS)",
                                      program.message()));
        worker->program = program.take();
        const Exchanged made = exchange(*worker, MessageKind::create, create_, nullptr);
        if (!made.died.empty()) return told(made);
        HK_TRY(made.answer.status());
        WireReader in = answer_of(made.answer.value());
        ReadKeys read = get_read_keys(in);
        HK_TRY(in.finish("the process that describes"));
        const std::scoped_lock hold(lock_);
        if (!created_) read_ = std::move(read);
        created_ = true;
        return worker;
    }

    Result<Held> acquire() {
        std::unique_lock hold(lock_);
        const std::size_t most = purpose_ == WorkerPurpose::describing ? 1 : 64;
        free_.wait(hold, [&] { return !idle_.empty() || busy_ < most; });
        ++busy_;
        if (!idle_.empty()) {
            std::unique_ptr<Worker> worker = std::move(idle_.back());
            idle_.pop_back();
            return Held(*this, std::move(worker));
        }
        hold.unlock();
        Result<std::unique_ptr<Worker>> worker = start();
        if (worker.ok()) return Held(*this, worker.take());
        release(nullptr);
        return worker.status();
    }

    void release(std::unique_ptr<Worker> worker) {
        const std::scoped_lock hold(lock_);
        --busy_;
        if (worker != nullptr) idle_.push_back(std::move(worker));
        free_.notify_one();
    }

    // How the process ended that does not answer.
    std::string death_of(Worker& worker, Code why) {
        const ProcessEnd end = worker.program->end();
        const Processes& limits = registry_.processes();
        std::string text;
        if (why == Code::cancelled)
            text = fmt::format("did not come back within {:g} s", limits.seconds);
        else if (why == Code::out_of_memory)
            text = fmt::format("took more memory than the {} MiB that its process may have", limits.memory_bytes >> 20);
        else if (why == Code::corrupt)
            text = "wrote into what its process says to Hekla";
        else if (end.signal != 0)
            text = fmt::format("crashed with {}", signal_text(end.signal));
        else
            text = fmt::format("ended its process with status {}", end.status);
        return text;
    }

    // One question to one process, and its answer. Asks of the process are answered meanwhile.
    Exchanged exchange(Worker& worker, MessageKind kind, const WireWriter& out, const hk_corpus* corpus) {
        Exchanged result;
        Channel& channel = worker.program->channel();
        worker.doing = nullptr;
        worker.function.clear();
        const auto deadline = Channel::Clock::now() + std::chrono::duration_cast<Channel::Clock::duration>(
                                                          std::chrono::duration<double>(registry_.processes().seconds));
        const auto died = [&](Code why) {
            result.died = death_of(worker, why);
            result.doing = worker.doing;
            result.function = worker.function;
            if (worker.doing == nullptr && !worker.program->last_words().empty())
                result.died += fmt::format(" ({})", last_line(worker.program->last_words()));
            return std::move(result);
        };
        if (const Status sent = channel.send(static_cast<uint32_t>(kind), out.bytes(), deadline); !sent.ok()) {
            if (sent.code() == Code::unsupported) {
                result.answer = sent;
                return result;
            }
            return died(sent.code());
        }
        bool no_memory = false;
        while (true) {
            Result<Message> message = channel.receive(deadline);
            if (!message.ok())
                return died(no_memory && message.code() == Code::io ? Code::out_of_memory : message.code());
            WireReader in(message.value().bytes);
            switch (static_cast<MessageKind>(message.value().kind)) {
            case MessageKind::doing: {
                worker.doing = registry_.manifest_at(in.text());
                worker.function = in.text().substr(0, 64);
                break;
            }
            case MessageKind::out_of_memory: no_memory = true; break;
            case MessageKind::log: {
                const int64_t severity = std::clamp<int64_t>(in.integer(), 0, static_cast<int64_t>(Severity::error));
                registry_.log().write(static_cast<Severity>(severity), in.text());
                break;
            }
            case MessageKind::ask_special:
            case MessageKind::ask_words:
            case MessageKind::ask_decode:
            case MessageKind::ask_example: {
                const WireWriter reply = reply_to(static_cast<MessageKind>(message.value().kind), in, corpus);
                if (const Status sent =
                        channel.send(static_cast<uint32_t>(MessageKind::reply), reply.bytes(), deadline);
                    !sent.ok())
                    return died(sent.code());
                break;
            }
            case MessageKind::answer: {
                result.answer = checked(message.take(), worker.function);
                return result;
            }
            default: return died(Code::corrupt);
            }
            if (!in.ok()) return died(Code::corrupt);
        }
    }

    static std::string last_line(std::string text) {
        while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
        return text.substr(text.rfind('\n') + 1); // npos + 1 is 0
    }

    // The answer, or the error that it is.
    Result<Message> checked(Message message, const std::string& function) {
        WireReader in(message.bytes);
        if (in.flag()) return message;
        const int64_t code = in.integer();
        std::string text(in.text());
        const std::string_view blamed = in.text();
        HK_TRY(in.finish("the process that describes"));
        if (code < static_cast<int64_t>(Code::invalid_argument) || code > static_cast<int64_t>(Code::internal))
            return internal_error(text);
        if (const Manifest* manifest = registry_.manifest_at(blamed);
            manifest != nullptr && purpose_ == WorkerPurpose::describing)
            registry_.blame(*manifest, fmt::format("it threw an exception in {}()", function));
        if (static_cast<Code>(code) == Code::out_of_memory && registry_.processes().memory_bytes > 0)
            text += fmt::format(" (its process may have {} MiB)", registry_.processes().memory_bytes >> 20);
        return Status(static_cast<Code>(code), text);
    }

    WireWriter reply_to(MessageKind kind, WireReader& in, const hk_corpus* corpus) const {
        WireWriter out;
        const TokenizerView* tokens = tokenizer_ != nullptr ? tokenizer_->view : nullptr;
        if (kind == MessageKind::ask_special) {
            out.integer(tokens != nullptr ? tokens->special(in.text()) : -1);
        } else if (kind == MessageKind::ask_words) {
            std::vector<uint8_t> bytes;
            for (int64_t id = 0; tokens != nullptr && id < tokens->size(); ++id)
                bytes.push_back(
                    static_cast<uint8_t>((tokens->begins_word(id) ? 1 : 0) | (tokens->ends_sentence(id) ? 2 : 0)));
            out.array(std::span<const uint8_t>(bytes));
        } else if (kind == MessageKind::ask_decode) {
            const std::span<const int64_t> ids = in.array<int64_t>();
            out.text(tokens != nullptr ? tokens->decode(ids) : std::string());
        } else {
            const uint64_t index = in.number();
            hk_example example{};
            hk_error error;
            int32_t code = HK_NOT_FOUND;
            if (corpus != nullptr) code = corpus->get(corpus->context, index, &example, &error);
            out.integer(code);
            if (code == HK_OK)
                put_example(out, example);
            else
                out.text(error.message);
        }
        return out;
    }

    // Who did it, and what.
    static std::string deed(const Exchanged& e) {
        if (e.doing == nullptr) return fmt::format("hekla-describe {}", e.died);
        return fmt::format("plugin '{}' ({}) {} in {}()", e.doing->plugin, e.doing->library, e.died, e.function);
    }

    // The error of a process that died; while it described, the plugin is blamed.
    Status told(const Exchanged& e) {
        if (e.doing != nullptr) registry_.blame(*e.doing, fmt::format("it {} in {}()", e.died, e.function));
        return internal_error(deed(e));
    }

    Result<Message> ask(MessageKind kind, const WireWriter& out) {
        for (int attempt = 1;; ++attempt) {
            if (purpose_ == WorkerPurpose::describing)
                for (const Manifest* manifest : manifests_) HK_TRY(registry_.check_enabled(*manifest));
            HK_ASSIGN(Held worker, acquire());
            Exchanged e = exchange(*worker, kind, out, nullptr);
            if (e.died.empty()) return std::move(e.answer);
            worker.drop();
            if (purpose_ == WorkerPurpose::describing) return told(e);
            HK_TRY(may_begin_again(e, attempt, "an example"));
        }
    }

    Result<int64_t> ask_integer(MessageKind kind, const WireWriter& out) {
        HK_ASSIGN(const Message message, ask(kind, out));
        WireReader in = answer_of(message);
        const int64_t value = in.integer();
        HK_TRY(in.finish("the process with the plugins"));
        return value;
    }

    Result<std::vector<std::string>> ask_texts(MessageKind kind, const WireWriter& out) {
        HK_ASSIGN(const Message message, ask(kind, out));
        WireReader in = answer_of(message);
        std::vector<std::string> texts = in.texts();
        HK_TRY(in.finish("the process with the plugins"));
        return texts;
    }

    // A question about fields that lie in the shared memory, put in and, by `take`, taken out again.
    Result<Message>
    ask_shared(MessageKind kind, const WireWriter& first, std::span<const hk_field> fields, const hk_corpus* corpus,
               const std::function<void(const SharedMemory& memory, std::span<const std::size_t> offsets)>& take,
               const std::string& which) {
        std::vector<BatchField> described;
        std::vector<std::size_t> offsets;
        for (const hk_field& field : fields)
            described.push_back({std::string(view(field.name)),
                                 field.kind == HK_KIND_INT32 ? graph::Kind::int32 : graph::Kind::float32,
                                 graph::Shape(std::span<const int64_t>(field.dims, field.rank))});
        WireWriter values = first;
        put_fields(values, described);
        std::size_t end = values.bytes().size() + fields.size() * 8;
        for (const hk_field& field : fields) {
            end = (end + kAlign - 1) / kAlign * kAlign;
            offsets.push_back(end);
            end += bytes_of(field);
        }
        for (const std::size_t offset : offsets) values.number(offset);
        for (int attempt = 1;; ++attempt) {
            HK_ASSIGN(Held worker, acquire());
            SharedMemory& memory = (*worker).program->memory();
            HK_TRY(memory.grow(end));
            std::memcpy(memory.data(), values.bytes().data(), values.bytes().size());
            for (std::size_t i = 0; i < fields.size(); ++i)
                std::memcpy(memory.data() + offsets[i], fields[i].data, bytes_of(fields[i]));
            WireWriter out;
            out.number(memory.size());
            out.number(values.bytes().size());
            Exchanged e = exchange(*worker, kind, out, corpus);
            if (e.died.empty()) {
                if (e.answer.ok() && take) take(memory, offsets);
                return std::move(e.answer);
            }
            worker.drop();
            HK_TRY(may_begin_again(e, attempt, which));
        }
    }

    // Whether what a worker died of is tried again; it is said in either case.
    Status may_begin_again(const Exchanged& e, int attempt, const std::string& which) {
        const std::scoped_lock hold(lock_);
        const std::string look =
            e.doing != nullptr ? fmt::format("; `hekla plugin check {}` looks for why", e.doing->library) : "";
        if (attempt >= kMostTries)
            return internal_error(
                fmt::format("{}, {} times with the same batch ({}){}", deed(e), attempt, which, look));
        if (restarts_ >= kMostRestarts)
            return internal_error(
                fmt::format("{} ({}), after {} processes of it ended so before{}", deed(e), which, restarts_, look));
        ++restarts_;
        registry_.log().warning(
            fmt::format("{} ({}): its process is begun again (restart {} of at most {}) and the batch is repeated",
                        deed(e), which, restarts_, kMostRestarts));
        return {};
    }

    const Registry& registry_;
    const hk_tokenizer* tokenizer_;
    WorkerPurpose purpose_;
    fs::path program_;
    WireWriter create_;
    std::vector<const Manifest*> manifests_; // of the parts themselves
    std::mutex lock_;
    std::condition_variable free_;
    std::vector<std::unique_ptr<Worker>> idle_;
    std::size_t busy_ = 0;
    int restarts_ = 0;
    bool created_ = false;
    ReadKeys read_;
};

} // namespace

Result<std::unique_ptr<PluginSet>> make_out_of_process_plugins(const Registry& registry, const PartsSpec& spec,
                                                               const hk_tokenizer* tokenizer, WorkerPurpose purpose) {
    HK_ASSIGN(fs::path program, describing_program(registry.processes().program));
    auto parts = std::make_unique<OutOfProcessPlugins>(registry, tokenizer, purpose, std::move(program));
    HK_TRY(parts->create(spec));
    return std::unique_ptr<PluginSet>(std::move(parts));
}

} // namespace hekla::plugin
