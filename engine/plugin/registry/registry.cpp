#include "plugin/registry/registry.hpp"

#include "plugin/registry/library.hpp"

#include "base/installed_path.hpp"
#include "base/module.hpp"
#include "base/nearest_name.hpp"
#include "base/system_file.hpp"
#include "hekla/plugin/combiner.h"
#include "hekla/plugin/draft/reward.h"
#include "hekla/plugin/draft/rollout.h"
#include "plugin/host/host_adapter.hpp"
#include "plugin/registry/version_range.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace hekla::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kArchitecture = "hekla.architecture/1";

Status not_supported_yet(std::string_view kind, std::string_view name) {
    return unsupported(fmt::format("the {} '{}' is not supported yet; {} lists what is, and {} tells how an "
                                   "architecture is added (--plugin-path or hk_context_options.plugin_folders for a "
                                   "plugin that has it)",
                                   kind, name, installed_path("docs/models.md"), installed_path("plugins/README.md")));
}

// Returns the drafts of this host.
std::vector<Draft> host_drafts() { return {{HK_ROLLOUT_DRAFT, nullptr}, {HK_REWARD_DRAFT, nullptr}}; }

// "hekla.architecture/1" -> "architecture"
std::string kind_of(std::string_view interface_id) {
    const std::size_t dot = interface_id.find('.'), slash = interface_id.find('/');
    if (dot == std::string_view::npos || slash == std::string_view::npos || slash < dot)
        return std::string(interface_id);
    return std::string(interface_id.substr(dot + 1, slash - dot - 1));
}

std::string choices_text(std::string_view word, Texts choices) {
    return choices.empty()
               ? "none is known; check the plugin folders (--plugin-path, hk_context_options.plugin_folders)"
               : fmt::format("known are {}{}", fmt::join(choices, ", "), did_you_mean(word, choices));
}

enum class Owner { may_be_anyone, must_be_trusted };

bool owner_is_a_stranger(const Writers& writers, Owner owner) {
    return owner == Owner::must_be_trusted && writers.owner;
}

// Returns which other users may write to a file or folder; empty: none. The user's own group counts as the user, since
// many systems have one group per user.
std::string_view who_may_write(const Writers& writers, Owner owner) {
    if (owner_is_a_stranger(writers, owner)) return "its owner, another user";
    if (writers.everyone) return "everyone";
    return writers.group ? "its group" : "";
}

// Who owns the installation could replace the program as well.
Owner owner_of(bool built_in) { return built_in ? Owner::may_be_anyone : Owner::must_be_trusted; }

// Returns what to do about who_may_write().
std::string_view remedy(const Writers& writers, Owner owner) {
    return owner_is_a_stranger(writers, owner) ? "chown it to the user who runs Hekla" : "chmod go-w it";
}

// Returns why a plugin's file is not used; empty if it is.
std::string not_used(const fs::path& file, bool built_in) {
    std::error_code problem;
    const Writers writers = writers_of(file, problem);
    if (problem) return {};
    const Owner owner = owner_of(built_in);
    const std::string_view who = who_may_write(writers, owner);
    if (who.empty()) return {};
    return fmt::format("plugin {} can be written by {}: not used ({})", file.string(), who, remedy(writers, owner));
}

// Returns why a folder is not searched; empty if it is. Its parents count too, since a user who may rename them can
// replace the folder. The installation's own folder is an exception, since such a user could replace the program as
// well.
std::string not_searched(const fs::path& folder, bool built_in) {
    std::error_code problem;
    const Writers writers = writers_of(folder, problem);
    if (problem || !writers.is_folder) return fmt::format("plugin folder {} does not exist", folder.string());
    const Owner owner = owner_of(built_in);
    if (const std::string_view who = who_may_write(writers, owner); !who.empty())
        return fmt::format("plugin folder {} can be written by {}: not used ({})", folder.string(), who,
                           remedy(writers, owner));
    if (built_in) return {};
    const fs::path real = fs::canonical(folder, problem);
    if (problem) return {};
    for (fs::path above = real.parent_path(); above != above.parent_path(); above = above.parent_path()) {
        const Writers writers_above = writers_of(above, problem);
        if (!problem && !writers_above.renames_own_only) {
            // In a container the owner of a mounted folder is often unknown.
            if (const std::string_view who = who_may_write(writers_above, Owner::may_be_anyone); !who.empty())
                return fmt::format("plugin folder {} is in {}, which can be written by {}: not used (chmod go-w {})",
                                   folder.string(), above.string(), who, above.string());
        }
    }
    return {};
}

// Collects manifests and warnings until they are stored.
class Found {
public:
    explicit Found(ReadOnlyArena& kept) : kept_(kept) {}

    void take(const fs::path& file, bool built_in) {
        Result<Manifest> read = read_manifest(file, kept_);
        if (!read.ok()) return warn(read.message());
        Manifest manifest = read.take();
        manifest.built_in = built_in;
        if (const std::string why = not_used(manifest.library, built_in); !why.empty()) return warn(why);
        std::vector<Provided> shown;
        std::map<std::string_view, std::vector<std::string>> hidden; // by the manifest that takes precedence
        for (const Provided& p : manifest.provides) {
            const auto [first, added] = seen_.emplace(std::pair(p.interface_id, p.id), manifest.file);
            if (added)
                shown.push_back(p);
            else
                hidden[first->second].push_back(fmt::format("{} '{}'", kind_of(p.interface_id), p.id));
        }
        for (const auto& [by, what] : hidden)
            warn(fmt::format("{} of {} {} hidden by {}", fmt::join(what, ", "), manifest.file,
                             what.size() == 1 ? "is" : "are", by));
        if (shown.size() < manifest.provides.size()) manifest.provides = kept_.list(shown);
        manifests_.push_back(manifest);
    }
    void warn(std::string_view text) { warnings_.push_back(kept_.text(text)); }

    std::span<const Manifest> manifests() { return kept_.list(manifests_); }
    Texts warnings() { return kept_.list(warnings_); }

private:
    StringInterner kept_;
    std::vector<Manifest> manifests_;
    std::vector<std::string_view> warnings_;
    std::map<std::pair<std::string_view, std::string_view>, std::string_view> seen_; // interface and id -> manifest
};

} // namespace

fs::path built_in_folder() {
    std::error_code problem;
    const fs::path folder = own_folder().parent_path() / "lib" / "hekla" / "plugins";
    return fs::is_directory(folder, problem) ? fs::weakly_canonical(folder, problem) : fs::path();
}

Registry::Registry(Log log, std::pmr::memory_resource* memory)
    : kept_(memory), log_(std::move(log)), lock_(std::make_unique<std::mutex>()) {}
Registry::Registry(Registry&&) noexcept = default;
Registry& Registry::operator=(Registry&&) noexcept = default;
Registry::~Registry() = default;

Registry Registry::scan(const std::vector<fs::path>& folders, Log log, std::pmr::memory_resource* memory) {
    Registry registry(std::move(log), memory);
    Found found(registry.kept_);
    std::error_code problem;
    const fs::path own = built_in_folder();
    std::set<fs::path> searched;
    for (const fs::path& folder : folders) {
        const fs::path real = fs::weakly_canonical(folder, problem);
        if (!searched.insert(real.empty() ? folder : real).second) continue; // given twice
        const bool built_in = !own.empty() && real == own;
        if (const std::string why = not_searched(folder, built_in); !why.empty()) {
            found.warn(why);
            continue;
        }
        std::vector<fs::path> files;
        for (fs::directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem))
            if (it->path().extension() == ".json") files.push_back(it->path());
        std::ranges::sort(files); // so that ids always resolve the same way
        for (const fs::path& file : files) {
            if (const std::string why = not_used(file, built_in); !why.empty())
                found.warn(why);
            else
                found.take(file, built_in);
        }
    }
    registry.manifests_ = found.manifests();
    registry.warnings_ = found.warnings();
    registry.complete_ = true;
    return registry;
}

Registry Registry::of(const std::vector<fs::path>& manifests, Log log, std::pmr::memory_resource* memory) {
    Registry registry(std::move(log), memory);
    Found found(registry.kept_);
    for (const fs::path& file : manifests) found.take(file, false);
    registry.manifests_ = found.manifests();
    registry.warnings_ = found.warnings();
    return registry;
}

Registry::Within::Within(const Registry& registry, const Manifest* manifest, const char* function)
    : registry_(registry), manifest_(manifest), function_(function) {
    if (registry_.call_observer_ && manifest_ != nullptr) registry_.call_observer_(*manifest_, function_, true);
    if (!registry_.witness_) return;
    before_ = std::exchange(registry_.running_, {manifest, function});
    registry_.witness_(manifest, function);
}

Registry::Within::~Within() {
    if (registry_.call_observer_ && manifest_ != nullptr) registry_.call_observer_(*manifest_, function_, false);
    if (!registry_.witness_) return;
    registry_.running_ = before_;
    registry_.witness_(before_.first, before_.second);
}

void Registry::disable_plugin(const Manifest& manifest, const std::string& why) const {
    const std::scoped_lock hold(*lock_);
    ++failures_.first;
    failures_.second = &manifest;
    if (processes_.disable_failing && disabled_.emplace(manifest.library, why).second)
        log_.warning(fmt::format("plugin '{}' is disabled for this run: {}", manifest.plugin, why));
}

Status Registry::check_enabled(const Manifest& manifest) const {
    if (complete_) HK_TRY(check_needs(manifest));
    const std::scoped_lock hold(*lock_);
    const auto found = disabled_.find(manifest.library);
    if (found == disabled_.end()) return {};
    return failed_precondition(
        fmt::format("plugin '{}' ({}) is disabled for this run: {}", manifest.plugin, manifest.library, found->second));
}

std::pair<std::size_t, const Manifest*> Registry::failures() const {
    const std::scoped_lock hold(*lock_);
    return failures_;
}

const Manifest* Registry::plugin_named(std::string_view name) const {
    const auto found = std::ranges::find(manifests_, name, &Manifest::plugin);
    return found != manifests_.end() ? &*found : nullptr;
}

Status Registry::check_needs(const Manifest& manifest) const {
    std::vector<std::string_view> path; // of names, from the manifest's on
    std::set<std::string_view> complete;
    const auto visit = [&](const auto& self, const Manifest& one) -> Status {
        if (path.size() >= kLongestChain)
            return failed_precondition(fmt::format("plugin '{}' ({}) needs a chain of more than {} plugins",
                                                   manifest.plugin, manifest.file, kLongestChain));
        path.push_back(one.plugin);
        for (const auto& [name, version] : one.needs) {
            if (std::ranges::find(path, name) != path.end())
                return failed_precondition(fmt::format("plugins need each other in a circle: {} -> {} ({})",
                                                       fmt::join(path, " -> "), name, one.file));
            const Manifest* const other = plugin_named(name);
            const std::string wanted = version.empty() ? std::string(name) : fmt::format("{} {}", name, version);
            if (other == nullptr)
                return failed_precondition(fmt::format("plugin '{}' ({}) needs the plugin {}, which is not installed: "
                                                       "hekla plugin install it, or remove '{}'",
                                                       one.plugin, one.file, wanted, one.plugin));
            HK_ASSIGN(const VersionRange range, VersionRange::parse(version));
            if (!range.contains(other->version))
                return failed_precondition(
                    fmt::format("plugin '{}' ({}) needs the plugin {}, and {} is version {}: hekla plugin update it",
                                one.plugin, one.file, wanted, other->file, other->version));
            if (complete.insert(name).second) HK_TRY(self(self, *other));
        }
        path.pop_back();
        return {};
    };
    return visit(visit, manifest);
}

const Manifest* Registry::manifest_at(std::string_view file) const {
    const auto found = std::ranges::find(manifests_, file, &Manifest::file);
    return found != manifests_.end() ? &*found : nullptr;
}

std::vector<Registry::Entry> Registry::entries(std::string_view interface_id) const {
    std::vector<Entry> result;
    for (const Manifest& manifest : manifests_)
        for (const Provided& provided : manifest.provides)
            if (provided.interface_id == interface_id) result.push_back({&manifest, &provided});
    return result;
}

Result<Registry::Entry> Registry::find(std::string_view interface_id, std::string_view id) const {
    std::vector<std::string_view> ids;
    for (const Entry& entry : entries(interface_id)) {
        if (entry.provided->id == id) return entry;
        ids.push_back(entry.provided->id);
    }
    // A plugin with the same id for another revision of the interface is a better suggestion than a similar name.
    for (const Manifest& manifest : manifests_)
        for (const Provided& provided : manifest.provides)
            if (provided.id == id && provided.interface_id != interface_id &&
                kind_of(provided.interface_id) == kind_of(interface_id))
                return unsupported(fmt::format("plugin {} provides the {} '{}' as {}, this Hekla uses {}: build it "
                                               "against that one (\"interface\" in "
                                               "{}), or update Hekla where the plugin's is the newer",
                                               manifest.plugin, kind_of(interface_id), id, provided.interface_id,
                                               interface_id, manifest.file));
    return not_found(
        fmt::format("no plugin provides the {} '{}': {}", kind_of(interface_id), id, choices_text(id, ids)));
}

bool Registry::provides(std::string_view interface_id, std::string_view id) const {
    return std::ranges::any_of(entries(interface_id), [&](const Entry& entry) { return entry.provided->id == id; });
}

Result<Registry::Entry> Registry::find_model_type(std::string_view model_type) const {
    for (const Entry& entry : entries(kArchitecture))
        for (const std::string_view type : entry.provided->model_types)
            if (type == model_type) return entry;
    return not_supported_yet("model_type", model_type);
}

Result<std::pair<Registry::Entry, const ReferenceClass*>> Registry::find_class(std::string_view class_name) const {
    for (const Entry& entry : entries(kArchitecture))
        for (const ReferenceClass& c : entry.provided->classes)
            if (c.name == class_name) return std::pair(entry, &c);
    return not_supported_yet("class", class_name);
}

Result<const void*> Registry::load(const Entry& entry) const {
    HK_TRY(check_enabled(*entry.manifest));
    const std::scoped_lock hold(*lock_);
    const Within within(*this, entry.manifest, "load");
    auto found = libraries_.find(entry.manifest->library);
    if (found == libraries_.end()) // errors are cached too, so that init() is called once
        found = libraries_.emplace(entry.manifest->library, Library::load(*entry.manifest, log_, host_drafts())).first;
    if (!found->second.ok()) return found->second.status();
    const void* table = found->second.value()->get_interface(entry.provided->interface_id, entry.provided->id);
    if (table == nullptr) // load() already checked it
        return corrupt(fmt::format("plugin {}: {} '{}' was there and is not any more", entry.manifest->library,
                                   entry.provided->interface_id, entry.provided->id));
    return table;
}

} // namespace hekla::plugin
