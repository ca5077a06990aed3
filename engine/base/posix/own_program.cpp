#include "base/own_program.hpp"

#include "base/posix/system_problem.hpp"

#include <sys/wait.h>
#include <unistd.h>

namespace hekla {

bool answer_of_copy(const std::function<bool()>& question) {
    int ends[2];
    if (::pipe(ends) != 0) return false;
    const pid_t child = ::fork();
    if (child == 0) {
        const char answer = question() ? 1 : 0;
        const ssize_t put = ::write(ends[1], &answer, 1);
        ::_exit(put == 1 ? 0 : 1);
    }
    ::close(ends[1]);
    char answer = 0;
    ssize_t got = 0;
    while (child > 0 && (got = ::read(ends[0], &answer, 1)) < 0 && errno == EINTR) {} // a signal interrupted it
    ::close(ends[0]);
    while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
    return got == 1 && answer == 1;
}

std::error_code become_program(std::vector<std::string> command) {
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(word.data());
    words.push_back(nullptr);
    ::execv(words[0], words.data());
    return last_problem();
}

} // namespace hekla
