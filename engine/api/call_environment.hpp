// Dependencies of one API call or session.
#pragma once

#include "base/log.hpp"
#include "base/stop_poll.hpp"
#include "program/runtime_source.hpp"

#include <functional>
#include <map>
#include <string>

namespace hekla::plugin {
class Registry;
}
namespace hekla::program {
class WeightsPool;
}

namespace hekla::api {

struct CallEnvironment {
    const plugin::Registry& registry;
    const Log& log;
    program::RuntimeSource device; // none: the interpreter
    StopPoll stop;
    bool own_threads = true;
    program::WeightsPool* weights = nullptr; // shared with the other sessions; null: not shared
    // Returns the step scalars that the host has set so far; empty: it cannot set any.
    std::function<std::map<std::string, double, std::less<>>()> scalars = {};
};

} // namespace hekla::api
