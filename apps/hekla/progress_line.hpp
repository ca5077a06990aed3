// The line of progress of a training.
#pragma once

#include "hekla/hekla.h"

#include <string>

namespace hekla::app {

// Returns "step 80/2000 | loss 2.5713 | norm 1.15 | lr 1.0e-03 | 41 ms | 18,700 tok/s | 12% of peak | ETA 1:20". If
// there are several losses, each follows the total in parentheses. Metrics follow the norm. columns: what does not fit
// is left out, the least important first.
std::string progress_line(const hk_train_step& step, std::size_t columns = std::string::npos);

} // namespace hekla::app
