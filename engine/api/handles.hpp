// A table of the host's objects by handle. A handle is checked without reading memory of the object, so that using the
// handle of a destroyed object is an error, not a crash. The table is global, the only global of the engine, so that
// any number can be checked. It is never destroyed: threads may use it while the process exits, and a host's callbacks
// are not called then.
#pragma once

#include "base/host.hpp"
#include "base/status.hpp"

#include <atomic>
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace hekla::api {

// A table of one type of objects. find() shares ownership, so that an object stays alive while it is used. A forked
// child has a table of its own, because threads and locks of its parent do not exist there. Thread: any.
template<class T>
class Handles {
public:
    static Handles& all() {
        static std::atomic<Handles*> current{nullptr};
        Handles* table = current.load();
        const int64_t process = process_id();
        while (table == nullptr || table->process_ != process) {
            auto* const made = new Handles(process, table);
            if (current.compare_exchange_strong(table, made))
                table = made;
            else
                delete made;
        }
        return *table;
    }

    uint64_t add(std::shared_ptr<T> object) {
        const std::lock_guard guard(mutex_);
        const uint64_t number = last_.load(std::memory_order_relaxed) + 1;
        last_.store(number, std::memory_order_relaxed);
        const uint64_t id = number << 8 | T::kHandleKind;
        objects_.emplace(id, std::move(object));
        return id;
    }
    // Error: invalid_argument with `name`, the argument.
    Result<std::shared_ptr<T>> find(uint64_t id, const char* name) const {
        const std::lock_guard guard(mutex_);
        const auto found = objects_.find(id);
        if (found != objects_.end()) return found->second;
        if (id == 0) return invalid_argument(fmt::format("{} is null", name));
        if ((id & 0xFF) != T::kHandleKind || id >> 8 > last_)
            return invalid_argument(fmt::format("{} is not a handle of this kind of object", name));
        if (id >> 8 <= first_)
            return failed_precondition(
                fmt::format("{} was created before fork() in the process {}, this is its child {}: create a context in "
                            "the child",
                            name, parent_, process_));
        return invalid_argument(fmt::format("{} was destroyed", name));
    }
    // Returns null if there is none.
    std::shared_ptr<T> remove(uint64_t id) {
        const std::lock_guard guard(mutex_);
        const auto found = objects_.find(id);
        if (found == objects_.end()) return nullptr;
        std::shared_ptr<T> object = std::move(found->second);
        objects_.erase(found);
        return object;
    }

private:
    // parent: the table of the process that forked this one, of which only constants and atomics may be read; or null.
    Handles(int64_t process, const Handles* parent)
        : process_(process), parent_(parent != nullptr ? parent->process_ : 0),
          first_(parent != nullptr ? parent->last_.load() : 0), last_(first_) {}

    const int64_t process_, parent_;
    const uint64_t first_; // the parent's last number
    std::atomic<uint64_t> last_;
    mutable std::mutex mutex_;
    std::unordered_map<uint64_t, std::shared_ptr<T>> objects_;
};

} // namespace hekla::api
