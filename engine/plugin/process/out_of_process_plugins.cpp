#include "plugin/process/out_of_process_plugins.hpp"

#include "base/host.hpp"
#include "base/json.hpp"
#include "base/module.hpp"
#include "graph/reference.hpp"
#include "graph/text.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/host/host_operation.hpp"
#include "plugin/host/host_tokenizer.hpp"
#include "plugin/process/worker_pool.hpp"

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/combiner.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/optimizer.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::plugin {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTries = 3;            // of one batch
constexpr int kMostRestarts = 16;        // of all processes of one OutOfProcessPlugins
constexpr std::size_t kMostWorkers = 64; // processes that collate and decode
constexpr std::size_t kAlign = 64;       // of fields in the shared memory, in bytes

Result<fs::path> worker_program(const fs::path& given) {
    const fs::path own = own_folder();
    const std::vector<std::string> places =
        given.empty() ? std::vector{(own / "hekla-describe").string(),
                                    (own.parent_path() / "libexec" / "hekla-describe").string()}
                      : std::vector{given.string()};
    for (const std::string& place : places)
        if (is_executable(place)) return fs::absolute(place);
    return not_found(
        fmt::format("hekla-describe, the program that runs plugins in their own process, was not found at {}: "
                    "give its path (--describe-program), or run plugins in this process (--describe-in process, "
                    "HK_DESCRIBE_IN_PROCESS)",
                    fmt::join(places, " nor at ")));
}

// Returns the reference of an operation whose graph was described elsewhere; its library is opened at the first use.
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

class OutOfProcessPlugins final : public PluginSet {
public:
    OutOfProcessPlugins(const Registry& registry, const hk_tokenizer* tokenizer, WorkerPurpose purpose,
                        fs::path program)
        : registry_(registry), tokenizer_(tokenizer), purpose_(purpose), program_(std::move(program)),
          protocol_(registry, tokenizer, purpose),
          pool_(purpose == WorkerPurpose::describing ? 1 : kMostWorkers, [this] { return start(); }) {}

    Status create(const PartsSpec& spec) {
        put_spec(create_, spec);
        std::vector<std::string> files;
        const auto wanted = [&](const auto& self, const PartsSpec& s, const Provided& p) -> bool {
            if (s.architecture && p.interface_id == HK_ARCHITECTURE_INTERFACE && p.id == s.architecture->id)
                return true;
            for (const AdapterSpec& adapter : s.adapters)
                if (p.interface_id == HK_ADAPTER_INTERFACE && p.id == adapter.part.id) return true;
            for (const PartSpec& combiner : s.combiners)
                if (p.interface_id == HK_COMBINER_INTERFACE && p.id == combiner.id) return true;
            for (const PartSpec& optimizer : s.optimizers)
                if (p.interface_id == HK_OPTIMIZER_INTERFACE && p.id == optimizer.id) return true;
            if (s.objective && p.interface_id == HK_OBJECTIVE_INTERFACE && p.id == s.objective->id) return true;
            for (const PartsSpec::Head& head : s.heads)
                if (p.interface_id == HK_HEAD_INTERFACE && p.id == head.part.id) return true;
            return (s.teacher != nullptr && self(self, *s.teacher, p)) ||
                   (s.value != nullptr && self(self, *s.value, p));
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
        pool_.add(std::move(first));
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
        out.integer(request.cache_capacity);
        out.flag(request.merged);
        out.flag(request.merge_pairs);
        out.flag(request.initial);
        HK_ASSIGN(const Message message, ask(MessageKind::build, out));
        WireReader in = answer_of(message);
        const SentGraph sent = sent_graph(in);
        Described described;
        described.parts.resize(in.count());
        std::size_t first = 0;
        for (GraphPart& part : described.parts) {
            part.what = in.text();
            part.manifest = in.text();
            part.first = first;
            part.end = first = static_cast<std::size_t>(in.number());
        }
        described.sites = get_sites(in);
        HK_TRY(in.finish("the worker process"));
        HK_ASSIGN(described.graph, parsed(sent));
        std::size_t last = 0;
        for (const GraphPart& part : described.parts) {
            if (part.end < last || part.end > described.graph.nodes.size())
                return corrupt("the worker process sent parts outside of the graph");
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
        return ask_config(MessageKind::write_config, "the worker process: write_config");
    }

    Result<nlohmann::ordered_json> write_adapter_config() override {
        return ask_config(MessageKind::write_adapter_config, "the worker process: write_config of the adapter");
    }

    Result<VirtualTokens> virtual_tokens() override {
        HK_ASSIGN(const int64_t code, ask_integer(MessageKind::virtual_tokens, WireWriter()));
        return VirtualTokens{code >> 2, (code & 1) != 0, (code & 2) != 0};
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
            if (need.kind < HK_COLUMN_TOKENS || need.kind > HK_COLUMN_MESSAGES)
                return corrupt(fmt::format("the worker process: a column of the unknown kind {}", need.kind));
        }
        HK_TRY(in.finish("the worker process"));
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
        HK_TRY(status.with_context("the worker process"));
        HK_TRY(in.finish("the worker process"));
        return fields;
    }

    Result<bool> takes(std::size_t optimizer, const OptimizedParameter& parameter) override {
        WireWriter out;
        out.number(optimizer);
        put_parameter(out, parameter);
        HK_ASSIGN(const int64_t taken, ask_integer(MessageKind::takes, out));
        return taken != 0;
    }

    Result<UpdateGraph> update(std::size_t optimizer, const OptimizedParameter& parameter) override {
        WireWriter out;
        out.number(optimizer);
        put_parameter(out, parameter);
        HK_ASSIGN(const Message message, ask(MessageKind::update, out));
        WireReader in = answer_of(message);
        const SentGraph sent = sent_graph(in);
        UpdateGraph update;
        Status status;
        update.states = get_states(in, status);
        HK_TRY(status.with_context("the worker process"));
        HK_TRY(in.finish("the worker process"));
        HK_ASSIGN(update.graph, parsed(sent));
        return update;
    }

    int64_t example_length(const hk_example& example) override {
        WireWriter out;
        put_example(out, example);
        const Result<int64_t> length = ask_integer(MessageKind::example_length, out);
        return length.ok() ? length.value() : 0; // collate reports the error
    }

    Status collate(const hk_batch& batch, std::span<hk_field> fields) override {
        WireWriter values;
        values.number(batch.seed);
        values.number(batch.step);
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
        HK_TRY(in.finish("the worker process"));
        if (rows.size() != input.row_count)
            return corrupt(
                fmt::format("decode gave results for {} rows; the batch has {}", rows.size(), input.row_count));
        return rows;
    }

private:
    // A graph as the process sends it, with the locations of plugins' kernels in source files, by their labels.
    struct Source {
        std::string file;
        uint32_t line = 0;
    };
    struct SentGraph {
        std::string_view text; // in the message
        std::map<std::string, Source, std::less<>> sources;
    };
    static SentGraph sent_graph(WireReader& in) {
        SentGraph sent{in.text(), {}};
        for (std::size_t left = in.count(); left > 0; --left) {
            const std::string label(in.text());
            const std::string_view file = in.text();
            sent.sources[label] = {std::string(file), static_cast<uint32_t>(in.number())};
        }
        return sent;
    }
    Result<graph::Graph> parsed(const SentGraph& sent) const {
        Result<graph::Graph> graph = graph::parse(sent.text, [&](graph::OwnDeclaration& d) {
            if (const auto found = sent.sources.find(fmt::format("{}/{}", d.name, d.revision));
                found != sent.sources.end()) {
                d.glsl_file = found->second.file;
                d.glsl_line = found->second.line;
            }
            d.reference = reference_here(registry_, d.name, d.revision);
        });
        if (!graph.ok()) return graph.status().with_context("the worker process sent an invalid graph");
        return graph;
    }

    template<class T>
    static std::size_t elements_of(const T& tensor) {
        std::size_t count = 1;
        for (uint32_t d = 0; d < tensor.rank; ++d) count *= static_cast<std::size_t>(tensor.dims[d]);
        return count;
    }
    static std::size_t bytes_of(const hk_field& field) { return elements_of(field) * 4; }

    // Starts a process and creates its plugins.
    Result<std::unique_ptr<Worker>> start() {
        auto worker = std::make_unique<Worker>();
        const uint64_t memory = registry_.processes().memory_bytes;
        Result<std::unique_ptr<ChildProcess>> program =
            ChildProcess::start(program_, {kProtocol, fmt::format("{}", memory)}, [this](std::string_view line) {
                registry_.log().info(fmt::format("printed by a plugin: {}", line));
            });
        if (!program.ok())
            return Status(program.code(),
                          fmt::format("{}; if processes cannot be started here, run plugins in this one "
                                      "(--describe-in process, HK_DESCRIBE_IN_PROCESS)",
                                      program.message()));
        worker->process = program.take();
        const Exchange made = protocol_.exchange(*worker, MessageKind::create, create_, nullptr);
        if (!made.exit_reason.empty()) return protocol_.failure_status(made);
        HK_TRY(made.answer.status());
        WireReader in = answer_of(made.answer.value());
        ReadKeys read = get_read_keys(in);
        HK_TRY(in.finish("the worker process"));
        const std::scoped_lock hold(lock_);
        if (!created_) read_ = std::move(read);
        created_ = true;
        return worker;
    }

    Result<Message> ask(MessageKind kind, const WireWriter& out) {
        for (int attempt = 1;; ++attempt) {
            if (purpose_ == WorkerPurpose::describing)
                for (const Manifest* manifest : manifests_) HK_TRY(registry_.check_enabled(*manifest));
            HK_ASSIGN(WorkerPool::Lease worker, pool_.acquire());
            Exchange e = protocol_.exchange(*worker, kind, out, nullptr);
            if (e.exit_reason.empty()) return std::move(e.answer);
            worker.discard();
            if (purpose_ == WorkerPurpose::describing) return protocol_.failure_status(e);
            HK_TRY(should_retry(e, attempt, "an example"));
        }
    }

    Result<int64_t> ask_integer(MessageKind kind, const WireWriter& out) {
        HK_ASSIGN(const Message message, ask(kind, out));
        WireReader in = answer_of(message);
        const int64_t value = in.integer();
        HK_TRY(in.finish("the worker process"));
        return value;
    }

    Result<nlohmann::ordered_json> ask_config(MessageKind kind, const std::string& what) {
        HK_ASSIGN(const Message message, ask(kind, WireWriter()));
        WireReader in = answer_of(message);
        const std::string_view text = in.text();
        HK_TRY(in.finish("the worker process"));
        return parse_ordered_json_object(text, what);
    }
    Result<std::vector<std::string>> ask_texts(MessageKind kind, const WireWriter& out) {
        HK_ASSIGN(const Message message, ask(kind, out));
        WireReader in = answer_of(message);
        std::vector<std::string> texts = in.texts();
        HK_TRY(in.finish("the worker process"));
        return texts;
    }

    // Sends a request about fields in shared memory: copies them there and, with `take`, back again.
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
            HK_ASSIGN(WorkerPool::Lease worker, pool_.acquire());
            SharedMemory& memory = (*worker).process->memory();
            HK_TRY(memory.grow(end));
            std::memcpy(memory.data(), values.bytes().data(), values.bytes().size());
            for (std::size_t i = 0; i < fields.size(); ++i)
                std::memcpy(memory.data() + offsets[i], fields[i].data, bytes_of(fields[i]));
            WireWriter out;
            out.number(memory.size());
            out.number(values.bytes().size());
            Exchange e = protocol_.exchange(*worker, kind, out, corpus);
            if (e.exit_reason.empty()) {
                if (e.answer.ok() && take) take(memory, offsets);
                return std::move(e.answer);
            }
            worker.discard();
            HK_TRY(should_retry(e, attempt, which));
        }
    }

    // Returns ok if the request of an ended process should be repeated, which is logged; otherwise the error.
    Status should_retry(const Exchange& failed, int attempt, const std::string& which) {
        const std::scoped_lock hold(lock_);
        const std::string failure = PluginProtocol::failure_text(failed);
        const std::string hint =
            failed.plugin != nullptr ? fmt::format("; run `hekla plugin check {}`", failed.plugin->library) : "";
        if (attempt >= kMostTries)
            return internal_error(
                fmt::format("{}, {} times with the same batch ({}){}", failure, attempt, which, hint));
        if (restarts_ >= kMostRestarts)
            return internal_error(
                fmt::format("{} ({}), and the restart limit ({}) was reached{}", failure, which, kMostRestarts, hint));
        ++restarts_;
        registry_.log().warning(
            fmt::format("{} ({}): restarting its process (restart {} of at most {}) and repeating the batch", failure,
                        which, restarts_, kMostRestarts));
        return {};
    }

    const Registry& registry_;
    const hk_tokenizer* tokenizer_;
    WorkerPurpose purpose_;
    fs::path program_;
    WireWriter create_;
    std::vector<const Manifest*> manifests_; // of the parts themselves
    PluginProtocol protocol_;
    std::mutex lock_; // protects the members below except the pool
    int restarts_ = 0;
    bool created_ = false;
    ReadKeys read_;
    WorkerPool pool_; // last: its processes end first
};

} // namespace

Result<std::unique_ptr<PluginSet>> make_out_of_process_plugins(const Registry& registry, const PartsSpec& spec,
                                                               const hk_tokenizer* tokenizer, WorkerPurpose purpose) {
    HK_ASSIGN(fs::path program, worker_program(registry.processes().program));
    auto parts = std::make_unique<OutOfProcessPlugins>(registry, tokenizer, purpose, std::move(program));
    HK_TRY(parts->create(spec));
    return std::unique_ptr<PluginSet>(std::move(parts));
}

} // namespace hekla::plugin
