#include "train/evaluate.hpp"

#include "infer/head_outputs.hpp"
#include "program/host_tensor.hpp"
#include "train/task_scores.hpp"
#include "train/training_graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace hekla::train {
namespace {

using nlohmann::json;

// A sum and its divisor, over all batches.
struct Ratio {
    double sum = 0.0, count = 0.0;
    Status add(program::Program& program, const std::string& sum_name, const std::string& count_name) {
        HK_ASSIGN(const program::HostTensor s, program.read_output(sum_name));
        HK_ASSIGN(const program::HostTensor c, program.read_output(count_name));
        sum += number(s);
        count += number(c);
        return {};
    }
    static double number(const program::HostTensor& tensor) {
        return tensor.kind == graph::Kind::int32 ? static_cast<double>(tensor.ints()[0])
                                                 : static_cast<double>(tensor.floats()[0]);
    }
};

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
            one.options.outputs.push_back(fmt::format("loss_sum.{}", i));
            one.options.outputs.push_back(fmt::format("loss_count.{}", i));
        }
        for (const graph::Metric& metric : one.graph.metrics) {
            one.options.outputs.push_back("metric_sum." + metric.name);
            one.options.outputs.push_back("metric_count." + metric.name);
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

Result<Evaluation> Evaluator::run(const Split& split, uint64_t limit, bool predictions,
                                  std::span<const std::string> classes) {
    std::vector<int64_t> lengths;
    for (const auto& [length, one] : lengths_) lengths.push_back(length);
    const std::vector<batch::RowLength> chosen = split.spread(*composition_, lengths, limit);

    const graph::Graph& graph = lengths_.begin()->second.graph;
    std::vector<Ratio> losses(graph.losses.size()), metrics(graph.metrics.size());
    const bool decodes = !decode_ports_.empty();
    TaskScores task(classes);
    std::vector<Prediction> collected;
    const auto name_of = [&](const json& label) -> json {
        if (!label.is_number_integer() || label < 0 || label >= static_cast<int64_t>(classes.size())) return nullptr;
        return classes[label.get<std::size_t>()];
    };
    // Shared with the thread that makes batches, which may outlive this call if a plugin does not return.
    const auto batches =
        std::make_shared<const std::vector<std::vector<batch::RowLength>>>(batch::batches_by_length(chosen, batch_));
    const auto examples_of = [&split](const std::vector<batch::RowLength>& rows) {
        std::vector<batch::DrawnExample> examples;
        for (const batch::RowLength& row : rows) examples.push_back(split.at(row.row));
        return examples;
    };
    data::BatcherOptions making;
    making.threads = events_.own_threads ? 1 : 0;
    making.end_step = batches->size();
    HK_ASSIGN(std::unique_ptr<data::Batcher> batcher,
              data::Batcher::start(making, [this, &split, batches, examples_of](data::Batch& batch) {
                  const std::vector<batch::RowLength>& rows = (*batches)[static_cast<std::size_t>(batch.step)];
                  return batch::make_fields(*composition_, examples_of(rows), &split.examples(), seed_, batch_,
                                            rows.front().length, batch.fields, memory_);
              }));
    for (const std::vector<batch::RowLength>& rows_of_batch : *batches) {
        if (!wait_for_batch(*batcher, events_, maker_)) {
            stopped_ = std::move(batcher);
            return Status(Code::cancelled, "stopped while evaluating");
        }
        HK_ASSIGN(std::optional<data::Batch> made, batcher->next());
        if (!made) return internal_error("the batches ended before the evaluation");
        std::vector<data::Field>& fields = made->fields;
        Length& length = lengths_.at(rows_of_batch.front().length);
        for (const data::Field& field : fields)
            if (length.program->has_input(field.name)) HK_TRY(length.program->set_input(field.name, field.bytes));
        HK_TRY(length.program->run({.seed = seed_}));
        for (std::size_t i = 0; i < losses.size(); ++i)
            HK_TRY(losses[i].add(*length.program, fmt::format("loss_sum.{}", i), fmt::format("loss_count.{}", i)));
        for (std::size_t i = 0; i < metrics.size(); ++i)
            HK_TRY(metrics[i].add(*length.program, "metric_sum." + graph.metrics[i].name,
                                  "metric_count." + graph.metrics[i].name));
        if (observer_) HK_TRY(observer_(*length.program, fields, rows_of_batch.size()));
        if (decodes) {
            const std::vector<batch::DrawnExample> examples = examples_of(rows_of_batch);
            std::map<std::string, graph::Tensor, std::less<>> outputs;
            for (const std::string& port : decode_ports_) {
                HK_ASSIGN(const program::HostTensor host, length.program->read_output(port));
                outputs[port] = program::tensor_of(host);
            }
            HK_ASSIGN(std::vector<json> rows, infer::decode_rows(*composition_, outputs, fields, examples.size()));
            for (std::size_t i = 0; i < rows.size(); ++i) {
                HK_TRY(task.add(examples[i].example, rows[i]));
                if (std::ranges::any_of(examples[i].example.columns, [](const data::EncodedColumn& column) {
                        return column.kind == HK_COLUMN_SPANS;
                    }))
                    task.add_span(rows[i], place_of(fields, "start_positions", i),
                                  place_of(fields, "end_positions", i));
                if (!predictions) continue;
                if (!classes.empty()) infer::name_labels(rows[i], name_of);
                collected.push_back({rows_of_batch[i].row, std::move(rows[i])});
            }
        }
    }

    Evaluation result;
    result.examples = chosen.size();
    for (std::size_t i = 0; i < losses.size(); ++i)
        if (losses[i].count > 0.0) result.loss += graph.losses[i].weight * losses[i].sum / losses[i].count;
    for (std::size_t i = 0; i < losses.size() && losses.size() > 1; ++i)
        result.scores.emplace_back("loss." + graph.losses[i].name, losses[i].count > 0.0
                                                                       ? losses[i].sum / losses[i].count
                                                                       : std::numeric_limits<double>::quiet_NaN());
    for (std::size_t i = 0; i < metrics.size(); ++i)
        result.scores.emplace_back(graph.metrics[i].name, metrics[i].count > 0.0
                                                              ? metrics[i].sum / metrics[i].count
                                                              : std::numeric_limits<double>::quiet_NaN());
    for (const auto& score : task.scores()) result.scores.push_back(score);
    result.table = task.table();
    std::ranges::stable_sort(collected, {}, &Prediction::example);
    result.predictions = std::move(collected);
    return result;
}

} // namespace hekla::train
