#include "text/splitter.hpp"

namespace hekla::text {

Result<Splitter> Splitter::compile(const std::string& pattern) {
    Splitter splitter(pattern);
    if (pattern == kGpt2Pattern) return splitter;
    HK_ASSIGN(splitter.regex_, Regex::compile(pattern));
    return splitter;
}

Splitter Splitter::gpt2() { return Splitter(std::string(kGpt2Pattern)); }

} // namespace hekla::text
