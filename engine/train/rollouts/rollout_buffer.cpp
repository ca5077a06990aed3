#include "train/rollouts/rollout_buffer.hpp"

#include "base/json.hpp"
#include "exchange/communicator.hpp"
#include "model/safetensors.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

namespace hekla::train {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kNumbersOfRow = 5; // of a row
constexpr const char *kRolloutIds = "ids", *kRolloutRows = "rows", *kRolloutScores = "scores",
                     *kRolloutColumn = "column.";
constexpr const char* kRolloutState = "state"; // in the metadata of bytes that ranks exchange

template<class T>
model::TensorView tensor_view(std::string name, model::DType dtype, std::vector<int64_t> dims,
                              const std::vector<T>& from) {
    model::TensorView view;
    view.name = std::move(name);
    view.dtype = dtype;
    view.dims = std::move(dims);
    view.bytes = std::as_bytes(std::span(from));
    return view;
}

// Reads tensors of a file that is called `where`.
struct StoredTensors {
    std::span<const model::TensorView> all;
    const std::string& where;

    const model::TensorView* find(std::string_view name) const {
        const auto found = std::ranges::find(all, name, &model::TensorView::name);
        return found != all.end() ? &*found : nullptr;
    }
    template<class T>
    Result<std::vector<T>> values(const std::string& name, model::DType dtype) const {
        const model::TensorView* tensor = find(name);
        if (tensor == nullptr) return corrupt(fmt::format("{}: the rollouts have no '{}'", where, name));
        if (tensor->dtype != dtype)
            return corrupt(fmt::format("{}: '{}' is {}", where, name, model::describe(*tensor)));
        std::vector<T> values(tensor->bytes.size() / sizeof(T));
        if (!values.empty()) std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
        return values;
    }
};

json finite_or_null(double x) { return std::isfinite(x) ? json(x) : json(); }

} // namespace

std::vector<uint64_t> RolloutBuffer::begins() const {
    std::vector<uint64_t> all{0};
    for (const Rollout& row : rows) all.push_back(all.back() + row.completion.size());
    return all;
}

batch::DrawnExample RolloutBuffer::example(std::size_t row, uint64_t begin, uint64_t epoch) const {
    const Rollout& from = rows[row];
    batch::DrawnExample drawn;
    drawn.epoch = epoch;
    drawn.example.index = from.episode;
    drawn.example.document = from.episode;
    drawn.example.columns.push_back({"prompt", HK_COLUMN_TOKENS, from.prompt, {}, {}});
    drawn.example.columns.push_back({"completion", HK_COLUMN_TOKENS, from.completion, {}, {}});
    for (const auto& [name, numbers] : columns) {
        const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(begin);
        drawn.example.columns.push_back(
            {name, HK_COLUMN_NUMBERS, {}, {first, first + static_cast<std::ptrdiff_t>(from.completion.size())}, {}});
    }
    return drawn;
}

std::vector<model::TensorView> RolloutBuffer::tensors() {
    packed_ids_.clear();
    packed_numbers_.clear();
    packed_scores_.clear();
    for (const Rollout& row : rows) {
        packed_ids_.insert(packed_ids_.end(), row.prompt.begin(), row.prompt.end());
        packed_ids_.insert(packed_ids_.end(), row.completion.begin(), row.completion.end());
        for (const uint64_t number : {row.episode, row.example, uint64_t{row.prompt.size()},
                                      uint64_t{row.completion.size()}, uint64_t{row.ended ? 1U : 0U}})
            packed_numbers_.push_back(static_cast<int64_t>(number));
        packed_scores_.push_back(row.score);
        packed_scores_.insert(packed_scores_.end(), row.rewards.begin(), row.rewards.end());
    }
    const auto count = static_cast<int64_t>(rows.size());
    std::vector<model::TensorView> all;
    all.push_back(tensor_view(kRolloutIds, model::DType::i32, {std::ssize(packed_ids_)}, packed_ids_));
    all.push_back(
        tensor_view(kRolloutRows, model::DType::i64, {count, static_cast<int64_t>(kNumbersOfRow)}, packed_numbers_));
    all.push_back(tensor_view(kRolloutScores, model::DType::f64,
                              {count, count > 0 ? std::ssize(packed_scores_) / count : 0}, packed_scores_));
    for (const auto& [name, numbers] : {std::pair("logps", &logps), std::pair("ref_logps", &ref_logps),
                                        std::pair("values", &values), std::pair("entropies", &entropies)})
        if (!numbers->empty()) all.push_back(tensor_view(name, model::DType::f32, {std::ssize(*numbers)}, *numbers));
    for (const auto& [name, numbers] : columns)
        all.push_back(tensor_view(kRolloutColumn + name, model::DType::f32, {std::ssize(numbers)}, numbers));
    return all;
}

json RolloutBuffer::state() const {
    json state{{"iteration", iteration}, {"generations", generations}, {"kl_coef", kl_coef}};
    json names = json::array(), logged = json::array();
    for (const auto& [name, numbers] : columns) names.push_back(name);
    for (const auto& [name, value] : metrics) logged.push_back({name, finite_or_null(value)});
    state["columns"] = std::move(names);
    state["metrics"] = std::move(logged);
    return state;
}

Result<RolloutBuffer> RolloutBuffer::restore(std::span<const model::TensorView> tensors, const json& state,
                                             const std::string& where) {
    const StoredTensors stored{tensors, where};
    RolloutBuffer buffer;
    HK_ASSIGN(const std::vector<int32_t> ids, stored.values<int32_t>(kRolloutIds, model::DType::i32));
    HK_ASSIGN(const std::vector<int64_t> numbers, stored.values<int64_t>(kRolloutRows, model::DType::i64));
    HK_ASSIGN(const std::vector<double> scores, stored.values<double>(kRolloutScores, model::DType::f64));
    const std::size_t count = numbers.size() / kNumbersOfRow;
    const auto damaged = [&] {
        return corrupt(fmt::format("{}: the rollouts do not fit each other; remove this folder to resume from an older "
                                   "checkpoint",
                                   where));
    };
    if (count == 0 || scores.size() % count != 0) return damaged();
    const std::size_t rewards = scores.size() / count;
    auto next = ids.begin();
    uint64_t tokens = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const int64_t* of_row = numbers.data() + i * kNumbersOfRow;
        const int64_t left = ids.end() - next;
        if (of_row[2] < 0 || of_row[3] < 0 || of_row[2] > left || of_row[3] > left - of_row[2]) return damaged();
        Rollout& row = buffer.rows.emplace_back();
        row.episode = static_cast<uint64_t>(of_row[0]);
        row.example = static_cast<uint64_t>(of_row[1]);
        row.prompt.assign(next, next + of_row[2]);
        row.completion.assign(next + of_row[2], next + of_row[2] + of_row[3]);
        next += of_row[2] + of_row[3];
        row.ended = of_row[4] != 0;
        row.score = scores[i * rewards];
        row.rewards.assign(scores.begin() + static_cast<std::ptrdiff_t>(i * rewards + 1),
                           scores.begin() + static_cast<std::ptrdiff_t>((i + 1) * rewards));
        tokens += row.completion.size();
    }
    if (next != ids.end()) return damaged();
    for (const auto& [name, to] : {std::pair("logps", &buffer.logps), std::pair("ref_logps", &buffer.ref_logps),
                                   std::pair("values", &buffer.values), std::pair("entropies", &buffer.entropies)}) {
        if (stored.find(name) == nullptr) continue;
        HK_ASSIGN(*to, stored.values<float>(name, model::DType::f32));
        if (to->size() != tokens) return damaged();
    }
    try {
        buffer.iteration = state.at("iteration").get<uint64_t>();
        buffer.generations = state.at("generations").get<uint32_t>();
        buffer.kl_coef = state.at("kl_coef").get<double>();
        for (const json& name : state.at("columns")) {
            HK_ASSIGN(std::vector<float> column,
                      stored.values<float>(kRolloutColumn + name.get<std::string>(), model::DType::f32));
            if (column.size() != tokens) return damaged();
            buffer.columns.emplace_back(name.get<std::string>(), std::move(column));
        }
        for (const json& metric : state.at("metrics"))
            buffer.metrics.emplace_back(metric.at(0).get<std::string>(), metric.at(1).is_null()
                                                                             ? std::numeric_limits<double>::quiet_NaN()
                                                                             : metric.at(1).get<double>());
    } catch (const json::exception& e) { return corrupt(fmt::format("{}: trainer_state.json: {}", where, e.what())); }
    return buffer;
}

void RolloutBuffer::append(const RolloutBuffer& part) {
    const auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    add(rows, part.rows);
    add(logps, part.logps);
    add(ref_logps, part.ref_logps);
    add(values, part.values);
    add(entropies, part.entropies);
    if (metrics.empty()) metrics = part.metrics;
    for (std::size_t i = 0; i < part.metrics.size(); ++i)
        metrics[i].second = std::max(metrics[i].second, part.metrics[i].second);
}

Result<std::vector<std::byte>> RolloutBuffer::to_bytes() {
    std::vector<std::byte> bytes;
    const std::vector<model::TensorView> views = tensors();
    HK_TRY(model::write_safetensors(
        [&](std::span<const std::byte> more) {
            bytes.insert(bytes.end(), more.begin(), more.end());
            return Status();
        },
        model::sources_of(views), {{kRolloutState, state().dump()}}));
    return bytes;
}

Result<RolloutBuffer> RolloutBuffer::from_bytes(std::span<const std::byte> bytes) {
    const std::string where = "the rollouts of another rank";
    HK_ASSIGN(const model::ParsedSafetensors parsed, model::parse_safetensors(bytes, where));
    const auto text = parsed.metadata.find(kRolloutState);
    if (text == parsed.metadata.end()) return internal_error(where + " have no state");
    HK_ASSIGN(const json state, parse_json_object(text->second, where));
    return restore(parsed.tensors, state, where);
}

Result<RolloutBuffer> RolloutBuffer::gather(exchange::Communicator& ranks, RolloutBuffer part, bool stopped) {
    if (ranks.size() == 1) return stopped ? Result<RolloutBuffer>(Status(Code::cancelled, "stopped")) : part;
    std::vector<std::byte> own(1, stopped ? std::byte{1} : std::byte{0}); // a rank with nothing to do sends no more
    if (!stopped && !part.rows.empty()) {
        HK_ASSIGN(const std::vector<std::byte> bytes, part.to_bytes());
        own.insert(own.end(), bytes.begin(), bytes.end());
    }
    HK_ASSIGN(const auto all, ranks.gather(own));
    RolloutBuffer whole;
    whole.iteration = part.iteration;
    whole.generations = part.generations;
    whole.kl_coef = part.kl_coef;
    for (const std::vector<std::byte>& bytes : all) {
        if (bytes.empty() || bytes.front() != std::byte{0}) return Status(Code::cancelled, "a rank was stopped");
        if (bytes.size() == 1) continue;
        HK_ASSIGN(const RolloutBuffer of_rank, from_bytes(std::span(bytes).subspan(1)));
        whole.append(of_rank);
    }
    return whole;
}

Status RolloutBuffer::broadcast(exchange::Communicator& ranks, std::optional<RolloutBuffer>& buffer) {
    if (ranks.size() == 1) return {};
    std::vector<std::byte> bytes;
    if (ranks.rank() == 0 && buffer) { HK_ASSIGN(bytes, buffer->to_bytes()); }
    HK_TRY(ranks.broadcast(bytes));
    if (ranks.rank() == 0) return {};
    buffer.reset();
    if (bytes.empty()) return {};
    HK_ASSIGN(buffer, from_bytes(bytes));
    return {};
}

std::string RolloutBuffer::lines(const text::Tokenizer& tokenizer, const std::vector<std::string>& rewards,
                                 const std::function<std::string(uint64_t)>& place) const {
    std::string text;
    const std::vector<uint64_t> begin = begins();
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Rollout& row = rows[i];
        ordered_json line;
        line["episode"] = row.episode;
        line["place"] = place(row.example);
        line["prompt"] = tokenizer.decode(row.prompt, true);
        line["completion"] = tokenizer.decode(row.completion, true);
        line["ended"] = row.ended;
        line["score"] = finite_or_null(row.score);
        for (std::size_t r = 0; r < rewards.size() && r < row.rewards.size(); ++r)
            line["rewards"][rewards[r]] = finite_or_null(row.rewards[r]);
        line["prompt_ids"] = row.prompt;
        line["completion_ids"] = row.completion;
        const auto add = [&](const std::string& name, const std::vector<float>& numbers) {
            if (numbers.empty()) return;
            const auto from = numbers.begin();
            line[name] = std::vector<float>(from + static_cast<std::ptrdiff_t>(begin[i]),
                                            from + static_cast<std::ptrdiff_t>(begin[i + 1]));
        };
        add("logps", logps);
        add("ref_logps", ref_logps);
        add("values", values);
        add("entropies", entropies);
        for (const auto& [name, numbers] : columns)
            if (!line.contains(name)) add(name, numbers);
        text += line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    }
    return text;
}

} // namespace hekla::train
