#include "plugin/instances/optimizers.hpp"

#include "plugin/composition/part_config.hpp"
#include "plugin/process/in_process_plugins.hpp"
#include "plugin/process/out_of_process_plugins.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::plugin {

Result<std::unique_ptr<Optimizers>> Optimizers::create(const Registry& registry, const std::vector<PartSpec>& specs,
                                                       const Log& log) {
    std::unique_ptr<Optimizers> optimizers(new Optimizers());
    PartsSpec parts;
    std::vector<Registry::Entry> entries;
    bool apart = false;
    for (const PartSpec& spec : specs) {
        const std::string what = fmt::format("optimizer '{}'", spec.id);
        HK_ASSIGN(const Registry::Entry entry, registry.find(HK_OPTIMIZER_INTERFACE, spec.id));
        HK_TRY(registry.check_enabled(*entry.manifest));
        parts.optimizers.push_back({spec.id, with_defaults(*entry.provided, spec.config)});
        HK_TRY(check_ranges(*entry.provided, parts.optimizers.back().config, what));
        apart = apart || goes_apart(registry, *entry.manifest);
        optimizers->ids_.push_back(spec.id);
        entries.push_back(entry);
    }
    optimizers->known_.resize(specs.size());
    HK_ASSIGN(optimizers->plugins_,
              apart ? make_out_of_process_plugins(registry, parts, nullptr, WorkerPurpose::describing)
                    : make_in_process_plugins(registry, parts, nullptr));
    const ReadKeys& read = optimizers->plugins_->read();
    for (std::size_t i = 0; i < specs.size() && i < read.optimizers.size(); ++i)
        HK_TRY(unknown_keys(*entries[i].provided, specs[i].config, parts.optimizers[i].config, read.optimizers[i], true,
                            log, fmt::format("optimizer '{}'", specs[i].id)));
    return optimizers;
}

Result<std::size_t> Optimizers::index_of(const std::string& id) const {
    const auto found = std::ranges::find(ids_, id);
    if (found == ids_.end()) return internal_error(fmt::format("optimizer '{}' was not created", id));
    return static_cast<std::size_t>(found - ids_.begin());
}

Result<bool> Optimizers::takes(const std::string& id, const OptimizedParameter& parameter) {
    HK_ASSIGN(const std::size_t index, index_of(id));
    return plugins_->takes(index, parameter);
}

Result<const UpdateGraph*> Optimizers::update(const std::string& id, const OptimizedParameter& parameter) {
    HK_ASSIGN(const std::size_t index, index_of(id));
    std::vector<Known>& known = known_[index];
    const auto found = std::ranges::find(known, parameter, &Known::parameter);
    if (found != known.end()) return found->update.get();
    HK_ASSIGN(UpdateGraph update, plugins_->update(index, parameter));
    known.push_back({parameter, std::make_unique<UpdateGraph>(std::move(update))});
    return known.back().update.get();
}

} // namespace hekla::plugin
