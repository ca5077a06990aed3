#include "models/log_reader.hpp"

#include "base/system_file.hpp"
#include "failure.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace observatory {
namespace {

constexpr const char* kLog = "train_log.jsonl";
constexpr std::size_t kAtOnce = std::size_t{4} << 20;       // bytes read per frame
constexpr std::size_t kLongestFirst = std::size_t{1} << 16; // bytes of the first line that identify a run

double number(const nlohmann::json& record, const char* key) {
    const auto found = record.find(key);
    return found != record.end() && found->is_number() ? found->get<double>() : 0.0;
}

std::string bytes_at(const hekla::FileHandle& file, uint64_t position, std::size_t count) {
    std::string bytes(count, '\0');
    std::error_code problem;
    bytes.resize(hekla::read_at(file, position, bytes.data(), count, problem));
    return bytes;
}

} // namespace

LogReader::LogReader(const std::filesystem::path& path) : file_(path) {
    std::error_code problem;
    if (std::filesystem::is_directory(path, problem)) file_ = path / kLog;
    if (!std::filesystem::is_regular_file(file_, problem))
        throw Failure(path.string() + ": not a training log, and not a run's folder with a " + kLog +
                      "; `hekla train` writes one into the folder that the recipe's [output] names");
    read();
}

void LogReader::read() {
    std::error_code problem;
    const hekla::FileHandle file = hekla::open_to_read(file_, problem);
    const uint64_t size = problem ? 0 : hekla::facts_of(file, problem).size;
    if (problem) throw Failure(file_.string() + ": " + problem.message());
    if (size == read_) return;
    std::string first = bytes_at(file, 0, kLongestFirst);
    first.resize(std::min(first.find('\n'), first.size()));
    if (size < read_ || (read_ > 0 && !first_.empty() && first != first_)) {
        curves_ = Curves();
        read_ = bad_lines_ = 0;
        begun_.clear();
    }
    first_ = size > first.size() ? first : "";
    const std::string bytes = bytes_at(file, read_, std::min<uint64_t>(size - read_, kAtOnce));
    read_ += bytes.size();
    begun_ += bytes;
    std::size_t begin = 0;
    for (std::size_t end = begun_.find('\n'); end != std::string::npos; end = begun_.find('\n', begin)) {
        take(begun_.substr(begin, end - begin));
        begin = end + 1;
    }
    begun_.erase(0, begin);
}

void LogReader::take(const std::string& line) {
    constexpr int kDepthLimit = 64; // the public API has no JSON reader, so this repeats the engine's limit
    const nlohmann::json record = nlohmann::json::parse(
        line, [](int depth, auto, const auto&) { return depth < kDepthLimit; }, false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number()) {
        ++bad_lines_;
        return;
    }
    const double step = number(record, "step");
    curves_.step = static_cast<int64_t>(step);
    if (record.contains("eval_loss")) {
        for (const auto& [key, value] : record.items()) {
            if (!key.starts_with("eval_") || !value.is_number()) continue;
            const auto read = value.get<double>();
            (key == "eval_loss" ? curves_.evaluation : curves_.score(key.substr(5))).add(step, read);
            if (key == "eval_loss" && (curves_.evaluation.values.size() == 1 || read < curves_.best))
                curves_.best = read;
        }
        return;
    }
    if (record.value("skipped", false)) ++curves_.skipped;
    if (record.contains("loss") && record["loss"].is_number()) curves_.loss.add(step, number(record, "loss"));
    if (record.contains("grad_norm") && record["grad_norm"].is_number())
        curves_.gradient_norm.add(step, number(record, "grad_norm"));
    curves_.learning_rate.add(step, number(record, "learning_rate"));
    curves_.tokens_per_second = number(record, "tokens_per_second");
}

} // namespace observatory
