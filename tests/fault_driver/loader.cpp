// The fault driver as a Vulkan loader: with LD_LIBRARY_PATH set to a folder that contains it as libvulkan.so.1, any
// program uses it. The environment specifies the plan:
//     HEKLA_FAULTS="vkQueueSubmit2:120:-4 vkAllocateMemory:9:-2 memory=1000000000 allocation=100000000
//     hide=shaderFloat16"
// name:nth:VkResult, caps in bytes, hidden features. An invalid word ends the program, since no test may pass because
// its faults did not happen.
#include "fault_driver.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace {

void understand(const std::string& word, hekla::test::FaultPlan& plan) {
    const auto number = [&](const std::string& text) {
        char* end = nullptr;
        const long long value = std::strtoll(text.c_str(), &end, 10);
        if (text.empty() || *end != 0) {
            std::fprintf(stderr, "HEKLA_FAULTS: \"%s\" is not understood\n", word.c_str());
            std::_Exit(125);
        }
        return value;
    };
    if (const std::size_t equal = word.find('='); equal != std::string::npos) {
        const std::string key = word.substr(0, equal);
        const std::string value = word.substr(equal + 1);
        if (key == "memory") {
            plan.memory_cap = static_cast<uint64_t>(number(value));
        } else if (key == "allocation") {
            plan.allocation_cap = static_cast<uint64_t>(number(value));
        } else if (key == "hide") {
            plan.hidden_features.insert(value);
        } else {
            number("");
        }
        return;
    }
    const std::size_t first = word.find(':');
    const std::size_t second = word.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) number("");
    hekla::test::Fault fault;
    fault.name = word.substr(0, first);
    fault.nth = static_cast<uint64_t>(number(word.substr(first + 1, second - first - 1)));
    fault.result = static_cast<VkResult>(number(word.substr(second + 1)));
    plan.faults.push_back(fault);
}

struct FromEnvironment {
    FromEnvironment() {
        hekla::test::FaultPlan plan;
        const char* text = std::getenv("HEKLA_FAULTS");
        std::istringstream words(text ? text : "");
        for (std::string word; words >> word;) understand(word, plan);
        hekla::test::FaultDriver::get().reset(plan);
    }
};

} // namespace

extern "C" __attribute__((visibility("default"))) PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance,
                                                                                           const char* name) {
    static const FromEnvironment once;
    return hekla::test::FaultDriver::get_instance_proc_addr(instance, name);
}
