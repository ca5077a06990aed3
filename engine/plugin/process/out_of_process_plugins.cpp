#include "plugin/process/out_of_process_plugins.hpp"

#include "base/host.hpp"
#include "base/module.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/host/host_tokenizer.hpp"
#include "plugin/process/worker_pool.hpp"

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/combiner.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/operation.h"
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

// Returns whether a composition uses what a plugin provides.
bool is_part(const PartsSpec& spec, const Provided& provided) {
    const auto is = [&](const char* interface_id) {
        return [&provided, interface_id](const PartSpec& part) {
            return provided.interface_id == interface_id && provided.id == part.id;
        };
    };
    return (spec.architecture && is(HK_ARCHITECTURE_INTERFACE)(*spec.architecture)) ||
           (spec.objective && is(HK_OBJECTIVE_INTERFACE)(*spec.objective)) ||
           std::ranges::any_of(spec.adapters, is(HK_ADAPTER_INTERFACE), &AdapterSpec::part) ||
           std::ranges::any_of(spec.combiners, is(HK_COMBINER_INTERFACE)) ||
           std::ranges::any_of(spec.optimizers, is(HK_OPTIMIZER_INTERFACE)) ||
           std::ranges::any_of(spec.heads, is(HK_HEAD_INTERFACE), &PartsSpec::Head::part) ||
           (spec.teacher != nullptr && is_part(*spec.teacher, provided)) ||
           (spec.value != nullptr && is_part(*spec.value, provided));
}

class OutOfProcessPlugins final : public PluginSet {
public:
    OutOfProcessPlugins(const Registry& registry, const hk_tokenizer* tokenizer, WorkerPurpose purpose,
                        fs::path program)
        : registry_(registry), tokenizer_(tokenizer), purpose_(purpose), program_(std::move(program)),
          client_(registry, tokenizer, purpose),
          pool_(purpose == WorkerPurpose::describing ? 1 : kMostWorkers, [this] { return start(); }) {}

    Status create(const PartsSpec& spec) {
        put(create_, spec);
        std::vector<std::string> files;
        for (const Manifest& manifest : registry_.manifests()) {
            const bool part =
                std::ranges::any_of(manifest.provides, [&](const Provided& p) { return is_part(spec, p); });
            if (part) manifests_.push_back(&manifest);
            if (part || std::ranges::any_of(manifest.provides,
                                            [](const Provided& p) { return p.interface_id == HK_OPERATION_INTERFACE; }))
                files.emplace_back(manifest.file);
        }
        put(create_, files);
        put(create_, tokenizer_ != nullptr ? tokenizer_->view->size() : int64_t{-1});
        HK_ASSIGN(std::unique_ptr<Worker> first, start());
        pool_.add(std::move(first));
        return {};
    }

    const ReadKeys& read() const override { return read_; }

#define HK_PLUGIN_METHOD(value, name, parameters, arguments)                                                           \
    Result<value> name parameters override { return ask<value>(MessageKind::name, std::tie arguments); }
#define HK_PLUGIN_MEMORY_METHOD(returns, name, parameters, arguments)
#include "plugin/composition/plugin_methods.inc"
#undef HK_PLUGIN_METHOD
#undef HK_PLUGIN_MEMORY_METHOD

    Status collate(const hk_batch& batch, std::span<hk_field> fields) override {
        MessageWriter values;
        values.number(batch.seed);
        values.number(batch.step);
        values.number(batch.corpus != nullptr ? batch.corpus->example_count : 0);
        values.flag(batch.corpus != nullptr);
        values.number(batch.example_count);
        for (uint32_t i = 0; i < batch.example_count; ++i) put(values, batch.examples[i]);
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
        MessageWriter values;
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
        HK_ASSIGN(std::vector<std::string> rows, answered<std::vector<std::string>>(message));
        if (rows.size() != input.row_count)
            return corrupt(
                fmt::format("decode gave results for {} rows; the batch has {}", rows.size(), input.row_count));
        return rows;
    }

private:
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
        const Exchange made = client_.exchange(*worker, MessageKind::create, create_, nullptr);
        if (!made.exit_reason.empty()) return client_.failure_status(made);
        HK_TRY(made.answer.status());
        HK_ASSIGN(ReadKeys read, answered<ReadKeys>(made.answer.value()));
        const std::scoped_lock hold(lock_);
        if (!created_) read_ = std::move(read);
        created_ = true;
        return worker;
    }

    Result<Message> ask(MessageKind kind, const MessageWriter& out) {
        for (int attempt = 1;; ++attempt) {
            if (purpose_ == WorkerPurpose::describing)
                for (const Manifest* manifest : manifests_) HK_TRY(registry_.check_enabled(*manifest));
            HK_ASSIGN(WorkerPool::Lease worker, pool_.acquire());
            Exchange e = client_.exchange(*worker, kind, out, nullptr);
            if (e.exit_reason.empty()) return std::move(e.answer);
            worker.discard();
            if (purpose_ == WorkerPurpose::describing) return client_.failure_status(e);
            HK_TRY(should_retry(e, attempt, "an example"));
        }
    }

    // Calls a method of the process's plugins by value.
    template<class Value, class... A>
    Result<Value> ask(MessageKind method, const std::tuple<A...>& arguments) {
        MessageWriter out;
        std::apply([&](const auto&... argument) { (put(out, argument), ...); }, arguments);
        HK_ASSIGN(const Message message, ask(method, out));
        return answered<Value>(message);
    }
    template<class Value>
    Result<Value> answered(const Message& message) const {
        MessageReader in = client_.answer_of(message);
        Value value{};
        get(in, value);
        HK_TRY(in.finish("the worker process"));
        return value;
    }

    // Sends a request about fields in shared memory: copies them there and, with `take`, back again.
    Result<Message>
    ask_shared(MessageKind kind, const MessageWriter& first, std::span<const hk_field> fields, const hk_corpus* corpus,
               const std::function<void(const SharedMemory& memory, std::span<const std::size_t> offsets)>& take,
               const std::string& which) {
        std::vector<BatchField> described;
        std::vector<std::size_t> offsets;
        for (const hk_field& field : fields)
            described.push_back({std::string(view(field.name)),
                                 field.kind == HK_KIND_INT32 ? graph::Kind::int32 : graph::Kind::float32,
                                 graph::Shape(std::span<const int64_t>(field.dims, field.rank))});
        MessageWriter values = first;
        put(values, described);
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
            MessageWriter out;
            out.number(memory.size());
            out.number(values.bytes().size());
            Exchange e = client_.exchange(*worker, kind, out, corpus);
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
        const std::string failure = WorkerClient::failure_text(failed);
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
    MessageWriter create_;
    std::vector<const Manifest*> manifests_; // of the parts themselves
    WorkerClient client_;
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
