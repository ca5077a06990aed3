// A file system in memory, for trainings whose disk is full.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/mount.h>
#include <sys/statvfs.h>

namespace hekla::test {

// A small file system, if this process may mount one.
class SmallDisk {
public:
    SmallDisk(const std::filesystem::path& at, const std::string& size) : at_(at) {
        std::filesystem::create_directories(at);
        mounted_ = ::mount("tmpfs", at.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
    }
    ~SmallDisk() {
        if (mounted_) ::umount2(at_.c_str(), MNT_DETACH);
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;
    bool mounted() const { return mounted_; }
    // Leaves this many bytes free, in whole pages.
    bool leave(uint64_t bytes) const {
        struct statvfs now {};
        if (::statvfs(at_.c_str(), &now) != 0) return false;
        const uint64_t size = (now.f_blocks - now.f_bfree) * now.f_frsize + bytes;
        return ::mount("tmpfs", at_.c_str(), "tmpfs", MS_REMOUNT, ("size=" + std::to_string(size)).c_str()) == 0;
    }

private:
    std::filesystem::path at_;
    bool mounted_ = false;
};

} // namespace hekla::test
