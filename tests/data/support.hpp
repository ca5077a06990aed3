#pragma once

#include "../text/support.hpp"

namespace hekla::data::testing {

using namespace hekla::text::testing;

} // namespace hekla::data::testing
