// Which plugins there are, from folders that were named explicitly: manifests are read, libraries are loaded on first
// use.
#pragma once

#include "base/log.hpp"
#include "plugin/library.hpp"

#include <functional>
#include <map>
#include <mutex>

namespace hekla::plugin {

// Where plugins describe: a process of their own cannot take this one with it.
struct Processes {
    enum class Describe : int32_t {
        automatic,  // in a process of their own, but for those of the installation's own folder, which are trusted
        child,      // every plugin in a process of its own
        in_process, // none: for hosts that may start no processes
    };
    Describe describe = Describe::in_process;
    std::filesystem::path program; // hekla-describe; empty: beside this program, or in libexec/ beside its folder
    double seconds = 60.0;         // for one answer
    uint64_t memory_bytes = uint64_t{4} << 30; // of address space; 0: no limit
    // Whether collate and decode run in worker processes too, which are begun again when they die.
    bool isolate = false;
    // A plugin that crashes, hangs or throws while it describes is not used again by this registry.
    bool disable_blamed = false;
};

// Where Hekla's own plugins lie: lib/hekla/plugins beside the folder of the program or library that this engine is part
// of; empty where there is no such folder.
std::filesystem::path built_in_folder();

class Registry {
public:
    // Reads the manifests (*.json) of each folder, in order; an id that an earlier folder has wins, and `warnings` says
    // so. A damaged manifest is a warning, not an end: the others still work. Folders that do not exist, and folders,
    // manifests and libraries that others may write to, are refused with a warning. What is kept of all that lies in
    // `memory`, which must outlive the registry. Throws std::bad_alloc.
    static Registry scan(const std::vector<std::filesystem::path>& folders, Log log = {},
                         std::pmr::memory_resource* memory = std::pmr::new_delete_resource());
    // The same of manifests by their paths.
    static Registry of(const std::vector<std::filesystem::path>& manifests, Log log = {},
                       std::pmr::memory_resource* memory = std::pmr::new_delete_resource());
    Registry(Registry&&) noexcept;
    Registry& operator=(Registry&&) noexcept;
    ~Registry();

    struct Entry {
        const Manifest* manifest = nullptr;
        const Provided* provided = nullptr;
    };

    // The error names the nearest id, and those there are. Thread: any.
    Result<Entry> find(std::string_view interface_id, std::string_view id) const;
    Result<Entry> find_model_type(std::string_view model_type) const;
    // The architecture whose manifest knows this class of the reference implementation, and the class.
    Result<std::pair<Entry, const ReferenceClass*>> find_class(std::string_view class_name) const;

    // The plugin's table (hk_architecture, hk_objective, hk_head); loads the library if needed. Thread: any.
    Result<const void*> load(const Entry& entry) const;
    // find() and load() of what is known by its id alone.
    template<class Table>
    Result<const Table*> open(std::string_view interface_id, std::string_view id) const {
        HK_ASSIGN(const Entry entry, find(interface_id, id));
        HK_ASSIGN(const void* table, load(entry));
        return static_cast<const Table*>(table);
    }

    std::span<const Manifest> manifests() const { return manifests_; }
    // By its own path; null where there is none.
    const Manifest* manifest_at(std::string_view file) const;
    Texts warnings() const { return warnings_; }
    const Log& log() const { return log_; }

    // Before the first composition is made.
    void set_processes(Processes processes) { processes_ = std::move(processes); }
    const Processes& processes() const { return processes_; }

    // Told which function of which plugin is about to run, and when one came back which goes on; manifest null: none.
    using Witness = std::function<void(const Manifest* manifest, std::string_view function)>;
    void set_witness(Witness witness) { witness_ = std::move(witness); }
    // Called on the thread that enters (true) or leaves a function of a plugin in this process: for a report of a
    // crash. Set it before the first plugin is used.
    using CallObserver = std::function<void(const Manifest& manifest, std::string_view function, bool entered)>;
    void set_call_observer(CallObserver observer) { call_observer_ = std::move(observer); }

    // While this lives, a function of that plugin runs, for the witness and the call observer. Thread: with a witness
    // one at a time.
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

    // A plugin did, while it described, what none may do: "it crashed in build()". It is disabled where
    // Processes::disable_blamed says so, and the log says that. Thread: any.
    void blame(const Manifest& manifest, const std::string& why) const;
    // failed_precondition for a plugin that was disabled. Thread: any.
    Status check_enabled(const Manifest& manifest) const;
    // How many were blamed so far, and the manifest of the last. Thread: any.
    std::pair<std::size_t, const Manifest*> blamed() const;

private:
    Registry(Log log, std::pmr::memory_resource* memory);
    std::vector<Entry> entries(std::string_view interface_id) const;
    ReadOnlyArena kept_; // where the manifests and warnings lie
    std::span<const Manifest> manifests_;
    Texts warnings_;
    Log log_;
    Processes processes_;
    Witness witness_;
    CallObserver call_observer_;
    mutable std::pair<const Manifest*, std::string_view> running_{nullptr, {}}; // for the witness
    mutable std::unique_ptr<std::mutex> lock_;
    mutable std::map<std::string_view, std::string> disabled_; // library -> why
    mutable std::pair<std::size_t, const Manifest*> blamed_{0, nullptr};
    mutable std::map<std::string_view, Result<std::unique_ptr<Library>>> libraries_;
};

} // namespace hekla::plugin
