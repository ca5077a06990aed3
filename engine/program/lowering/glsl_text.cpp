#include "program/lowering/glsl_text.hpp"

#include "kernels_texts.hpp"

#include <algorithm>

namespace hekla::program {

std::string expanded_glsl(std::string_view file, std::set<std::string, std::less<>>& seen) {
    std::string out;
    if (!seen.emplace(file).second) return out;
    std::string_view rest = embedded::kernels_text(file);
    constexpr std::string_view kInclude = "#include \"";
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
        const std::string_view line = rest.substr(0, end + 1);
        rest.remove_prefix(end + 1);
        if (line.starts_with(kInclude)) {
            const std::string_view name = line.substr(kInclude.size(), line.rfind('"') - kInclude.size());
            out += expanded_glsl(name, seen);
        } else {
            out += line;
        }
    }
    return out;
}

} // namespace hekla::program
