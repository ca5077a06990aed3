// A table of the host's objects by handle. A handle is checked without reading memory of the object, so that using the
// handle of a destroyed object is an error, not a crash. The table is global, the only global of the engine, so that
// any number can be checked.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace hekla::api {

// A table of one type of objects. find() shares ownership, so that an object stays alive while it is used. Thread: any.
template<class T>
class Handles {
public:
    static Handles& all() {
        static Handles table;
        return table;
    }

    uint64_t add(std::shared_ptr<T> object) {
        const std::lock_guard guard(mutex_);
        const uint64_t id = ++last_ << 8 | T::kHandleKind;
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
    mutable std::mutex mutex_;
    std::unordered_map<uint64_t, std::shared_ptr<T>> objects_;
    uint64_t last_ = 0;
};

} // namespace hekla::api
