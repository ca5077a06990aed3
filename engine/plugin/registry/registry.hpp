// The known plugins, from explicitly given folders: manifests are read at once, libraries are loaded on first use.
#pragma once

#include "base/log.hpp"
#include "plugin/registry/manifest.hpp"

#include <functional>
#include <map>
#include <mutex>

namespace hekla::plugin {

class Library;

// Settings of the processes that plugins run in. A crash of another process does not affect this one.
struct Processes {
    enum class Describe : int32_t {
        automatic,  // in another process, except the trusted plugins of the installation's own folder
        child,      // every plugin in another process
        in_process, // all in this process: for hosts that cannot start processes
    };
    Describe describe = Describe::in_process;
    std::filesystem::path program; // hekla-describe; empty: next to this program, or in libexec/ next to its folder
    double seconds = 60.0;         // time limit of one answer
    uint64_t memory_bytes = uint64_t{4} << 30; // limit of the address space; 0: none
    // Whether collate and decode run in worker processes too, which are restarted when they end.
    bool isolate = false;
    // Whether a plugin that crashes, hangs or throws while it describes is disabled for the rest of the run.
    bool disable_failing = false;
};

// The folder of Hekla's own plugins: lib/hekla/plugins next to the folder of the program or library that contains this
// engine; empty if it does not exist.
std::filesystem::path built_in_folder();

class Registry {
public:
    // Reads the manifests (*.json) of each folder, in order; a folder given twice is read once. If several manifests
    // provide an id, the first one is used, with a warning. A damaged manifest gives a warning, and the others still
    // work. Folders that do not exist, and folders, manifests and libraries that other users may write to, are refused
    // with a warning. All texts are stored in `memory`, which must outlive the registry. Throws std::bad_alloc.
    static Registry scan(const std::vector<std::filesystem::path>& folders, Log log = {},
                         std::pmr::memory_resource* memory = std::pmr::new_delete_resource());
    // Reads manifests given by their paths.
    static Registry of(const std::vector<std::filesystem::path>& manifests, Log log = {},
                       std::pmr::memory_resource* memory = std::pmr::new_delete_resource());
    Registry(Registry&&) noexcept;
    Registry& operator=(Registry&&) noexcept;
    ~Registry();

    struct Entry {
        const Manifest* manifest = nullptr;
        const Provided* provided = nullptr;
    };

    // The error contains the nearest id and all existing ones. Thread: any.
    Result<Entry> find(std::string_view interface_id, std::string_view id) const;
    // Returns whether a plugin provides it.
    bool provides(std::string_view interface_id, std::string_view id) const;
    // Returns unsupported, with where the list is, if no plugin serves it. named_model.hpp reads a config.json.
    Result<Entry> find_model_type(std::string_view model_type) const;
    // Returns the architecture whose manifest lists this class of the reference implementation, and the class.
    Result<std::pair<Entry, const ReferenceClass*>> find_class(std::string_view class_name) const;

    // Returns the plugin's table (hk_architecture, hk_objective, hk_head); loads the library if needed. Thread: any.
    Result<const void*> load(const Entry& entry) const;
    // find() and load() by id.
    template<class Table>
    Result<const Table*> open(std::string_view interface_id, std::string_view id) const {
        HK_ASSIGN(const Entry entry, find(interface_id, id));
        HK_ASSIGN(const void* table, load(entry));
        return static_cast<const Table*>(table);
    }

    std::span<const Manifest> manifests() const { return manifests_; }
    // Returns the manifest of a plugin by its name; null if unknown.
    const Manifest* plugin_named(std::string_view name) const;
    // Returns failed_precondition if a plugin that this one needs, or that one of those needs, is missing, is of
    // another version, or needs this one. Thread: any.
    Status check_needs(const Manifest& manifest) const;
    // Finds a manifest by its path; null if unknown.
    const Manifest* manifest_at(std::string_view file) const;
    Texts warnings() const { return warnings_; }
    const Log& log() const { return log_; }

    // Call it before the first composition is created.
    void set_processes(Processes processes) { processes_ = std::move(processes); }
    const Processes& processes() const { return processes_; }

    // Called before a plugin function runs and, after it returns, with the function that continues. manifest is null if
    // none does.
    using Witness = std::function<void(const Manifest* manifest, std::string_view function)>;
    void set_witness(Witness witness) { witness_ = std::move(witness); }
    // Called on the thread that enters (true) or leaves a function of a plugin in this process, for crash reports. Set
    // it before the first plugin is used.
    using CallObserver = std::function<void(const Manifest& manifest, std::string_view function, bool entered)>;
    void set_call_observer(CallObserver observer) { call_observer_ = std::move(observer); }

    // Marks a function of a plugin as running during its lifetime, for the witness and the call observer. Thread: with
    // a witness one at a time.
    class Within {
    public:
        Within(const Registry& registry, const Manifest* manifest, const char* function);
        ~Within();
        Within(const Within&) = delete;
        Within& operator=(const Within&) = delete;

    private:
        const Registry& registry_;
        const Manifest* manifest_;
        std::string_view function_;
        std::pair<const Manifest*, std::string_view> before_;
    };

    // Reports a plugin that failed while describing: "it crashed in build()". Disables it, with a warning, if
    // Processes::disable_failing is set. Thread: any.
    void disable_plugin(const Manifest& manifest, const std::string& why) const;
    // Returns failed_precondition for a disabled plugin, and for one that cannot run without another: check_needs().
    // Thread: any.
    Status check_enabled(const Manifest& manifest) const;
    // Returns the number of reported failures, and the manifest of the last one. Thread: any.
    std::pair<std::size_t, const Manifest*> failures() const;

private:
    Registry(Log log, std::pmr::memory_resource* memory);
    std::vector<Entry> entries(std::string_view interface_id) const;
    ReadOnlyArena kept_;    // storage of manifests and warnings
    bool complete_ = false; // folders were searched, so a plugin that is not known is missing
    std::span<const Manifest> manifests_;
    Texts warnings_;
    Log log_;
    Processes processes_;
    Witness witness_;
    CallObserver call_observer_;
    mutable std::pair<const Manifest*, std::string_view> running_{nullptr, {}}; // for the witness
    mutable std::unique_ptr<std::mutex> lock_;
    mutable std::map<std::string_view, std::string> disabled_; // library -> why
    mutable std::pair<std::size_t, const Manifest*> failures_{0, nullptr};
    mutable std::map<std::string_view, Result<std::unique_ptr<Library>>> libraries_;
};

} // namespace hekla::plugin
