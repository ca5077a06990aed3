#include "program/compiler_spills.hpp"

#include "base/json.hpp"
#include "gpu/compiler_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace hekla::program {

Result<std::shared_ptr<CompilerSpills>> CompilerSpills::create(const gpu::Context& context,
                                                               std::span<const gpu::EmbeddedShader> kernels,
                                                               const std::string& identity,
                                                               std::shared_ptr<Cache> cache) {
    if (!context.device->compiler_reports()) return std::shared_ptr<CompilerSpills>();
    std::shared_ptr<CompilerSpills> self(new CompilerSpills);
    self->entry_ = "spills-" + identity + ".json";
    self->cache_ = std::move(cache);
    self->kernels_ = kernels;
    self->device_ = context.device;
    if (context.pipelines->reports()) {
        self->pipelines_ = context.pipelines;
    } else {
        gpu::PipelinesOptions options;
        options.reports = true;
        HK_ASSIGN(self->pipelines_, gpu::Pipelines::create(context.device, options));
    }
    if (self->cache_ == nullptr) return self;
    const Result<std::optional<std::string>> text = self->cache_->load(self->entry_);
    if (text.ok() && !text.value()) return self;
    const Result<nlohmann::json> content = text.ok()
                                               ? parse_json_object(*text.value(), self->cache_->place(self->entry_))
                                               : Result<nlohmann::json>(text.status());
    if (!content.ok()) {
        context.device->log().warning("stored counts of spilled registers are not used: " + content.message());
        return self;
    }
    for (const auto& [kernel, count] : content->items())
        if (count.is_number_unsigned()) self->counts_[kernel] = count.get<uint64_t>();
    return self;
}

std::optional<uint64_t> CompilerSpills::of(const Dispatch& dispatch) {
    if (!dispatch.source.empty() || dispatch.words != nullptr) return std::nullopt;
    const std::string kernel =
        fmt::format("{} [{}] {}", dispatch.shader, fmt::join(dispatch.constants, " "), dispatch.subgroup_size);
    const std::lock_guard guard(mutex_);
    if (const auto known = counts_.find(kernel); known != counts_.end()) return known->second;
    if (pipelines_ == nullptr) return std::nullopt;
    const std::optional<uint64_t> count = ask(dispatch);
    if (!count) return std::nullopt;
    changed_ = true;
    return counts_[kernel] = *count;
}

std::optional<uint64_t> CompilerSpills::ask(const Dispatch& dispatch) const {
    auto shader = gpu::Shader::find(kernels_, dispatch.shader);
    if (!shader.ok()) return std::nullopt;
    gpu::PipelineDescription described;
    described.shader = shader.take();
    described.constants = dispatch.constants;
    described.subgroup_size = dispatch.subgroup_size;
    const auto pipeline = pipelines_->get(described);
    if (!pipeline.ok()) return std::nullopt;
    const auto reports = gpu::compiler_reports(*device_, *pipeline.value(), false);
    if (!reports.ok()) return std::nullopt;
    const std::optional<double> spills = gpu::kernel_statistics(reports.value()).spills;
    return spills ? std::optional(static_cast<uint64_t>(*spills)) : std::nullopt;
}

Status CompilerSpills::save() const {
    const std::lock_guard guard(mutex_);
    if (cache_ == nullptr || !changed_) return {};
    HK_TRY(cache_->store(entry_, nlohmann::json(counts_).dump(1) + "\n"));
    changed_ = false;
    return {};
}

void CompilerSpills::close() {
    const std::lock_guard guard(mutex_);
    pipelines_.reset();
    device_.reset();
}

} // namespace hekla::program
