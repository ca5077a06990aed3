// What a call or a session works with.
#pragma once

#include "base/log.hpp"
#include "plugin/registry.hpp"
#include "program/program.hpp"
#include "program/runtime_source.hpp"
#include "program/shared_weights.hpp"

#include <functional>

namespace hekla::api {

struct CallEnvironment {
    const plugin::Registry& registry;
    const Log& log;
    program::RuntimeSource device;  // none: the interpreter
    std::function<bool()> stopping; // whether what runs should end
    bool own_threads = true;
    program::WeightsPool* weights = nullptr; // of the other sessions; null: none are shared
};

} // namespace hekla::api
