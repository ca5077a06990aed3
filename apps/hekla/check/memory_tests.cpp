#include "check/allocation.hpp"
#include "check/tests.hpp"

#include "graph/text.hpp"
#include "infer/passes/head_outputs.hpp"

#include <fmt/format.h>
#include <functional>
#include <new>

namespace hekla::check {
namespace {

// A call into the plugin, and its result as text.
struct Asked {
    std::string what;
    std::function<Result<std::string>()> ask;
};

std::string bytes_of_fields(const std::vector<data::Field>& fields) {
    std::string all;
    for (const data::Field& field : fields)
        all.append(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
    return all;
}

// Returns the next allocation to fail: every one up to 500, then with growing gaps.
int64_t next(int64_t allocation) { return allocation + 1 + allocation / 500; }

} // namespace

Status test_failing_memory(Trial& trial) {
    const plugin::Manifest* const own = trial.registry().manifest_at(trial.manifest().file);
    if (own == nullptr) return internal_error("the plugin's manifest is not in the registry");
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Small small, small_network(trial, provided));
        HK_ASSIGN(const std::vector<plugin::BatchField> fields, small.composition->batch_fields(2, small.length));
        std::vector<Asked> all;
        all.push_back({"created, and asked for its configuration", [&]() -> Result<std::string> {
                           HK_ASSIGN(const auto made,
                                     plugin::Composition::create(trial.registry(), small.spec, small.tokenizer.get()));
                           HK_ASSIGN(std::string text, made->write_config());
                           HK_ASSIGN(const std::vector<plugin::BatchField> described,
                                     made->batch_fields(3, small.length));
                           for (const plugin::BatchField& field : described)
                               text += fmt::format("{} {}\n", field.name, field.shape.text());
                           HK_ASSIGN(const std::vector<std::string> ports, made->decode_ports());
                           for (const std::string& port : ports) text += port + "\n";
                           return text;
                       }});
        all.push_back({"describes its graph", [&]() -> Result<std::string> {
                           HK_ASSIGN(const graph::Graph graph, small.composition->build(HK_MODE_TRAIN, fields));
                           return graph::print(graph);
                       }});
        const std::size_t rows = std::min<std::size_t>(small.examples.size(), 3);
        if (provided.interface_id == HK_OBJECTIVE_INTERFACE)
            all.push_back({"makes a batch", [&]() -> Result<std::string> {
                               HK_ASSIGN(const std::vector<data::Field> made,
                                         batch_of(small, std::span(small.examples).first(rows), 4, small.length, 1));
                               return bytes_of_fields(made);
                           }});
        std::vector<data::Field> batch;
        std::map<std::string, graph::Tensor, std::less<>> outputs;
        HK_ASSIGN(const std::vector<std::string> ports, small.composition->decode_ports());
        if (provided.interface_id == HK_HEAD_INTERFACE && !ports.empty()) {
            HK_ASSIGN(batch, batch_of(small, std::span(small.examples).first(2), 2, small.length, 1));
            HK_ASSIGN(const graph::Graph graph, small.composition->build(HK_MODE_EVALUATE, fields, ports));
            std::vector<graph::ValueId> wanted;
            for (const std::string& port : ports) wanted.push_back(graph.outputs.at(port));
            HK_ASSIGN(std::vector<graph::Tensor> values,
                      graph::evaluate(graph, feeds_of(graph, batch, trial.seed()), wanted));
            for (std::size_t i = 0; i < ports.size(); ++i) outputs[ports[i]] = std::move(values[i]);
            all.push_back({"decodes outputs", [&]() -> Result<std::string> {
                               HK_ASSIGN(const auto decoded, infer::decode_rows(*small.composition, outputs, batch, 2));
                               std::string text;
                               for (const auto& row : decoded) text += row.dump() + "\n";
                               return text;
                           }});
        }
        for (const Asked& one : all) {
            trial.doing(fmt::format("{}: {}", name_of(provided), one.what));
            HK_ASSIGN(const std::string right, one.ask());
            trial.watch(
                [own](const plugin::Manifest* manifest, std::string_view) { FailingMemory::count(manifest == own); });
            constexpr int64_t kMost = 1000000;
            for (int64_t n = 0; n < kMost; n = next(n)) {
                const std::string what =
                    fmt::format("{}: {} while allocation {} fails", name_of(provided), one.what, n + 1);
                trial.doing(what);
                Status status;
                bool same = true, failed = false;
                {
                    const FailingMemory memory(n);
                    try {
                        const Result<std::string> answer = one.ask();
                        status = answer.status();
                        same = !answer.ok() || answer.value() == right;
                    } catch (const std::bad_alloc&) {} // thrown by the host's own code, which frees what it allocated
                    failed = memory.failed();
                }
                if (!failed) break;
                if (!same)
                    trial.fail(what + ": no error and a different result: the failed allocation is ignored");
                else if (!status.ok() && status.code() != Code::out_of_memory)
                    trial.fail(
                        fmt::format("{}: HK_OUT_OF_MEMORY was expected, the error is: {}", what, status.message()));
                else
                    continue;
                break;
            }
            trial.watch({});
        }
    }
    return {};
}

} // namespace hekla::check
