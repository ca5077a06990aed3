#include "train/evaluation/evaluate.hpp"

#include "batch/drawn_example.hpp"

#include "graph/output.hpp"
#include "infer/passes/head_outputs.hpp"
#include "program/host_tensor.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/evaluation/gathered.hpp"
#include "train/evaluation/task_scores.hpp"
#include "train/run/split.hpp"
#include "train/step/training_graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace hekla::train {
namespace {

using graph::OutputKind;

using nlohmann::json;

// A sum and its divisor, over all batches.
struct Ratio {
    double sum = 0.0, count = 0.0;
    double value() const { return count > 0.0 ? sum / count : std::numeric_limits<double>::quiet_NaN(); }
};

Status read_number(program::Program& program, const std::string& name, std::vector<double>& numbers) {
    HK_ASSIGN(const program::HostTensor tensor, program.read_output(name));
    numbers.push_back(tensor.kind == graph::Kind::int32 ? static_cast<double>(tensor.ints()[0])
                                                        : static_cast<double>(tensor.floats()[0]));
    return {};
}

// Returns the value of a row in a field with one number per row; -1 if it has none.
int64_t place_of(std::span<const data::Field> fields, std::string_view name, std::size_t row) {
    const auto field = std::ranges::find(fields, name, &data::Field::name);
    if (field == fields.end() || field->bytes.size() < (row + 1) * 4) return -1;
    int32_t place = -1;
    std::memcpy(&place, field->bytes.data() + row * 4, 4);
    return std::max(place, -1);
}

} // namespace

double Evaluation::score(const std::string& name) const {
    if (name == "loss") return loss;
    for (const auto& [known, value] : scores)
        if (known == name) return value;
    return std::numeric_limits<double>::quiet_NaN();
}

Evaluator::~Evaluator() = default;

namespace {

// Decodes targets that are classes, spans or numbers; a text would have to be generated.
Result<std::vector<std::string>> ports_to_decode(const plugin::Composition& composition) {
    if (composition.example_kind() != HK_EXAMPLE_ROW) return std::vector<std::string>();
    HK_ASSIGN(const std::vector<plugin::ColumnNeed> needs, composition.columns());
    const bool readable = std::ranges::any_of(needs, [](const plugin::ColumnNeed& need) {
        return need.target &&
               (need.kind == HK_COLUMN_CLASSES || need.kind == HK_COLUMN_SPANS || need.kind == HK_COLUMN_NUMBERS);
    });
    if (!readable) return std::vector<std::string>();
    return composition.decode_ports();
}

} // namespace

Result<std::map<int64_t, Evaluator::Described>> Evaluator::describe(const plugin::Composition& composition,
                                                                    int64_t batch, const std::vector<int64_t>& lengths,
                                                                    const EvaluatorOptions& how) {
    HK_ASSIGN(std::vector<std::string> ports, ports_to_decode(composition));
    ports.insert(ports.end(), how.ports.begin(), how.ports.end());
    std::map<int64_t, Described> all;
    for (const int64_t length : lengths) {
        HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition.batch_fields(batch, length));
        HK_ASSIGN(const graph::Graph described, composition.build(HK_MODE_EVALUATE, fields, ports));
        Described& one = all[length];
        HK_ASSIGN(one.graph, evaluation_graph(described));
        for (std::size_t i = 0; i < one.graph.losses.size(); ++i) {
            one.options.outputs.push_back(graph::output_name(OutputKind::loss_sum, i));
            one.options.outputs.push_back(graph::output_name(OutputKind::loss_count, i));
        }
        for (const graph::Metric& metric : one.graph.metrics) {
            one.options.outputs.push_back(graph::output_name(OutputKind::metric_sum, metric.name));
            one.options.outputs.push_back(graph::output_name(OutputKind::metric_count, metric.name));
        }
        for (const std::string& port : ports) one.options.outputs.push_back(port);
        one.options.gradients = program::Gradients::ignore;
        one.options.precision = how.precision;
        one.options.kernel_choices = how.kernel_choices;
    }
    return all;
}

Result<std::unique_ptr<Evaluator>> Evaluator::create(program::Runtime& runtime, program::ParameterStore& store,
                                                     const plugin::Composition& composition, int64_t batch,
                                                     const std::vector<int64_t>& lengths, uint64_t seed,
                                                     const EvaluatorOptions& how, const TrainerEvents& events,
                                                     const BatchMaker& maker) {
    std::unique_ptr<Evaluator> e(new Evaluator());
    e->events_ = events;
    e->maker_ = maker;
    e->composition_ = &composition;
    e->batch_ = batch;
    e->seed_ = seed;
    e->memory_ = store.host_memory();
    HK_ASSIGN(e->decode_ports_, ports_to_decode(composition));
    HK_ASSIGN(auto described, describe(composition, batch, lengths, how));
    for (auto& [length, one] : described) {
        Length& made = e->lengths_[length];
        made.graph = std::move(one.graph);
        HK_ASSIGN(made.program, program::Program::compile(runtime, made.graph, store, one.options));
    }
    return e;
}

Status run_over_zeros(program::Program& program, const std::vector<plugin::BatchField>& fields) {
    for (const plugin::BatchField& field : fields) {
        if (!program.has_input(field.name)) continue;
        const std::vector<std::byte> zeros(static_cast<std::size_t>(field.shape.elements()) * 4);
        HK_TRY(program.set_input(field.name, zeros));
    }
    return program.run();
}

Status Evaluator::set_scalars(const StepScalars& scalars) {
    for (auto& [length, one] : lengths_) HK_TRY(scalars.apply(*one.program));
    return {};
}

Status Evaluator::rehearse() {
    for (auto& [length, one] : lengths_) {
        HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition_->batch_fields(batch_, length));
        HK_TRY(run_over_zeros(*one.program, fields));
    }
    return {};
}

void Evaluator::end_batches() {
    if (stopped_ != nullptr) train::end_batches(*stopped_, events_, maker_);
    stopped_.reset();
}

std::vector<std::string> Evaluator::kernel_choices() const {
    std::vector<std::string> all;
    for (const auto& [length, one] : lengths_)
        for (std::string& choice : one.program->kernel_choices()) all.push_back(std::move(choice));
    return all;
}

Result<Evaluator::BatchResult> Evaluator::run_batch(Length& length, data::Batch& batch, std::size_t rows) {
    program::Program& program = *length.program;
    for (const data::Field& field : batch.fields)
        if (program.has_input(field.name)) HK_TRY(program.set_input(field.name, field.bytes));
    HK_TRY(program.run({.seed = seed_}));
    BatchResult result;
    for (std::size_t i = 0; i < length.graph.losses.size(); ++i) {
        HK_TRY(read_number(program, graph::output_name(OutputKind::loss_sum, i), result.numbers));
        HK_TRY(read_number(program, graph::output_name(OutputKind::loss_count, i), result.numbers));
    }
    for (const graph::Metric& metric : length.graph.metrics) {
        HK_TRY(read_number(program, graph::output_name(OutputKind::metric_sum, metric.name), result.numbers));
        HK_TRY(read_number(program, graph::output_name(OutputKind::metric_count, metric.name), result.numbers));
    }
    if (observer_) HK_TRY(observer_(program, batch.fields, rows));
    if (decode_ports_.empty()) return result;
    std::map<std::string, graph::Tensor, std::less<>> outputs;
    for (const std::string& port : decode_ports_) {
        HK_ASSIGN(const program::HostTensor host, program.read_output(port));
        outputs[port] = program::tensor_of(host);
    }
    HK_ASSIGN(result.rows, infer::decode_rows(*composition_, outputs, batch.fields, rows));
    for (std::size_t i = 0; i < result.rows.size(); ++i)
        result.spans.emplace_back(place_of(batch.fields, "start_positions", i),
                                  place_of(batch.fields, "end_positions", i));
    return result;
}

Result<std::vector<Evaluator::BatchResult>> Evaluator::run_batches(const Split& split,
                                                                   const std::shared_ptr<const Batches>& batches,
                                                                   std::size_t first, std::size_t size, bool& stopped) {
    std::vector<BatchResult> results(batches->size());
    data::BatcherOptions making;
    making.threads = events_.own_threads ? 1 : 0;
    making.end_step = (batches->size() + size - 1 - first) / size;
    // `batches` is shared with the thread that makes them, which may outlive this call if a plugin does not return.
    HK_ASSIGN(std::unique_ptr<data::Batcher> batcher,
              data::Batcher::start(making, [this, &split, batches, first, size, step = step_](data::Batch& batch) {
                  const auto& rows = (*batches)[first + static_cast<std::size_t>(batch.step) * size];
                  std::vector<batch::DrawnExample> examples;
                  for (const batch::RowLength& row : rows) examples.push_back(split.at(row.row));
                  return split.make_fields(*composition_, examples, seed_, batch_, rows.front().length, batch.fields,
                                           memory_, step);
              }));
    for (std::size_t at = first; at < batches->size(); at += size) {
        if (!wait_for_batch(*batcher, events_, maker_)) {
            stopped_ = std::move(batcher);
            stopped = true;
            return results;
        }
        HK_ASSIGN(std::optional<data::Batch> made, batcher->next());
        if (!made) return internal_error("the batches ended before the evaluation");
        const std::vector<batch::RowLength>& rows = (*batches)[at];
        HK_ASSIGN(results[at], run_batch(lengths_.at(rows.front().length), *made, rows.size()));
    }
    return results;
}

// Adds the results of the batches that other ranks have run.
Status Evaluator::gather(exchange::Communicator& ranks, std::vector<BatchResult>& results) {
    json own = json::array();
    for (std::size_t at = 0; at < results.size(); ++at)
        if (!results[at].numbers.empty())
            own.push_back({{"batch", at},
                           {"numbers", results[at].numbers},
                           {"rows", results[at].rows},
                           {"spans", results[at].spans}});
    HK_ASSIGN(json all, gathered(ranks, own));
    for (json& one : all) {
        BatchResult& result = results.at(one["batch"].get<std::size_t>());
        result.numbers = one["numbers"].get<std::vector<double>>();
        result.rows = one["rows"].get<std::vector<json>>();
        result.spans = one["spans"].get<std::vector<std::pair<int64_t, int64_t>>>();
    }
    return {};
}

Result<Evaluation> Evaluator::run(const Split& split, uint64_t limit, bool predictions,
                                  std::span<const std::string> classes, exchange::Communicator* ranks) {
    std::vector<int64_t> lengths;
    for (const auto& [length, one] : lengths_) lengths.push_back(length);
    const std::vector<batch::RowLength> chosen = split.spread(*composition_, lengths, limit);
    const auto batches = std::make_shared<const Batches>(batch::batches_by_length(chosen, batch_));
    const bool several = ranks != nullptr && ranks->size() > 1;
    bool stopped = false;
    HK_ASSIGN(std::vector<BatchResult> results,
              run_batches(split, batches, several ? static_cast<std::size_t>(ranks->rank()) : 0,
                          several ? static_cast<std::size_t>(ranks->size()) : 1, stopped));
    if (several) { // also if this rank was stopped: the others wait for it, and all come to the same end
        HK_TRY(gather(*ranks, results));
        stopped = std::ranges::any_of(results, [](const BatchResult& batch) { return batch.numbers.empty(); });
    }
    if (stopped) return Status(Code::cancelled, "stopped while evaluating");

    const graph::Graph& graph = lengths_.begin()->second.graph;
    std::vector<Ratio> losses(graph.losses.size()), metrics(graph.metrics.size());
    TaskScores task(classes);
    std::vector<Prediction> collected;
    const auto name_of = [&](const json& label) -> json {
        if (!label.is_number_integer() || label < 0 || label >= static_cast<int64_t>(classes.size())) return nullptr;
        return classes[label.get<std::size_t>()];
    };
    for (std::size_t at = 0; at < batches->size(); ++at) {
        BatchResult& batch = results[at];
        if (batch.numbers.size() != 2 * (losses.size() + metrics.size()))
            return internal_error(fmt::format("batch {} of the evaluation has no result", at));
        const double* number = batch.numbers.data();
        for (std::vector<Ratio>* ratios : {&losses, &metrics})
            for (Ratio& ratio : *ratios) {
                ratio.sum += *number++;
                ratio.count += *number++;
            }
        for (std::size_t i = 0; i < batch.rows.size(); ++i) {
            const batch::DrawnExample drawn = split.at((*batches)[at][i].row);
            HK_TRY(task.add(drawn.example, batch.rows[i]));
            if (std::ranges::any_of(drawn.example.columns,
                                    [](const data::EncodedColumn& column) { return column.kind == HK_COLUMN_SPANS; }))
                task.add_span(batch.rows[i], batch.spans[i].first, batch.spans[i].second);
            if (!predictions) continue;
            if (!classes.empty()) infer::name_labels(batch.rows[i], name_of);
            collected.push_back({(*batches)[at][i].row, std::move(batch.rows[i])});
        }
    }

    if (!losses.empty() && std::ranges::none_of(losses, [](const Ratio& loss) { return loss.count > 0.0; }))
        return invalid_argument(
            fmt::format("none of the {} examples of the evaluation has a label within {} tokens, so its loss is "
                        "undefined: check the data, or raise train.context_length or train.eval_batches",
                        chosen.size(), lengths.back()));
    Evaluation result;
    result.examples = chosen.size();
    for (std::size_t i = 0; i < losses.size(); ++i)
        if (losses[i].count > 0.0) result.loss += graph.losses[i].weight * losses[i].sum / losses[i].count;
    for (std::size_t i = 0; i < losses.size() && losses.size() > 1; ++i)
        result.scores.emplace_back("loss." + graph.losses[i].name, losses[i].value());
    for (std::size_t i = 0; i < metrics.size(); ++i)
        result.scores.emplace_back(graph.metrics[i].name, metrics[i].value());
    for (const auto& score : task.scores()) result.scores.push_back(score);
    result.table = task.table();
    std::ranges::stable_sort(collected, {}, &Prediction::example);
    result.predictions = std::move(collected);
    return result;
}

} // namespace hekla::train
