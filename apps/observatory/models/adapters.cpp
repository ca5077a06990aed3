#include "models/adapters.hpp"

#include "base/path_text.hpp"
#include "failure.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace observatory {
namespace {

// Fills the description of an adapter. Throws a Failure with the engine's message.
void describe(Adapter& adapter, Engine& engine, const std::string& model) {
    const nlohmann::json found =
        nlohmann::json::parse(engine.program().run({"adapter", "inspect", adapter.folder, "--body", model, "--json"}));
    adapter.kind = found.at("adapter").get<std::string>();
    adapter.parameters = found.at("parameters").get<int64_t>();
    adapter.share = found.at("share").get<double>();
    adapter.modules = found.at("modules").size();
    for (const nlohmann::json& module : found.at("modules")) {
        if (module.at("rank").is_null()) continue;
        const auto rank = module.at("rank").get<int64_t>();
        adapter.rank = std::max(adapter.rank, rank);
        adapter.least_rank = adapter.least_rank == 0 ? rank : std::min(adapter.least_rank, rank);
    }
    hk::Error error;
    const hk::Adapter loaded = engine.cpp_context().open_adapter(adapter.folder, model, error);
    if (!loaded) adapter.slot_problem = error.message();
}

} // namespace

AdapterArgument parse_adapter(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
        throw Failure("--adapter " + text + ": expected NAME=FOLDER or NAME=FOLDER:SCALE");
    AdapterArgument adapter{text.substr(0, equals), text.substr(equals + 1)};
    if (const std::size_t colon = adapter.folder.rfind(':'); colon != std::string::npos) {
        const char* const end = adapter.folder.data() + adapter.folder.size();
        float scale = 1.0F;
        const auto [last, problem] = std::from_chars(adapter.folder.data() + colon + 1, end, scale);
        if (problem == std::errc() && last == end && std::isfinite(scale)) {
            adapter.scale = scale;
            adapter.folder.resize(colon);
        }
    }
    return adapter;
}

std::string Adapters::free_name(const std::string& wanted) const {
    const auto is_used = [&](const std::string& name) {
        return std::ranges::find(all_, name, &Adapter::name) != all_.end();
    };
    std::string name = wanted;
    for (int number = 2; is_used(name); ++number) name = wanted + "-" + std::to_string(number);
    return name;
}

void Adapters::open(const std::string& model, const std::string& folder, const std::string& name, float scale) {
    Adapter& entry = all_.emplace_back();
    Adapter adapter;
    adapter.id = ++last_id_;
    adapter.folder = folder;
    adapter.scale = scale;
    const std::string own = hekla::path_of(folder).lexically_normal().filename().string();
    adapter.name = free_name(!name.empty() ? name : own.empty() ? folder : own);
    entry = adapter;
    engine_.jobs().add([adapter, model, opened = opened_, &engine = engine_]() mutable {
        try {
            describe(adapter, engine, model);
            adapter.state = Adapter::State::ready;
        } catch (const std::exception& failure) {
            adapter.state = Adapter::State::failed;
            adapter.problem = failure.what();
        }
        const std::lock_guard guard(opened->mutex);
        opened->entries.push_back(std::move(adapter));
    });
}

void Adapters::remove(uint64_t id) {
    std::erase_if(all_, [&](const Adapter& adapter) { return adapter.id == id; });
}

void Adapters::update() {
    const std::lock_guard guard(opened_->mutex);
    for (Adapter& read : opened_->entries) {
        const auto entry = std::ranges::find(all_, read.id, &Adapter::id);
        if (entry == all_.end()) continue; // removed in the meantime
        read.scale = entry->scale;
        read.chosen = entry->chosen;
        *entry = std::move(read);
    }
    opened_->entries.clear();
}

bool Adapters::is_opening() const {
    return std::ranges::any_of(all_, [](const Adapter& adapter) { return adapter.state == Adapter::State::opening; });
}

} // namespace observatory
