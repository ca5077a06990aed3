#include "train/run/kernel_record.hpp"

#include "base/file.hpp"
#include "base/json.hpp"

namespace hekla::train {

void add_choice(const std::string& line, KernelChoices& choices) {
    if (const std::size_t end = line.rfind(": "); end != std::string::npos)
        choices[line.substr(0, end)] = line.substr(end + 2);
}

KernelRecord KernelRecord::read(const std::filesystem::path& file, const nlohmann::json& identity) {
    const Result<std::string> text = read_file(file);
    return from(text.ok() ? json_or_null(text.value()) : nlohmann::json(), identity);
}

KernelRecord KernelRecord::from(const nlohmann::json& stored, const nlohmann::json& identity) {
    KernelRecord record{identity, {}, 0.0};
    if (!stored.is_object() || stored.value("kernels_of", nlohmann::json()) != identity) return record;
    for (const nlohmann::json& line : stored.value("kernel_choices", nlohmann::json::array()))
        if (line.is_string()) record.choices.push_back(line.get<std::string>());
    if (const nlohmann::json peak = stored.value("peak_flops", nlohmann::json()); peak.is_number())
        record.peak_flops = peak.get<double>();
    return record;
}

nlohmann::json KernelRecord::json() const {
    return {{"kernels_of", of}, {"kernel_choices", choices}, {"peak_flops", peak_flops}};
}

KernelChoices KernelRecord::by_key() const {
    KernelChoices all;
    for (const std::string& line : choices) add_choice(line, all);
    return all;
}

} // namespace hekla::train
