#include "comparison.hpp"

#include "generate/decoder_reference.hpp"
#include "graph/gradient.hpp"
#include "model/dtype.hpp"

#include <cmath>
#include <fmt/format.h>
#include <tuple>

namespace hekla::app {
namespace {

constexpr double kMergedBar = 1e-7; // the reference's float64 results are stored in float32

double ratio(double difference, double size) { return size > 0.0 ? difference / size : difference; }

std::string cell(const char* name, double value, bool present, double bar) {
    if (!present) return fmt::format("{} -", name);
    return fmt::format("{} {:.1e}{}", name, value, value <= bar ? "" : " (!)");
}

} // namespace

Bars bars_of(program::Storage precision) {
    if (precision == program::Storage::f32) return {};
    // The fixtures' worst, in units of the last place: outputs 3.5, losses 0.8, gradients 22 (T5's smallest), steps 33
    // in float16, whose small gradients AdamW makes as large as others.
    const double unit = precision == program::Storage::f16 ? 0x1p-11 : 0x1p-8;
    return {8 * unit, 2 * unit, 48 * unit, 2 * unit, 0.05};
}

double max_error(const graph::Tensor& a, const graph::Tensor& b) {
    double difference = 0.0, size = 0.0;
    for (std::size_t i = 0; i < b.data.size(); ++i) {
        const double d = std::abs(a.data[i] - b.data[i]);
        if (!(d <= difference)) difference = d;
        size = std::max(size, std::abs(b.data[i]));
    }
    return ratio(difference, size);
}

double norm_error(const graph::Tensor& a, const graph::Tensor& b) {
    double difference = 0.0, size = 0.0;
    for (std::size_t i = 0; i < b.data.size(); ++i) {
        difference += (a.data[i] - b.data[i]) * (a.data[i] - b.data[i]);
        size += b.data[i] * b.data[i];
    }
    return ratio(std::sqrt(difference), std::sqrt(size));
}

bool FixtureReport::pass() const {
    if (!problem.ok()) return false;
    const bool forward =
        outputs.error <= bars.outputs && (!has_loss || (loss <= bars.loss && gradients.error <= bars.gradients));
    const bool steps = !has_adamw || (adamw_loss <= bars.adamw_loss && adamw.error <= bars.adamw);
    return forward && steps && generation.value_or(true) && merged.value_or(0.0) <= kMergedBar;
}

nlohmann::json FixtureReport::json() const {
    using nlohmann::json;
    const auto number = [](bool present, double value) {
        return present && std::isfinite(value) ? json(value) : present ? json("not a number") : json(nullptr);
    };
    json j;
    j["fixture"] = fixture;
    const bool ran = problem.ok();
    j["outputs"] = number(ran, outputs.error);
    j["loss"] = number(ran && has_loss, loss);
    j["gradients"] = number(ran && has_loss, gradients.error);
    j["adamw_loss"] = number(ran && has_adamw, adamw_loss);
    j["adamw"] = number(ran && has_adamw, adamw.error);
    j["generation"] = generation ? json(*generation ? "equal" : "differs") : json(nullptr);
    if (merged) j["merged"] = *merged;
    j["pass"] = pass();
    if (bars_of_model)
        j["bounds"] = {{"outputs", bars.outputs},
                       {"loss", bars.loss},
                       {"gradients", bars.gradients},
                       {"adamw_loss", bars.adamw_loss},
                       {"adamw", bars.adamw}};
    if (!ran) j["problem"] = problem.message();
    if (ran) j["worst"] = {{"outputs", outputs.tensor}, {"gradients", gradients.tensor}, {"adamw", adamw.tensor}};
    j["seconds"] = seconds;
    return j;
}

std::string FixtureReport::line() const {
    if (!problem.ok()) return fmt::format("{:<28} FAILED  {}", fixture, problem.message());
    std::string text = fmt::format(
        "{:<28} {}  {}  {}  {}  {}  {}  generation {}", fixture, pass() ? "ok    " : "FAILED",
        cell("outputs", outputs.error, true, bars.outputs), cell("loss", loss, has_loss, bars.loss),
        cell("gradients", gradients.error, has_loss, bars.gradients),
        cell("adamw loss", adamw_loss, has_adamw, bars.adamw_loss), cell("adamw", adamw.error, has_adamw, bars.adamw),
        generation ? (*generation ? "equal" : "differs") : "-");
    if (merged) text += "  " + cell("merged", *merged, true, kMergedBar);
    if (bars_of_model)
        text += fmt::format(
            "\n    bounds of this model, which makes much of rounding: outputs {:.1e}  loss {:.1e}  gradients "
            "{:.1e}  adamw loss {:.1e}  adamw {:.1e}",
            bars.outputs, bars.loss, bars.gradients, bars.adamw_loss, bars.adamw);
    if (!pass())
        text += fmt::format("\n    worst: output {}, gradient {}, stepped {}{}", outputs.tensor, gradients.tensor,
                            adamw.tensor, generation_detail.empty() ? "" : "\n    " + generation_detail);
    return text;
}

Status compare(const Fixture& fixture, const Computed& computed, FixtureReport& report) {
    double largest_gradient = 0.0;
    const auto norm = [](const graph::Tensor& t) {
        double sum = 0.0;
        for (const double x : t.data) sum += x * x;
        return std::sqrt(sum);
    };
    for (const auto& [name, tensor] : fixture.expected)
        if (name.starts_with("grad.")) largest_gradient = std::max(largest_gradient, norm(tensor));

    const auto find = [](const Tensors& tensors, const std::string& name) -> const graph::Tensor* {
        const auto found = tensors.find(name);
        return found == tensors.end() ? nullptr : &found->second;
    };
    for (const auto& [name, expected] : fixture.expected) {
        const bool stepped = name.starts_with("adamw.") && name != "adamw.loss";
        const graph::Tensor* ours = stepped ? find(computed.stepped, name.substr(6)) : find(computed.first, name);
        if (name == "adamw.loss") {
            if (computed.losses.size() != expected.data.size())
                return internal_error(
                    fmt::format("{} AdamW losses, expected {}", computed.losses.size(), expected.data.size()));
            report.has_adamw = true;
            // A loss near zero is a difference of logits, whose rounding does not shrink with it.
            const double least = expected.data.empty() ? 0.0 : std::abs(expected.data.front()) / 10;
            for (std::size_t i = 0; i < expected.data.size(); ++i)
                report.adamw_loss = std::max(report.adamw_loss, ratio(std::abs(computed.losses[i] - expected.data[i]),
                                                                      std::max(std::abs(expected.data[i]), least)));
            continue;
        }
        // A table that the reference computes is among its parameters, although no file holds it and nothing trains it.
        // A table that a file holds is a parameter here, since otherwise loading would have failed.
        if (ours == nullptr && stepped && find(fixture.expected, "grad." + name.substr(6)) == nullptr) continue;
        if (ours == nullptr)
            return corrupt(fmt::format("the reference has {}, the engine computed nothing of that name", name));
        if (ours->data.size() != expected.data.size())
            return corrupt(
                fmt::format("{} is {}, the reference has {}", name, ours->shape.text(), expected.shape.text()));
        if (name.starts_with("out.")) {
            report.outputs.take(max_error(*ours, expected), name);
        } else if (name == "loss") {
            report.has_loss = true;
            report.loss = max_error(*ours, expected);
        } else if (name.starts_with("grad.")) {
            // A gradient that is mathematically zero is rounding noise on both sides, so measure it against the largest
            // one.
            const double size = norm(expected);
            if (size < 1e-6 * largest_gradient) {
                graph::Tensor none = expected;
                for (double& x : none.data) x = 0.0;
                report.gradients.take(ratio(norm_error(*ours, none), largest_gradient), name);
            } else {
                report.gradients.take(norm_error(*ours, expected), name);
            }
        } else if (stepped) {
            const graph::Tensor* gradient = find(fixture.expected, "grad." + name.substr(6));
            if (gradient != nullptr && norm(*gradient) < 1e-6 * largest_gradient) continue;
            report.adamw.take(norm_error(*ours, expected), name);
        }
    }
    return {};
}

Status compare_merged(const Fixture& fixture, const FixtureModel& model, FixtureReport& report) {
    if (fixture.merged.empty()) return {};
    plugin::BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    request.fields = fixture.fields();
    request.objective = false;
    request.merged = true;
    HK_ASSIGN(const plugin::Described described, model.composition->describe(request));
    graph::Feeds feeds;
    feeds.fields = fixture.inputs;
    feeds.parameters = model.parameters;
    report.merged = 0.0;
    for (const auto& [name, expected] : fixture.merged) {
        const auto found = described.graph.outputs.find(plugin::kMerged + name);
        if (found == described.graph.outputs.end()) {
            const auto kept = model.parameters.find(name); // saved whole, not changed by the adapter
            if (kept == model.parameters.end())
                return corrupt(fmt::format("merging changes {}, which the model does not have", name));
            report.merged = std::max(*report.merged, max_error(kept->second, expected));
            continue;
        }
        const std::vector<graph::ValueId> wanted{found->second};
        HK_ASSIGN(const std::vector<graph::Tensor> values, graph::evaluate(described.graph, feeds, wanted));
        if (values[0].shape != expected.shape)
            return corrupt(fmt::format("{} merged is {}, the reference has {}", name, values[0].shape.text(),
                                       expected.shape.text()));
        report.merged = std::max(*report.merged, max_error(values[0], expected));
    }
    return {};
}

Status compare_generation(const Fixture& fixture, generate::Decoder& decoder, FixtureReport& report) {
    if (fixture.generation.empty()) return {};
    bool equal = true;
    for (std::size_t i = 0; i < fixture.generation.size(); ++i) {
        const generate::RecordedCase& recorded = fixture.generation[i];
        const Result<generate::CaseReport> ran = generate::run_recorded(decoder, fixture.config, recorded);
        if (!ran.ok()) return ran.status().with_context(fmt::format("generation case {}", i));
        if (ran.value().equal) continue;
        if (equal) report.generation_detail = fmt::format("generation case {}: {}", i, ran.value().detail);
        equal = false;
    }
    report.generation = equal;
    return {};
}

Status generate_reference(const Fixture& fixture, const FixtureModel& model, FixtureReport& report) {
    if (fixture.generation.empty()) return {};
    Tensors weights = model.parameters;
    weights.insert(model.buffers.begin(), model.buffers.end());
    HK_ASSIGN(const auto decoder, generate::make_reference_decoder(*model.composition, weights));
    return compare_generation(fixture, *decoder, report);
}

Status widen_bars(const Fixture& fixture, const FixtureModel& model, program::Storage precision,
                  FixtureReport& report) {
    constexpr double kTimes = 8.0; // as many as the units of outputs in bars_of(): a step rounds more than the weights
    const model::DType dtype = precision == program::Storage::f16 ? model::DType::f16 : model::DType::bf16;
    FixtureModel rounded;
    rounded.graph = model.graph;
    rounded.parameters = model.parameters;
    rounded.frozen = model.frozen;
    for (auto& [name, tensor] : rounded.parameters) {
        std::vector<std::byte> bytes(tensor.data.size() * model::size_of(dtype));
        HK_TRY(model::from_float64(dtype, tensor.data, bytes));
        HK_TRY(model::to_float64(dtype, bytes, tensor.data));
    }
    HK_ASSIGN(const Computed computed, compute_reference(fixture, rounded));
    FixtureReport errors;
    HK_TRY(compare(fixture, computed, errors));
    const auto widen = [](double& bar, double error) { bar = std::max(bar, kTimes * error); };
    const auto widen_each = [](double& bar, Worst& ours, const Worst& by_weights, const Worst* gradients = nullptr) {
        const double before = bar;
        double nearest = 0.0;
        for (const auto& [tensor, error] : ours.all) {
            double allowed = std::max(before, kTimes * by_weights.all.at(tensor));
            // A bias that begins at zero is nothing but its steps, whose directions are as exact as its gradient.
            if (gradients != nullptr)
                if (const auto found = gradients->all.find("grad." + tensor.substr(6)); found != gradients->all.end())
                    allowed = std::max(allowed, 2 * found->second);
            if (error / allowed <= nearest || std::isnan(nearest)) continue; // NaN is the nearest
            nearest = error / allowed;
            std::tie(bar, ours.error, ours.tensor) = std::tie(allowed, error, tensor);
        }
    };
    widen_each(report.bars.outputs, report.outputs, errors.outputs);
    widen(report.bars.loss, errors.loss);
    widen_each(report.bars.gradients, report.gradients, errors.gradients);
    widen(report.bars.adamw_loss, errors.adamw_loss);
    widen_each(report.bars.adamw, report.adamw, errors.adamw, &report.gradients);
    report.bars_of_model = true;
    return {};
}

Result<Computed> compute_reference(const Fixture& fixture, const FixtureModel& model) {
    graph::Graph graph = model.graph;
    if (!graph.losses.empty()) { HK_ASSIGN(graph, graph::differentiate(model.graph, model.frozen)); }
    graph::Feeds feeds;
    feeds.fields = fixture.inputs;
    feeds.parameters = model.parameters;

    // The counts depend on fields alone: loss_scale.i = weight / count.
    std::vector<graph::ValueId> counts;
    for (const graph::LossTerm& term : model.graph.losses) counts.push_back(term.count);
    HK_ASSIGN(const std::vector<graph::Tensor> counted, graph::evaluate(model.graph, feeds, counts));
    for (std::size_t i = 0; i < counted.size(); ++i)
        feeds.step_scalars[fmt::format("loss_scale.{}", i)] =
            counted[i].data[0] != 0.0 ? model.graph.losses[i].weight / counted[i].data[0] : 0.0;

    std::vector<std::string> names;
    std::vector<graph::ValueId> wanted;
    for (const auto& [name, value] : graph.outputs) {
        names.push_back(name);
        wanted.push_back(value);
    }
    Computed computed;
    const auto run = [&]() -> Result<Tensors> {
        HK_ASSIGN(std::vector<graph::Tensor> values, graph::evaluate(graph, feeds, wanted));
        Tensors result;
        for (std::size_t i = 0; i < names.size(); ++i) result.emplace(names[i], std::move(values[i]));
        return result;
    };
    HK_ASSIGN(computed.first, run());
    if (!fixture.has_adamw) return computed;

    const AdamwSettings& a = fixture.adamw;
    std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> moments;
    for (int64_t step = 1; step <= a.steps; ++step) {
        HK_ASSIGN(const Tensors values, run());
        computed.losses.push_back(values.at("loss").data[0]);
        double norm = 0.0;
        for (const auto& [name, tensor] : values)
            if (name.starts_with("grad."))
                for (const double g : tensor.data) norm += g * g;
        norm = std::sqrt(norm);
        const double clip = std::min(1.0, a.clip_norm / (norm + 1e-6)); // as clip_grad_norm_
        for (const auto& [name, gradient] : values) {
            if (!name.starts_with("grad.")) continue;
            graph::Tensor& parameter = feeds.parameters.at(name.substr(5));
            auto& [m, v] = moments[name];
            m.resize(gradient.data.size());
            v.resize(gradient.data.size());
            const double decay = parameter.shape.rank() >= 2 ? a.weight_decay : 0.0;
            const double bias1 = 1.0 - std::pow(a.beta1, static_cast<double>(step));
            const double bias2 = 1.0 - std::pow(a.beta2, static_cast<double>(step));
            for (std::size_t i = 0; i < m.size(); ++i) {
                const double g = gradient.data[i] * clip;
                double& p = parameter.data[i];
                p -= a.learning_rate * decay * p;
                m[i] = a.beta1 * m[i] + (1.0 - a.beta1) * g;
                v[i] = a.beta2 * v[i] + (1.0 - a.beta2) * g * g;
                p -= a.learning_rate * (m[i] / bias1) / (std::sqrt(v[i] / bias2) + a.epsilon);
            }
        }
    }
    computed.stepped = feeds.parameters;
    return computed;
}

} // namespace hekla::app
