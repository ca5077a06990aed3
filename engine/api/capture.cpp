#include "api/capture.hpp"

#include "api/arguments.hpp"
#include "api/boundary.hpp"
#include "base/stopwatch.hpp"
#include "base/system_file.hpp"

namespace hekla::api {

using nlohmann::ordered_json;

Result<std::shared_ptr<Capture>> Capture::begin(const std::string& path, const ordered_json& first, const Log& log) {
    std::error_code problem;
    FileHandle file = create_or_empty(path, problem);
    if (problem) return io_error(fmt::format("{}: {}", path, problem.message()));
    const std::shared_ptr<Capture> capture(new Capture(std::move(file), log));
    capture->write(first);
    return capture;
}

void Capture::write(const ordered_json& line) {
    // A piece of text may end in the middle of a character.
    const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    const std::lock_guard guard(mutex_);
    if (!file_.is_open()) return;
    // Written immediately, because the lines before a crash are the useful ones.
    const std::error_code problem = write_all(file_, text);
    if (!problem) return;
    file_.close();
    log_.warning(fmt::format("the capture of calls ends, because its file cannot be written: {}", problem.message()));
}

void Capture::call(const char* name, uint64_t session, ordered_json arguments, Clock::time_point begun, int32_t code,
                   const hk_error* error) {
    ordered_json line{{"at", seconds_between(begun_, begun)}, {"call", name}};
    if (session != 0) line["session"] = session >> 8; // without the kind of the handle
    line["arguments"] = std::move(arguments);
    line["code"] = code;
    if (code != HK_OK && error != nullptr) line["message"] = string_of(hk_error_message(error));
    line["seconds"] = seconds_since(begun);
    write(line);
}

void Capture::loss(uint64_t session, int64_t step, double loss) {
    ordered_json line{{"at", seconds_since(begun_)}};
    if (session != 0) line["session"] = session >> 8;
    line["step"] = step;
    line["loss"] = loss;
    write(line);
}

void Capture::text(uint64_t session, uint64_t row, hk_string piece) {
    ordered_json line{{"at", seconds_since(begun_)}};
    if (session != 0) line["session"] = session >> 8;
    line["row"] = row;
    line["text"] = string_of(piece);
    write(line);
}

namespace {

// A callback that only calls the host's: `user` is a Heard<O>.
template<auto member>
struct PassedOn;
template<class O, class R, class... A, R (HK_ABI* O::*member)(void* user, A...)>
struct PassedOn<member> {
    static R HK_ABI call(void* user, A... arguments) {
        const O& given = static_cast<const Heard<O>*>(user)->given();
        return (given.*member)(given.user, arguments...);
    }
};
template<auto member, class O>
void pass_on(O& heard, const O& given) {
    if (given.*member != nullptr) heard.*member = PassedOn<member>::call;
}

} // namespace

template<>
void Heard<hk_train_options>::hear() {
    options_.step = [](void* user, const hk_train_step* step) {
        const auto& to = *static_cast<Heard*>(user);
        to.capture_->loss(0, step->step, step->loss);
        if (to.given_->step != nullptr) to.given_->step(to.given_->user, step);
    };
    pass_on<&hk_train_options::evaluation>(options_, *given_);
    pass_on<&hk_train_options::message>(options_, *given_);
    pass_on<&hk_train_options::stop>(options_, *given_);
    pass_on<&hk_train_options::abandoned>(options_, *given_);
}

template<>
void Heard<hk_generate_options>::hear() {
    options_.text = [](void* user, uint64_t row, hk_string text) {
        const auto& to = *static_cast<Heard*>(user);
        to.capture_->text(0, row, text);
        if (to.given_->text != nullptr) to.given_->text(to.given_->user, row, text);
    };
    pass_on<&hk_generate_options::stop>(options_, *given_);
    pass_on<&hk_generate_options::token>(options_, *given_);
}

} // namespace hekla::api
