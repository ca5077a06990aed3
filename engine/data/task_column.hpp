// A column of a task.
#pragma once

#include "data/text_template.hpp"
#include "hekla/plugin/example.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hekla::data {

// A column of the task and its source in the files.
struct TaskColumn {
    std::string name; // its name in the objective
    int32_t kind = HK_COLUMN_TOKENS;
    bool optional = false;
    bool target = false;                      // to be predicted
    std::string source;                       // ColumnRequest::source
    std::string prefix = {};                  // inserted before each of its texts
    std::vector<TextTemplate> templates = {}; // ColumnRequest::templates
};

} // namespace hekla::data
