// hk_session_set_scalar: step scalars that the host sets.
#include "api/session.hpp"

#include "train/step/step_scalars.hpp"

namespace hekla::api {

Status Session::set_scalar(const std::string& name, double value) {
    const std::lock_guard guard(mutex_);
    HK_TRY(failed_);
    if (ended()) return failed_precondition("the session has ended");
    if (!scalar_names_) return not_prepared();
    HK_TRY(train::check_step_scalar(*scalar_names_, name, value));
    scalars_[name] = value;
    return {};
}

void Session::publish_scalars(std::vector<std::string> names) {
    const std::lock_guard guard(mutex_);
    scalar_names_ = std::move(names);
}

std::map<std::string, double, std::less<>> Session::scalars() {
    const std::lock_guard guard(mutex_);
    return scalars_;
}

} // namespace hekla::api
