// Objects of hosts by number. A number is checked without touching memory that it may stand for, so that one of an
// object that is gone is an error and no crash. This table is the one thing in the engine that belongs to the process:
// only so can it be asked about any number at all.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace hekla::api {

// Of one type of objects. Whoever found one keeps it alive while it is used. Thread: any.
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
    // invalid_argument: `name` is what the caller calls it.
    Result<std::shared_ptr<T>> find(uint64_t id, const char* name) const {
        const std::lock_guard guard(mutex_);
        const auto found = objects_.find(id);
        if (found != objects_.end()) return found->second;
        if (id == 0) return invalid_argument(fmt::format("{} is null", name));
        if ((id & 0xFF) != T::kHandleKind || id >> 8 > last_)
            return invalid_argument(fmt::format("{} is no handle of that kind", name));
        return invalid_argument(fmt::format("{} was destroyed", name));
    }
    // Null where there is none.
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
